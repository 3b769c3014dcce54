//! Results as tables for a terminal.

use crate::results::{Better, Claim, Column, Row, ScenarioResult, Table, median};

pub fn scenario(result: &ScenarioResult) {
    for table in result.tables.iter().filter(|table| !table.rows.is_empty()) {
        println!("\n{}", table.title);
        print_grid(&grid(table));
    }
    for claim in &result.claims {
        let verdict = match claim.holds() {
            Some(true) => "holds",
            Some(false) => "NOT HELD",
            None => "not measured",
        };
        println!(
            "  {verdict:<12} {}: {} ({})",
            claim.what,
            measured(&claim.values),
            bound(claim)
        );
    }
    for note in &result.notes {
        println!("  note: {note}");
    }
    println!("  took {:.0} s", result.took_s);
}

/// Returns cells as text, the heading first.
pub fn grid(table: &Table) -> Vec<Vec<String>> {
    let mut heading = vec![table.rows_are.clone()];
    for column in &table.columns {
        heading.push(if column.unit.is_empty() {
            column.title.clone()
        } else {
            format!("{} [{}]", column.title, column.unit)
        });
        if let Some(other) = ratio_title(table, column) {
            heading.push(other);
        }
    }
    let mut lines = vec![heading];
    for row in &table.rows {
        let mut line = vec![row.label.clone()];
        for column in &table.columns {
            line.push(cell(row, column));
            if column.ratio_to.is_some() {
                line.push(ratio(row, column).map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")));
            }
        }
        lines.push(line);
    }
    lines
}

fn ratio_title(table: &Table, column: &Column) -> Option<String> {
    let other = column.ratio_to.as_ref()?;
    let other = table.columns.iter().find(|candidate| candidate.key == *other)?;
    Some(format!("of {}", other.title))
}

/// Returns the ratio of two medians in one row.
pub fn ratio(row: &Row, column: &Column) -> Option<f64> {
    let ours = median(row.cells.get(&column.key)?)?;
    let other = median(row.cells.get(column.ratio_to.as_ref()?)?)?;
    (other != 0.0).then(|| ours / other)
}

fn cell(row: &Row, column: &Column) -> String {
    measured(row.cells.get(&column.key).map_or(&[], Vec::as_slice))
}

impl Table {
    /// Formats the median of a cell.
    pub fn cell_text(&self, row: &str, column: &str) -> String {
        median(self.values(row, column)).map_or_else(|| "–".to_owned(), figure)
    }
}

/// Formats median and range of the repetitions.
pub fn measured(values: &[f64]) -> String {
    let Some(middle) = median(values) else {
        return "–".to_owned();
    };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.len() == 1 {
        figure(middle)
    } else {
        format!("{} ({}–{})", figure(middle), figure(low), figure(high))
    }
}

/// Formats a claim's bound: `≤ 15.0 ms`.
pub fn bound(claim: &Claim) -> String {
    let sign = match claim.better {
        Better::Higher => "≥ ",
        Better::Lower => "≤ ",
        Better::Neither => "",
    };
    format!("{sign}{} {}", figure(claim.bound), claim.unit)
        .trim_end()
        .to_owned()
}

/// Three significant digits or whole numbers with separators.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        let whole = format!("{:.0}", size);
        let mut out = String::new();
        for (index, digit) in whole.chars().enumerate() {
            if index > 0 && (whole.len() - index).is_multiple_of(3) {
                out.push(',');
            }
            out.push(digit);
        }
        if value < 0.0 { format!("-{out}") } else { out }
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 || size == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A number of things.
pub fn count(number: usize) -> String {
    if number < 100 {
        number.to_string()
    } else {
        figure(number as f64)
    }
}

pub fn print_grid(lines: &[Vec<String>]) {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let mut text = String::new();
        for (index, cell) in line.iter().enumerate() {
            let pad = " ".repeat(widths[index] - cell.chars().count());
            if index == 0 {
                text += &format!("  {cell}{pad}");
            } else {
                text += &format!("  {pad}{cell}");
            }
        }
        println!("{}", text.trim_end());
    }
}
