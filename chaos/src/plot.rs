//! Line charts as SVG: readable on light and dark backgrounds, without external scripts or fonts.

use std::fmt::Write as _;

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 280.0;
/// Margins for numbers (left), legend (right), title (top) and hours (bottom).
const LEFT: f64 = 60.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 30.0;
const STEPS: u32 = 4;
const COLOURS: [&str; 8] = [
    "#1f6feb", "#d97706", "#1a7f37", "#bf3989", "#8250df", "#b59b00", "#cf222e", "#8c959f",
];
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#59636e}.t{font-size:15px;font-weight:600;fill:#1f2328}.g{stroke:#d1d9e0}\
    .bg{fill:#fff}@media (prefers-color-scheme:dark){text{fill:#9198a1}.t{fill:#e6edf3}.g{stroke:#2b323b}.bg{fill:#0d1117}}";

/// A line: its name, and its values at the plot's times.
pub struct Line {
    pub name: String,
    pub values: Vec<f64>,
}

/// Draws lines over minutes.
pub fn svg(title: &str, minutes: &[f64], lines: &[Line]) -> String {
    let greatest = lines
        .iter()
        .flat_map(|line| &line.values)
        .copied()
        .fold(1.0_f64, f64::max);
    let top = nice(greatest);
    let last = minutes.last().copied().unwrap_or(1.0).max(0.1);
    let x = |minute: f64| LEFT + (WIDTH - LEFT - RIGHT) * minute / last;
    let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value / top);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{title}</title><style>{STYLE}</style>\
         <rect class=\"bg\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/><text class=\"t\" x=\"16\" y=\"22\">{title}</text>\n"
    );
    for step in 0..=STEPS {
        let share = f64::from(step) / f64::from(STEPS);
        let (value, minute) = (top * share, last * share);
        let _ = writeln!(
            out,
            "<line class=\"g\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{minute:.0} min</text>",
            WIDTH - RIGHT,
            y(value),
            y(value),
            LEFT - 6.0,
            y(value) + 4.0,
            x(minute),
            HEIGHT - 10.0
        );
    }
    for (nth, line) in lines.iter().enumerate() {
        let colour = COLOURS[nth % COLOURS.len()];
        let points: String = minutes
            .iter()
            .zip(&line.values)
            .map(|(minute, value)| format!("{:.1},{:.1} ", x(*minute), y(*value)))
            .collect();
        let at = TOP + 16.0 * nth as f64 + 8.0;
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/><rect x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" \
             fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            points.trim_end(),
            WIDTH - RIGHT + 12.0,
            at - 9.0,
            WIDTH - RIGHT + 27.0,
            at,
            line.name
        );
    }
    out.push_str("</svg>\n");
    out
}

/// Returns the next round number.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 5.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= value)
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([nice(7.0), nice(101.0), nice(0.9)], [8.0, 200.0, 1.0]);
    }
}
