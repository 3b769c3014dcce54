//! The report as one static web page, without scripts or anything from elsewhere.

use super::{Cell, Report, seconds};
use crate::verdict::Verdict;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:90rem;padding:0 1rem;color:#1b1f24;background:#fff}\
table{border-collapse:collapse;display:block;overflow-x:auto}th,td{border:1px solid #c9d1d9;padding:.3rem .6rem;text-align:left;vertical-align:top}\
thead th{position:sticky;top:0;background:#f6f8fa}.good{background:#dcf5e3}.rules{background:#eaf6d9}.bad{background:#fbdcdc;font-weight:600}\
.none{color:#6e7781}code{font-size:.9em}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}thead th{background:#161b22}th,td{border-color:#30363d}\
.good{background:#12391f}.rules{background:#2b3a12}.bad{background:#4a1618}}";

/// Writes the page.
pub fn render(report: &Report) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Kill and resume</title>\n<style>{STYLE}</style>\n<h1>Kill and resume</h1>\n\
         <p>What happens to an answer that is being streamed when its reader leaves, its connection breaks, or its server is killed. \
         Each cell: the worst verdict of all seeds, the seeds with a good one, and the median time from the last fault until a word that the model said after it.</p>\n"
    );
    if report.columns.is_empty() {
        out += "<p>No results yet: the suite was not run.</p>\n";
    } else {
        out += &format!("<p><strong>{}</strong></p>\n", escaped(&report.coverage()));
        out += &counts(report);
        out += "<h2>Cases</h2>\n";
        out += &matrix(report);
        out += &better(report);
        out += &servers(report);
    }
    if !report.never_run.is_empty() {
        out += "<h2>Adapters without results</h2>\n<ul>\n";
        for (_, title, why) in &report.never_run {
            out += &format!("<li>{}: {}</li>\n", escaped(title), escaped(why));
        }
        out += "</ul>\n";
    }
    out + &format!(
        "<p class=\"none\">Made by <code>resume-suite report</code>, version {}.</p>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn counts(report: &Report) -> String {
    let mut out =
        "<h2>Verdicts</h2>\n<p>Each run of a case with a seed counts.</p>\n<table>\n<thead><tr><th>server</th>"
            .to_owned();
    for verdict in Verdict::ALL {
        out += &format!("<th>{}</th>", verdict.label());
    }
    out += "</tr></thead>\n<tbody>\n";
    for column in &report.columns {
        let title = escaped(&column.results.target.title);
        let cells: String = column
            .counts()
            .iter()
            .map(|count| format!("<td>{count}</td>"))
            .collect();
        out += &format!("<tr><th scope=\"row\">{title}</th>{cells}</tr>\n");
    }
    out + "</tbody>\n</table>\n"
}

fn better(report: &Report) -> String {
    let mut out = "<h2>Where another server is better than Rejoin</h2>\n".to_owned();
    let better = report.better();
    if better.is_empty() {
        return out + "<p>In no case of these results.</p>\n";
    }
    out += "<ul>\n";
    for (case, title, what) in better {
        out += &format!("<li><code>{case}</code>: {} {what}</li>\n", escaped(&title));
    }
    out + "</ul>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn cell(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else {
        return "<td class=\"none\">–</td>".to_owned();
    };
    let class = match cell.verdict {
        Verdict::Exact => "good",
        Verdict::ExactByRules => "rules",
        Verdict::Unsupported => "none",
        _ => "bad",
    };
    let detail = escaped(&cell.detail);
    let label = cell.verdict.label();
    if cell.verdict == Verdict::Unsupported {
        return format!("<td class=\"{class}\" title=\"{detail}\">{label}</td>");
    }
    let time = cell
        .go_on_ms
        .map(|ms| format!("<br>{}", seconds(ms)))
        .unwrap_or_default();
    format!(
        "<td class=\"{class}\" title=\"{detail}\">{label}<br>{}/{}{time}</td>",
        cell.good, cell.total
    )
}

fn matrix(report: &Report) -> String {
    let mut out = "<table>\n<thead><tr><th>case</th>".to_owned();
    for column in &report.columns {
        out += &format!("<th>{}</th>", escaped(&column.results.target.title));
    }
    out += "</tr></thead>\n<tbody>\n";
    let mut family = "";
    for case in report.rows() {
        if case.family != family {
            family = case.family;
            out += &format!("<tr><th colspan=\"{}\">{family}</th></tr>\n", report.columns.len() + 1);
        }
        out += &format!("<tr><td><code>{}</code><br>{}</td>", case.name, escaped(case.about));
        for column in &report.columns {
            out += &cell(column.cells.get(case.name));
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table>\n"
}

fn servers(report: &Report) -> String {
    let mut out = "<h2>Servers</h2>\n".to_owned();
    for column in &report.columns {
        let results = &column.results;
        let target = &results.target;
        out += &format!(
            "<h3>{}</h3>\n<ul>\n<li>Run on {}, {}, {} seeds, by version {} of the suite</li>\n<li>Versions: {}</li>\n",
            escaped(&target.title),
            results.date,
            escaped(&results.machine),
            results.seeds.len(),
            escaped(&results.suite),
            escaped(&target.stated_versions())
        );
        if !target.homepage.is_empty() {
            let page = escaped(&target.homepage);
            out += &format!("<li>Configured as in <a href=\"{page}\">{page}</a></li>\n");
        }
        for line in &target.configuration {
            out += &format!("<li>{}</li>\n", escaped(line));
        }
        out += &format!("<li>Repeat: <code>{}</code></li>\n</ul>\n", escaped(&results.command));
    }
    out
}
