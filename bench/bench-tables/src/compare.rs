//! `bench compare OLD NEW`: compares the medians of two results, and marks clear regressions and improvements.
//!
//! Either may be a folder: its results are repetitions of one measurement (`make bench-compare` alternates the two
//! sides, one repetition at a time, so that noise affects both).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::print::{figure, print_grid};
use crate::results::{Better, Column, Of, Results, Table, median};

/// Minimum difference that is marked, as a share.
const MARKED: f64 = 0.2;

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A result of `bench run`, or a folder of them
    pub old: PathBuf,
    /// The same, later
    pub new: PathBuf,

    /// Exit with status 1 if anything of ours got worse by more than this
    #[arg(long, value_name = "PERCENT")]
    pub fail_above: Option<f64>,
}

/// A cell present in both.
#[derive(Debug, PartialEq)]
struct Difference {
    row: String,
    column: String,
    old: f64,
    new: f64,
    /// By how much the new one is worse in the column's direction, as a share; negative: better. None if neither is.
    worse: Option<f64>,
    /// Whether the ranges of the repetitions overlap: it may be noise.
    overlap: bool,
}

pub fn run(arguments: &CompareArgs) -> Result<()> {
    let (old, new) = (read(&arguments.old)?, read(&arguments.new)?);
    let mut worst: Option<f64> = None;
    for (name, was) in &old.scenarios {
        let Some(is) = new.scenarios.get(name) else {
            println!("\n== {name}: only in {}", arguments.old.display());
            continue;
        };
        println!(
            "\n== {name}: {} ({}) -> {} ({})",
            was.commit, was.measured_at, is.commit, is.measured_at
        );
        if was.machine != is.machine {
            println!("   another machine: {} -> {}", was.machine.line(), is.machine.line());
        }
        if was.size != is.size {
            println!("   of another size: {:?} -> {:?}", was.size, is.size);
        }
        for table in &is.tables {
            let Some(before) = was.tables.iter().find(|before| before.key == table.key) else {
                continue;
            };
            let differences = differences(before, table);
            if differences.is_empty() {
                continue;
            }
            println!("\n{}", table.title);
            print_grid(&grid(table, &differences));
            for difference in differences {
                worst = worst.into_iter().chain(difference.worse).reduce(f64::max);
            }
        }
    }
    for name in new.scenarios.keys().filter(|name| !old.scenarios.contains_key(*name)) {
        println!("\n== {name}: only in {}", arguments.new.display());
    }
    if let (Some(limit), Some(worst)) = (arguments.fail_above, worst)
        && worst * 100.0 > limit
    {
        bail!(
            "something got worse by {:.0}%, which is more than {limit}%",
            worst * 100.0
        );
    }
    Ok(())
}

/// Reads a file, or all files of a folder as one.
fn read(path: &Path) -> Result<Results> {
    if !path.is_dir() {
        if !path.exists() {
            bail!("{} is not there", path.display());
        }
        return Results::read(path);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("reading {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut all = Results::default();
    for file in files {
        for (name, result) in Results::read(&file)?.scenarios {
            match all.scenarios.get_mut(&name) {
                Some(sum) => result.tables.iter().for_each(|table| add(&mut sum.tables, table)),
                None => {
                    all.scenarios.insert(name, result);
                }
            }
        }
    }
    if all.scenarios.is_empty() {
        bail!("{} holds no results", path.display());
    }
    Ok(all)
}

/// Adds the values of a further repetition.
fn add(tables: &mut Vec<Table>, further: &Table) {
    let Some(table) = tables.iter_mut().find(|table| table.key == further.key) else {
        return tables.push(further.clone());
    };
    for row in &further.rows {
        match table.rows.iter_mut().find(|known| known.label == row.label) {
            Some(known) => {
                for (column, values) in &row.cells {
                    known.cells.entry(column.clone()).or_default().extend(values);
                }
            }
            None => table.rows.push(row.clone()),
        }
    }
}

/// Returns every cell present in both tables, in the new one's order.
fn differences(old: &Table, new: &Table) -> Vec<Difference> {
    let empty = BTreeMap::new();
    let mut found = Vec::new();
    for row in &new.rows {
        let before = old
            .rows
            .iter()
            .find(|before| before.label == row.label)
            .map_or(&empty, |before| &before.cells);
        for column in &new.columns {
            if let (Some(was), Some(is)) = (before.get(&column.key), row.cells.get(&column.key))
                && let (Some(old), Some(new)) = (median(was), median(is))
            {
                found.push(Difference {
                    row: row.label.clone(),
                    column: column.key.clone(),
                    old,
                    new,
                    worse: worse(column, old, new),
                    overlap: least(was) <= greatest(is) && least(is) <= greatest(was),
                });
            }
        }
    }
    found
}

/// Only for ours: slower peers or limits are due to the machine.
fn worse(column: &Column, old: f64, new: f64) -> Option<f64> {
    if column.of != Of::Rejoin || old == 0.0 {
        return None;
    }
    let more = (new - old) / old;
    match column.better {
        Better::Higher => Some(-more),
        Better::Lower => Some(more),
        Better::Neither => None,
    }
}

fn grid(table: &Table, differences: &[Difference]) -> Vec<Vec<String>> {
    let heading = [table.rows_are.as_str(), "figure", "old", "new", "new/old", ""];
    let mut lines = vec![heading.iter().map(|text| (*text).to_owned()).collect()];
    for difference in differences {
        let column = table.columns.iter().find(|column| column.key == difference.column);
        let title = column.map_or(String::new(), |column| {
            let unit = if column.unit.is_empty() {
                String::new()
            } else {
                format!(" [{}]", column.unit)
            };
            format!("{}{unit}", column.title)
        });
        let ratio = if difference.old == 0.0 {
            "–".to_owned()
        } else {
            format!("{:.2}", difference.new / difference.old)
        };
        lines.push(vec![
            difference.row.clone(),
            title,
            figure(difference.old),
            figure(difference.new),
            ratio,
            mark(difference).to_owned(),
        ]);
    }
    lines
}

fn mark(difference: &Difference) -> &'static str {
    match (difference.worse, difference.overlap) {
        (Some(worse), false) if worse >= MARKED => "WORSE",
        (Some(worse), true) if worse >= MARKED => "worse? (ranges overlap)",
        (Some(worse), false) if worse <= -MARKED => "better",
        (Some(worse), true) if worse <= -MARKED => "better? (ranges overlap)",
        (Some(_) | None, _) => "",
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests;
