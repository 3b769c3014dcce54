//! Charts as SVG, for the report: bars and lines over a linear or logarithmic axis. Readable on light and dark
//! backgrounds (with a media query), without scripts, fonts or other external resources.
//!
//! - `scale`  maps values to pixels
//! - `bars`   a group of horizontal bars per row of the table, with room for long names
//! - `lines`  a line per column, rows as points in order
//!
//! Each shows the median; a thin stroke reaches from the least value to the greatest.

mod bars;
mod lines;
mod scale;

use std::fmt::Write as _;

use crate::results::{Of, PlotKind, Table, median};

pub const WIDTH: f64 = 800.0;
const MARGIN: f64 = 16.0;
const TITLE_PX: f64 = 15.0;
const TEXT_PX: f64 = 12.0;
/// Mean width of a letter, as a share of the font size. Without a renderer: slightly too much is fine.
const LETTER: f64 = 0.58;
/// The same for bold letters.
const BOLD_LETTER: f64 = 0.64;
const LINE_PX: f64 = 15.0;
/// Colours of one kind of series (`Of`); further ones repeat them.
const COLOURS: [(char, usize); 3] = [('r', 3), ('p', 6), ('l', 2)];

const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}\
.t{font-size:15px;font-weight:600}.q{fill:#59636e}\
.g{stroke:#d1d9e0;stroke-width:1}.a{stroke:#818b98;stroke-width:1}.w{stroke:#1f2328;stroke-width:1.2;opacity:.65}\
.n{stroke-width:2}.v{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}.bg{fill:#fff}.d{stroke-dasharray:6 4}\
.r0{fill:#1f6feb;stroke:#1f6feb}.r1{fill:#54aeff;stroke:#54aeff}.r2{fill:#0a3069;stroke:#0a3069}\
.p0{fill:#d97706;stroke:#d97706}.p1{fill:#1a7f37;stroke:#1a7f37}.p2{fill:#bf3989;stroke:#bf3989}\
.p3{fill:#8250df;stroke:#8250df}.p4{fill:#b59b00;stroke:#b59b00}.p5{fill:#cf222e;stroke:#cf222e}\
.l0{fill:#8c959f;stroke:#8c959f}.l1{fill:#bcc3cb;stroke:#bcc3cb}\
.n{fill:none}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.q{fill:#9198a1}.bg{fill:#0d1117}.v{stroke:#0d1117}\
.g{stroke:#2b323b}.a{stroke:#6e7681}.w{stroke:#e6edf3}\
.r0{fill:#58a6ff;stroke:#58a6ff}.r1{fill:#a5d6ff;stroke:#a5d6ff}.r2{fill:#388bfd;stroke:#388bfd}\
.p0{fill:#f0a030;stroke:#f0a030}.p1{fill:#3fb950;stroke:#3fb950}.p2{fill:#f778ba;stroke:#f778ba}\
.p3{fill:#bc8cff;stroke:#bc8cff}.p4{fill:#e3c93c;stroke:#e3c93c}.p5{fill:#ff7b72;stroke:#ff7b72}\
.l0{fill:#8b949e;stroke:#8b949e}.l1{fill:#565d66;stroke:#565d66}.n{fill:none}}";

/// The drawn part of a table.
pub struct Chart {
    title: String,
    rows_are: String,
    /// The values' unit; a chart has one.
    unit: String,
    kind: PlotKind,
    log: bool,
    rows: Vec<String>,
    series: Vec<Series>,
}

struct Series {
    name: String,
    /// The class in the style sheet.
    class: String,
    dashed: bool,
    /// By row; None if not measured.
    points: Vec<Option<Point>>,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    least: f64,
    middle: f64,
    greatest: f64,
}

impl Chart {
    /// Returns the table's plot. None: it has none, or nothing was measured. Columns with another unit than the first
    /// are omitted: they don't fit its axis.
    pub fn of(table: &Table) -> Option<Self> {
        let plot = table.plot.as_ref()?;
        let mut columns = plot
            .columns
            .iter()
            .filter_map(|key| table.columns.iter().find(|column| column.key == *key))
            .peekable();
        let unit = columns.peek()?.unit.clone();
        let mut used = [0_usize; COLOURS.len()];
        let mut series: Vec<Series> = Vec::new();
        for column in columns.filter(|column| column.unit == unit) {
            let points: Vec<Option<Point>> = table
                .rows
                .iter()
                .map(|row| row.cells.get(&column.key).and_then(|values| point(values)))
                .collect();
            if points.iter().all(Option::is_none) {
                continue;
            }
            let kind = match column.of {
                Of::Rejoin => 0,
                Of::Peer => 1,
                Of::Limit => 2,
            };
            let (letter, colours) = COLOURS[kind];
            series.push(Series {
                name: column.title.clone(),
                class: format!("{letter}{}", used[kind] % colours),
                dashed: column.of == Of::Limit,
                points,
            });
            used[kind] += 1;
        }
        if series.is_empty() {
            return None;
        }
        Some(Self {
            title: table.title.clone(),
            rows_are: table.rows_are.clone(),
            unit,
            kind: plot.kind,
            log: plot.log,
            rows: table.rows.iter().map(|row| row.label.clone()).collect(),
            series,
        })
    }

    pub fn svg(&self) -> String {
        match self.kind {
            PlotKind::Bars => bars::draw(self),
            PlotKind::Lines => lines::draw(self),
        }
    }

    /// Returns all values that an axis must cover.
    fn values(&self) -> impl Iterator<Item = f64> {
        let points = self.series.iter().flat_map(|series| series.points.iter().flatten());
        points.flat_map(|point| [point.least, point.middle, point.greatest])
    }

    /// Returns the name of the value axis.
    fn axis(&self, log: bool) -> String {
        let name = match self.series.as_slice() {
            [only] if self.unit.is_empty() => only.name.clone(),
            [only] => format!("{} [{}]", only.name, self.unit),
            _ => self.unit.clone(),
        };
        if log {
            format!("{name} (logarithmic scale)")
        } else {
            name
        }
    }
}

fn point(values: &[f64]) -> Option<Point> {
    Some(Point {
        middle: median(values)?,
        least: values.iter().copied().fold(f64::INFINITY, f64::min),
        greatest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

/// A drawing in progress: `y` is its current bottom.
struct Canvas {
    body: String,
    y: f64,
}

impl Canvas {
    /// With title and legend (for more than one series).
    fn begin(chart: &Chart) -> Self {
        let mut canvas = Self {
            body: String::new(),
            y: MARGIN,
        };
        for line in wrap(&chart.title, WIDTH - 2.0 * MARGIN, TITLE_PX * BOLD_LETTER / LETTER) {
            canvas.y += TITLE_PX + 3.0;
            canvas.text(MARGIN, canvas.y, "t", &line);
        }
        canvas.y += 12.0;
        if chart.series.len() > 1 {
            canvas.legend(chart);
        }
        canvas
    }

    fn legend(&mut self, chart: &Chart) {
        const SWATCH: f64 = 12.0;
        let mut x = MARGIN;
        self.y += LINE_PX;
        for series in &chart.series {
            let width = SWATCH + 6.0 + text_width(&series.name, TEXT_PX) + 18.0;
            if x > MARGIN && x + width > WIDTH - MARGIN {
                x = MARGIN;
                self.y += LINE_PX + 3.0;
            }
            match chart.kind {
                PlotKind::Bars => self.rect(x, self.y - 10.0, SWATCH, SWATCH, &series.class),
                PlotKind::Lines => {
                    let dash = if series.dashed { " d" } else { "" };
                    self.line(
                        (x - 2.0, self.y - 4.0),
                        (x + SWATCH + 2.0, self.y - 4.0),
                        &format!("{} n{dash}", series.class),
                    );
                    self.dot(x + SWATCH / 2.0, self.y - 4.0, &series.class);
                }
            }
            self.text(x + SWATCH + 6.0, self.y, "", &series.name);
            x += width;
        }
        self.y += 8.0;
    }

    fn text(&mut self, x: f64, y: f64, attributes: &str, text: &str) {
        let attributes = match attributes {
            "" => String::new(),
            class if !class.contains('=') => format!(" class=\"{class}\""),
            other => format!(" {other}"),
        };
        let _ = write!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\"{attributes}>{}</text>",
            escape(text)
        );
    }

    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        let _ = write!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{class}\"/>"
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            self.body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        );
    }

    fn dot(&mut self, x: f64, y: f64, class: &str) {
        let _ = write!(
            self.body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" class=\"{class}\"/>"
        );
    }

    fn finish(self, title: &str) -> String {
        let height = (self.y + MARGIN).ceil();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             role=\"img\"><title>{}</title><style>{STYLE}</style>\
             <rect class=\"bg\" width=\"100%\" height=\"100%\" rx=\"6\"/>{}</svg>\n",
            escape(title),
            self.body
        )
    }
}

fn text_width(text: &str, px: f64) -> f64 {
    text.chars().count() as f64 * px * LETTER
}

/// Wraps whole words to lines of about this width.
fn wrap(text: &str, width: f64, px: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, px) + text_width(word, px) + px * LETTER <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
