//! Grouped horizontal bars: a group per row, a bar per series, its value at its end.

use super::scale::Scale;
use super::{Canvas, Chart, LINE_PX, MARGIN, TEXT_PX, WIDTH, text_width, wrap};
use crate::print::figure;

const BAR_PX: f64 = 14.0;
/// Gaps between bars, and between groups.
const GAP_PX: f64 = 2.0;
const GROUP_GAP_PX: f64 = 12.0;
/// Maximum width of row names.
const NAMES_MAX_PX: f64 = 250.0;
/// Space right of the longest bar, for its value.
const VALUE_PX: f64 = 64.0;

pub fn draw(chart: &Chart) -> String {
    let mut canvas = Canvas::begin(chart);
    let longest = chart
        .rows
        .iter()
        .map(|row| text_width(row, TEXT_PX))
        .fold(0.0, f64::max);
    let names = longest.min(NAMES_MAX_PX);
    let left = MARGIN + names + 10.0;
    let right = WIDTH - MARGIN - VALUE_PX;
    let scale = Scale::of(chart.values(), chart.log, left, right);

    // Groups first (which determines their height), grid lines behind them.
    let top = canvas.y + 6.0;
    let mut groups = Canvas {
        body: String::new(),
        y: top + GROUP_GAP_PX / 2.0,
    };
    for (index, row) in chart.rows.iter().enumerate() {
        group(&mut groups, chart, index, row, &scale, names);
    }
    let bottom = groups.y - GROUP_GAP_PX / 2.0;
    for tick in scale.ticks() {
        let x = scale.at(tick);
        canvas.line((x, top), (x, bottom), "g");
        canvas.text(
            x,
            bottom + LINE_PX,
            "class=\"q\" text-anchor=\"middle\"",
            &figure_of_tick(tick),
        );
    }
    canvas.line((left, top), (left, bottom), "a");
    canvas.body.push_str(&groups.body);
    canvas.y = bottom + 2.0 * LINE_PX + 4.0;
    let axis = chart.axis(scale.is_log());
    canvas.text(
        (left + right) / 2.0,
        canvas.y,
        "class=\"q\" text-anchor=\"middle\"",
        &axis,
    );
    canvas.finish(&chart.title)
}

fn group(canvas: &mut Canvas, chart: &Chart, index: usize, row: &str, scale: &Scale, names: f64) {
    // Series without a value here take no space.
    let bars: Vec<_> = chart
        .series
        .iter()
        .filter_map(|series| Some((series, series.points.get(index).copied().flatten()?)))
        .collect();
    let lines = wrap(row, names + 1.0, TEXT_PX);
    let bars_px = bars.len() as f64 * (BAR_PX + GAP_PX) - GAP_PX;
    let names_px = lines.len() as f64 * LINE_PX;
    let height = bars_px.max(names_px);

    let mut y = canvas.y + (height - names_px) / 2.0 + TEXT_PX - 1.0;
    for line in lines {
        canvas.text(MARGIN + names, y, "text-anchor=\"end\"", &line);
        y += LINE_PX;
    }
    let mut y = canvas.y + (height - bars_px) / 2.0;
    let zero = MARGIN + names + 10.0;
    for (series, point) in bars {
        let end = scale.at(point.middle);
        canvas.rect(zero, y, (end - zero).max(1.0), BAR_PX, &series.class);
        let mut label_at = end;
        if point.least < point.greatest {
            let middle = y + BAR_PX / 2.0;
            canvas.line((scale.at(point.least), middle), (scale.at(point.greatest), middle), "w");
            label_at = scale.at(point.greatest);
        }
        canvas.text(label_at + 5.0, y + BAR_PX - 3.0, "v", &figure(point.middle));
        y += BAR_PX + GAP_PX;
    }
    canvas.y += height + GROUP_GAP_PX;
}

/// Formats a round number without superfluous digits.
pub fn figure_of_tick(tick: f64) -> String {
    if tick >= 1_000_000.0 {
        return format!("{} M", trimmed(tick / 1_000_000.0));
    }
    if tick >= 100.0 {
        return figure(tick);
    }
    trimmed(tick)
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
