//! Results of measurements. A result consists of tables of values: each cell holds one value per repetition. Ratios are
//! computed from medians for display; claims compare one figure with its bound.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// One run of the suite.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Results {
    /// By the scenario's name.
    pub scenarios: BTreeMap<String, ScenarioResult>,
}

/// The results of one scenario.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ScenarioResult {
    pub about: String,
    /// The machine, commit, date and size of the measurement. Scenarios of one file may differ: each records its own.
    pub machine: Machine,
    pub commit: String,
    pub measured_at: String,
    pub size: Size,
    pub reps: u32,
    /// Duration, in seconds.
    pub took_s: f64,
    pub tables: Vec<Table>,
    pub claims: Vec<Claim>,
    /// Notes for readers of the tables: settings, differences, and what was skipped and why.
    pub notes: Vec<String>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Seconds in all: that it works.
    Smoke,
    /// What `make bench` does.
    #[default]
    Full,
    /// Also what takes very long.
    Large,
}

/// Rows of varied parameters, columns of measurements.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Table {
    /// Unique within the scenario; letters, digits and `-`.
    pub key: String,
    pub title: String,
    /// Heading of the first column: the varied parameter.
    pub rows_are: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// The plot in the report, if any.
    pub plot: Option<Plot>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Column {
    pub key: String,
    pub title: String,
    pub unit: String,
    pub better: Better,
    /// Whose figure it is.
    pub of: Of,
    /// The key of the column for this one's ratio: its peer or limit.
    pub ratio_to: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Higher,
    Lower,
    /// For information only.
    Neither,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    Rejoin,
    Peer,
    Limit,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub label: String,
    /// One value per repetition, by the column's key. Missing: not measured.
    pub cells: BTreeMap<String, Vec<f64>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plot {
    pub kind: PlotKind,
    /// Keys of the drawn columns, in order.
    pub columns: Vec<String>,
    /// Logarithmic scale of values.
    pub log: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlotKind {
    /// A group of bars per row.
    Bars,
    /// A line per column, rows as points in order.
    Lines,
}

/// A target figure of Rejoin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Claim {
    /// E.g. "append -> HTTP reader, 100 runs x 50/s: p99".
    pub what: String,
    pub unit: String,
    pub bound: f64,
    /// Higher: at least the bound. Lower: at most.
    pub better: Better,
    /// One value per repetition; None if it could not be measured (a missing peer).
    pub values: Vec<f64>,
    /// Why it is missed, with the measurement of the obstacle.
    pub why_not: Option<String>,
}

impl Claim {
    /// Adds the obstacle, shown on the page if the claim is missed.
    pub fn unless(mut self, what_stands_in_the_way: impl Into<String>) -> Self {
        self.why_not = Some(what_stands_in_the_way.into());
        self
    }

    pub fn value(&self) -> Option<f64> {
        median(&self.values)
    }

    /// None: not measured.
    pub fn holds(&self) -> Option<bool> {
        self.value().map(|value| match self.better {
            Better::Higher => value >= self.bound,
            Better::Lower => value <= self.bound,
            Better::Neither => true,
        })
    }
}

impl Table {
    pub fn new(key: &str, title: &str, rows_are: &str, columns: Vec<Column>) -> Self {
        Self {
            key: key.to_owned(),
            title: title.to_owned(),
            rows_are: rows_are.to_owned(),
            columns,
            rows: Vec::new(),
            plot: None,
        }
    }

    pub fn plot(mut self, kind: PlotKind, columns: &[&str], log: bool) -> Self {
        let columns = columns.iter().map(|&key| key.to_owned()).collect();
        self.plot = Some(Plot { kind, columns, log });
        self
    }

    /// Removes columns without measurements: a peer that is not installed or not requested.
    pub fn measured(mut self) -> Self {
        let empty = |key: &String| self.rows.iter().all(|row| !row.cells.contains_key(key));
        let gone: Vec<String> = self
            .columns
            .iter()
            .map(|column| column.key.clone())
            .filter(empty)
            .collect();
        self.columns.retain(|column| !gone.contains(&column.key));
        for column in &mut self.columns {
            column.ratio_to = column.ratio_to.take().filter(|other| !gone.contains(other));
        }
        if let Some(plot) = &mut self.plot {
            plot.columns.retain(|column| !gone.contains(column));
        }
        self
    }

    pub fn values(&self, row: &str, column: &str) -> &[f64] {
        self.rows
            .iter()
            .find(|candidate| candidate.label == row)
            .and_then(|row| row.cells.get(column))
            .map_or(&[], Vec::as_slice)
    }
}

impl Column {
    pub fn new(key: &str, title: &str, unit: &str, better: Better, of: Of) -> Self {
        Self {
            key: key.to_owned(),
            title: title.to_owned(),
            unit: unit.to_owned(),
            better,
            of,
            ratio_to: None,
        }
    }

    pub fn ratio_to(mut self, column: &str) -> Self {
        self.ratio_to = Some(column.to_owned());
        self
    }
}

/// The middle value, the mean of the two middle ones of an even number.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => sorted.get(middle).copied(),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

impl Results {
    /// Empty if the file does not exist.
    pub fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a result of this program", path.display()))
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }
}

pub mod example;
#[cfg(test)]
mod tests;
