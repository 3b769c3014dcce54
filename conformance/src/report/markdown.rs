//! The report as Markdown: `docs/reports/kill-and-resume.md`.

use std::collections::BTreeMap;

use super::{Cell, Column, Report, seconds};
use crate::verdict::Verdict;

const INTRODUCTION: &str = "# Kill and resume\n\n\
What happens to an answer that is being streamed when its reader leaves, its connection breaks, or its server is killed: a black-box suite asks\n\
each server below the same, with the same scripted model. The cases, the verdicts and the adapters are explained in the \
[README of the suite](../../conformance/README.md). This page is written by `resume-suite report` and not by hand.\n\n\
Each cell is the worst verdict of all seeds, the number of seeds with a good one, and the median time from the last fault until a word that the model said after it. *Exact by its \
rules*: each word once, after the product's own rules have taken back what was written twice. *Unsupported* is not a pass: the product does not offer it.\n\
A dash: not run.\n";

const FAIRNESS: &str = "## Corrections\n\n\
A server is configured as its documentation recommends, and the configuration is above. The maintainers of a server can correct its adapter: it is a folder\n\
in `conformance/adapters`, and needs no Rust.\n";

/// Writes the page.
pub fn render(report: &Report) -> String {
    let mut out = INTRODUCTION.to_owned();
    if report.columns.is_empty() {
        out += "\nNo results yet: the suite was not run.\n";
    } else {
        out += &format!("\n**{}**\n", report.coverage());
        out += &counts(report);
        out += &matrix(report);
        out += &better(report);
        out += &findings(report);
        out += &unsupported(report);
        out += &servers(report);
    }
    out += &never_run(report);
    out.push('\n');
    out += FAIRNESS;
    out += &format!(
        "\nMade by `resume-suite report`, version {}.\n",
        env!("CARGO_PKG_VERSION")
    );
    out
}

/// Text inside a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn cell(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else {
        return "–".to_owned();
    };
    if cell.verdict == Verdict::Unsupported {
        return cell.verdict.label().to_owned();
    }
    let label = cell.verdict.label();
    let label = if cell.verdict.is_good() {
        label.to_owned()
    } else {
        format!("**{label}**")
    };
    let time = cell.go_on_ms.map(|ms| format!(", {}", seconds(ms))).unwrap_or_default();
    format!("{label} {}/{}{time}", cell.good, cell.total)
}

fn counts(report: &Report) -> String {
    let labels = Verdict::ALL.map(Verdict::label);
    let mut out = format!(
        "\n## Verdicts\n\nEach run of a case with a seed counts.\n\n| server | {} |\n| --- |{}\n",
        labels.join(" | "),
        " --- |".repeat(labels.len())
    );
    for column in &report.columns {
        let counts: Vec<String> = column.counts().iter().map(usize::to_string).collect();
        out += &format!(
            "| {} | {} |\n",
            escaped(&column.results.target.title),
            counts.join(" | ")
        );
    }
    out
}

fn matrix(report: &Report) -> String {
    let titles: Vec<String> = report
        .columns
        .iter()
        .map(|column| escaped(&column.results.target.title))
        .collect();
    let mut out = String::new();
    let mut family = "";
    for case in report.rows() {
        if case.family != family {
            family = case.family;
            out += &format!(
                "\n## Family: {family}\n\n| case | {} |\n| --- |{}\n",
                titles.join(" | "),
                " --- |".repeat(titles.len())
            );
        }
        let cells: Vec<String> = report
            .columns
            .iter()
            .map(|column| cell(column.cells.get(case.name)))
            .collect();
        out += &format!("| `{}` | {} |\n", case.name, cells.join(" | "));
    }
    out
}

fn better(report: &Report) -> String {
    let mut out = "\n## Where another server is better than Rejoin\n\n".to_owned();
    let better = report.better();
    if better.is_empty() {
        return out + "In no case of these results.\n";
    }
    for (case, title, what) in better {
        out += &format!("- `{case}`: {title} {what}\n");
    }
    out
}

/// Verdicts that are not good, with the first reason.
fn findings(report: &Report) -> String {
    let mut out = String::new();
    for column in &report.columns {
        for (case, cell) in &column.cells {
            if cell.verdict.is_good() || cell.verdict == Verdict::Unsupported {
                continue;
            }
            let title = escaped(&column.results.target.title);
            let detail = escaped(&cell.detail);
            out += &format!("| {title} | `{case}` | {} | {detail} |\n", cell.verdict.label());
        }
    }
    if out.is_empty() {
        return out;
    }
    format!("\n## Findings\n\n| server | case | verdict | first reason |\n| --- | --- | --- | --- |\n{out}")
}

/// Why cases are unsupported: one row for each server and reason.
fn unsupported(report: &Report) -> String {
    let mut out = String::new();
    for column in &report.columns {
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (case, cell) in &column.cells {
            if cell.verdict == Verdict::Unsupported {
                reasons.entry(&cell.detail).or_default().push(format!("`{case}`"));
            }
        }
        let title = escaped(&column.results.target.title);
        for (reason, cases) in reasons {
            out += &format!("| {title} | {} | {} |\n", escaped(reason), cases.join(", "));
        }
    }
    if out.is_empty() {
        return out;
    }
    format!("\n## Unsupported\n\n| server | reason | cases |\n| --- | --- | --- |\n{out}")
}

fn servers(report: &Report) -> String {
    let mut out = "\n## Servers\n".to_owned();
    for column in &report.columns {
        out += &server(column);
    }
    out
}

fn server(column: &Column) -> String {
    let results = &column.results;
    let target = &results.target;
    let mut out = format!("\n### {}\n\n", target.title);
    out += &format!(
        "- Run on {}, {}, {} seeds, by version {} of the suite\n",
        results.date,
        results.machine,
        results.seeds.len(),
        results.suite
    );
    out += &format!("- Versions: {}\n", target.stated_versions());
    if !target.homepage.is_empty() {
        out += &format!("- Configured as in <{}>\n", target.homepage);
    }
    for line in &target.configuration {
        out += &format!("- {line}\n");
    }
    out + &format!("- Repeat: `{}`\n", results.command)
}

fn never_run(report: &Report) -> String {
    if report.never_run.is_empty() {
        return String::new();
    }
    let mut out = "\n## Adapters without results\n\n| adapter | server | why |\n| --- | --- | --- |\n".to_owned();
    for (name, title, why) in &report.never_run {
        out += &format!("| `{name}` | {} | {} |\n", escaped(title), escaped(why));
    }
    out
}
