//! `bench report`: generates docs/reports/performance.md and its plots from the results stored with the sources. To
//! change the text, edit this code or the scenarios.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::print;
use crate::results::{Claim, Of, Results, ScenarioResult, Size, Table};
use crate::svg::Chart;

/// The page, and the folder of its plots, below the folder of reports.
const PAGE: &str = "performance.md";
const PLOTS: &str = "performance";
/// How the names of flame graphs in that folder begin, which `make flame` draws: the scenario and the program follow.
const FLAME: &str = "flame-";

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Results of `bench run`
    #[arg(default_value = "bench/results/latest.json")]
    pub results: PathBuf,

    /// Where the page and its plots go
    #[arg(long, default_value = "docs/reports")]
    pub docs: PathBuf,
}

/// A plot: its file's name, and its content.
type Plot = (String, String);

/// Writes the page and its plots. Scenarios come in `order`.
pub fn write(arguments: &ReportArgs, order: &[&str]) -> Result<()> {
    let results = Results::read(&arguments.results)?;
    let folder = arguments.docs.join(PLOTS);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let flames = remove_plots(&folder)?;
    let (page, plots) = render(&results, order, &flames);
    for (name, svg) in plots {
        put(&folder.join(name), &svg)?;
    }
    put(&arguments.docs.join(PAGE), &page)
}

fn put(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Removes plots, also those of deleted tables. Returns the names of flame graphs, which stay.
fn remove_plots(folder: &Path) -> Result<Vec<String>> {
    let mut flames = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(FLAME) {
            flames.push(name);
        } else if name.ends_with(".svg") {
            std::fs::remove_file(entry.path()).with_context(|| format!("removing {name}"))?;
        }
    }
    flames.sort();
    Ok(flames)
}

/// Renders the page and its plots. Scenarios come in `order`; deleted ones come last.
fn render(results: &Results, order: &[&str], flames: &[String]) -> (String, Vec<Plot>) {
    let mut scenarios: Vec<(&str, &ScenarioResult)> = results
        .scenarios
        .iter()
        .map(|(name, result)| (name.as_str(), result))
        .collect();
    scenarios.sort_by_key(|(name, _)| order.iter().position(|known| known == name).unwrap_or(order.len()));

    let mut page = String::from(
        "<!-- Made by `bench report` from bench/results/latest.json. Change bench/bench-tables/src/report.rs or a scenario, not this page. -->\n\
         # Performance\n\n\
         Throughput, latency and cost of Rejoin, compared with its peers and with the limits of the machine and PostgreSQL.\n\
         `make bench` repeats the measurements and writes this page.\n",
    );
    claims(&mut page, &scenarios);
    how_to_read(&mut page);
    conditions(&mut page, &scenarios);
    let mut plots = Vec::new();
    for (name, result) in &scenarios {
        scenario(&mut page, name, result, &mut plots);
        show_flames(&mut page, name, flames);
    }
    (page, plots)
}

/// Renders the claims with their results.
fn claims(page: &mut String, scenarios: &[(&str, &ScenarioResult)]) {
    let all: Vec<(&str, &Claim)> = scenarios
        .iter()
        .flat_map(|(name, result)| result.claims.iter().map(|claim| (*name, claim)))
        .collect();
    page.push_str("\n## Claims: held or not\n\n");
    if all.is_empty() {
        page.push_str("No measured scenario has a claim.\n");
        return;
    }
    page.push_str(
        "| held | claim | bound | measured: median (least–greatest) | scenario |\n| --- | --- | --- | --- | --- |\n",
    );
    for (name, claim) in &all {
        let held = match claim.holds() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not measured",
        };
        let _ = writeln!(
            page,
            "| {held} | {} | {} | {} | [{name}](#{name}) |",
            cell(&claim.what),
            cell(&print::bound(claim)),
            print::measured(&claim.values)
        );
    }
    let not_held: Vec<&Claim> = all
        .iter()
        .map(|(_, claim)| *claim)
        .filter(|claim| claim.holds() == Some(false))
        .collect();
    if not_held.is_empty() {
        return;
    }
    page.push_str("\n### Not held, and why\n");
    for claim in not_held {
        let why = claim.why_not.as_deref().unwrap_or("The reason is not known yet.");
        let _ = writeln!(page, "\n**{}.** {}", claim.what, paragraph(why));
    }
}

fn how_to_read(page: &mut String) {
    page.push_str(
        "\n## How to read the tables\n\n\
         - A cell is the median of all repetitions, with the least and the greatest value in parentheses. \"–\": not measured.\n\
         - Columns of Rejoin are **bold**, limits of the machine or PostgreSQL *italic*, peers plain. A column \"of X\"\n\
         \x20 is the ratio of the previous column to X, of medians of the same run. Machines are noisy, and measurements of one run\n\
         \x20 are affected equally, so ratios are more reliable than absolute figures.\n\
         - Latencies count from the scheduled time (open loop), even if the previous operation has not finished: a stall\n\
         \x20 counts for everything that was scheduled in the meantime. p99: 99 of 100 were no later.\n\
         - PostgreSQL is durable everywhere (`fsync`, `synchronous_commit` and `full_page_writes` on), for peers too. Load, server and\n\
         \x20 database share the machine's cores.\n\
         - Differences between the compared systems are listed below their table.\n\n\
         To find regressions of a change: `make bench-compare BASE=main`. One scenario: `make bench SCENARIO=name`;\n\
         the scenarios that take an hour: `make bench-scale`.\n",
    );
}

/// Renders where, when and what was measured.
fn conditions(page: &mut String, scenarios: &[(&str, &ScenarioResult)]) {
    page.push_str("\n## What was measured\n\n");
    let mut machines: Vec<String> = Vec::new();
    for (_, result) in scenarios {
        let line = result.machine.line();
        if !machines.contains(&line) {
            machines.push(line);
        }
    }
    let several = machines.len() > 1;
    for (index, line) in machines.iter().enumerate() {
        if several {
            let _ = writeln!(page, "{}. {line}", index + 1);
        } else {
            let _ = writeln!(page, "{line}.");
        }
    }
    page.push_str("\n| scenario | what | commit | on | repetitions | took |");
    page.push_str(if several { " machine |\n" } else { "\n" });
    page.push_str("| --- | --- | --- | --- | ---: | ---: |");
    page.push_str(if several { " ---: |\n" } else { "\n" });
    for (name, result) in scenarios {
        let size = match result.size {
            Size::Smoke => " (**smoke: no figures**)",
            Size::Full => "",
            Size::Large => " (large)",
        };
        let _ = write!(
            page,
            "| [{name}](#{name}){size} | {} | {} | {} | {} | {:.0} s |",
            cell(&result.about),
            result.commit,
            result.measured_at,
            result.reps,
            result.took_s
        );
        if several {
            let line = result.machine.line();
            let _ = write!(
                page,
                " {} |",
                machines.iter().position(|other| *other == line).unwrap_or_default() + 1
            );
        }
        page.push('\n');
    }
}

fn scenario(page: &mut String, name: &str, result: &ScenarioResult, plots: &mut Vec<Plot>) {
    let _ = writeln!(page, "\n## {name}\n\n{}.", capitalised(&result.about));
    for table in &result.tables {
        let _ = writeln!(page, "\n### {}\n", table.title);
        if table.rows.is_empty() {
            page.push_str("Nothing was measured.\n");
            continue;
        }
        grid(page, table);
        if let Some(chart) = Chart::of(table) {
            let file = format!("{name}-{}.svg", table.key);
            let _ = writeln!(page, "\n![{}]({PLOTS}/{file})", table.title.replace(['[', ']'], ""));
            plots.push((file, chart.svg()));
        }
    }
    if !result.notes.is_empty() {
        page.push('\n');
    }
    for note in &result.notes {
        let _ = writeln!(page, "- {}", paragraph(note));
    }
}

/// Links the flame graphs of a scenario.
fn show_flames(page: &mut String, scenario: &str, flames: &[String]) {
    let prefix = format!("{FLAME}{scenario}-");
    let links: Vec<String> = flames
        .iter()
        .filter_map(|file| {
            let program = file.strip_prefix(&prefix)?.strip_suffix(".svg")?;
            Some(format!("[{program}]({PLOTS}/{file})"))
        })
        .collect();
    if !links.is_empty() {
        let _ = writeln!(
            page,
            "\nWhere the processor time goes, as flame graphs (`make flame SCENARIO={scenario}`): {}.",
            links.join(", ")
        );
    }
}

/// Renders the terminal's table as Markdown.
fn grid(page: &mut String, table: &Table) {
    let mut lines = print::grid(table).into_iter();
    let heading = lines.next().unwrap_or_default();
    // The column of each heading: a ratio follows its own.
    let mut of = Vec::new();
    for column in &table.columns {
        of.push(Some(column.of));
        if column
            .ratio_to
            .as_ref()
            .is_some_and(|key| table.columns.iter().any(|other| other.key == *key))
        {
            of.push(None);
        }
    }
    let mut cells = heading.iter().map(|text| cell(text));
    let _ = write!(page, "| {} |", cells.next().unwrap_or_default());
    for (text, of) in cells.zip(of) {
        let _ = match of {
            Some(Of::Rejoin) => write!(page, " **{text}** |"),
            Some(Of::Limit) => write!(page, " *{text}* |"),
            Some(Of::Peer) | None => write!(page, " {text} |"),
        };
    }
    let _ = writeln!(page, "\n| --- |{}", " ---: |".repeat(heading.len().saturating_sub(1)));
    for line in lines {
        let line: Vec<String> = line.iter().map(|text| cell(text)).collect();
        let _ = writeln!(page, "| {} |", line.join(" | "));
    }
}

/// Escapes a cell's text.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

/// Text of one paragraph.
fn paragraph(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string())
        .unwrap_or_default();
    first + letters.as_str()
}

#[cfg(test)]
mod tests;
