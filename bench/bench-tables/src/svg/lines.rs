//! Lines: a line per series, rows as equidistant points in order.

use std::fmt::Write as _;

use super::bars::figure_of_tick;
use super::scale::Scale;
use super::{Canvas, Chart, LINE_PX, MARGIN, Series, TEXT_PX, WIDTH, text_width, wrap};

const PLOT_PX: f64 = 260.0;
/// Space left of the axis: its numbers, and its vertical name.
const NUMBERS_PX: f64 = 74.0;
/// Slope of row names that don't fit side by side, in degrees.
const SLOPE: f64 = 30.0;

pub fn draw(chart: &Chart) -> String {
    let mut canvas = Canvas::begin(chart);
    let (top, left, right) = (canvas.y + 6.0, MARGIN + NUMBERS_PX, WIDTH - MARGIN - 8.0);
    let bottom = top + PLOT_PX;
    let scale = Scale::of(chart.values(), chart.log, bottom, top);
    for tick in scale.ticks() {
        let y = scale.at(tick);
        canvas.line((left, y), (right, y), "g");
        canvas.text(
            left - 8.0,
            y + 4.0,
            "class=\"q\" text-anchor=\"end\"",
            &figure_of_tick(tick),
        );
    }
    canvas.line((left, bottom), (right, bottom), "a");
    let (x, y) = (MARGIN + 10.0, (top + bottom) / 2.0);
    let upwards = format!("class=\"q\" text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} {y:.1})\"");
    canvas.text(x, y, &upwards, &chart.axis(scale.is_log()));

    let slot = (right - left) / chart.rows.len() as f64;
    let at = |index: usize| left + slot * (index as f64 + 0.5);
    canvas.y = bottom + names(&mut canvas, chart, bottom, slot, at);
    canvas.text(
        (left + right) / 2.0,
        canvas.y,
        "class=\"q\" text-anchor=\"middle\"",
        &chart.rows_are,
    );
    for series in &chart.series {
        line(&mut canvas, series, &scale, at);
    }
    canvas.finish(&chart.title)
}

/// Draws the rows' names below the axis, wrapped if they fit; returns the offset of the next text.
fn names(canvas: &mut Canvas, chart: &Chart, bottom: f64, slot: f64, at: impl Fn(usize) -> f64) -> f64 {
    let room = slot - 8.0;
    let wrapped: Vec<Vec<String>> = chart.rows.iter().map(|row| wrap(row, room, TEXT_PX)).collect();
    let level = wrapped.iter().flatten().all(|line| text_width(line, TEXT_PX) <= room);
    for (index, row) in chart.rows.iter().enumerate() {
        let (x, mut y) = (at(index), bottom + LINE_PX + 2.0);
        canvas.line((x, bottom), (x, bottom + 4.0), "a");
        if level {
            for line in &wrapped[index] {
                canvas.text(x, y, "text-anchor=\"middle\"", line);
                y += LINE_PX;
            }
        } else {
            let slanted = format!("text-anchor=\"end\" transform=\"rotate(-{SLOPE} {x:.1} {y:.1})\"");
            canvas.text(x, y, &slanted, row);
        }
    }
    let depth = if level {
        wrapped.iter().map(Vec::len).max().unwrap_or_default() as f64 * LINE_PX
    } else {
        let widest = chart
            .rows
            .iter()
            .map(|row| text_width(row, TEXT_PX))
            .fold(0.0, f64::max);
        widest * SLOPE.to_radians().sin() + LINE_PX
    };
    depth + LINE_PX + 8.0
}

/// Connects neighbours that were both measured.
fn line(canvas: &mut Canvas, series: &Series, scale: &Scale, at: impl Fn(usize) -> f64) {
    let mut path = String::new();
    let mut before = false;
    for (index, point) in series.points.iter().enumerate() {
        let Some(point) = point else {
            before = false;
            continue;
        };
        let (x, y) = (at(index), scale.at(point.middle));
        let _ = write!(path, "{}{x:.1} {y:.1}", if before { 'L' } else { 'M' });
        before = true;
        if point.least < point.greatest {
            canvas.line(
                (x, scale.at(point.least)),
                (x, scale.at(point.greatest)),
                &format!("{} n", series.class),
            );
        }
    }
    let dash = if series.dashed { " d" } else { "" };
    let _ = write!(canvas.body, "<path d=\"{path}\" class=\"{} n{dash}\"/>", series.class);
    for (index, point) in series.points.iter().enumerate() {
        if let Some(point) = point {
            canvas.dot(at(index), scale.at(point.middle), &series.class);
        }
    }
}
