//! The report over results of several servers: a matrix of cases and servers, with versions, dates and commands. Called by the command line.
//!
//! - `markdown`  as a page of the documentation
//! - `page`      as a static web page
//!
//! Neither adds anything to what the results say: what was not run is shown as not run, and what is missing is named at the head of both.

pub mod markdown;
pub mod page;

use std::collections::BTreeMap;

use crate::adapter::Adapter;
use crate::cases::{self, Case};
use crate::results::{Results, Run};
use crate::verdict::Verdict;

/// The name of our own server, with its native events.
const OURS: &str = "rejoin";

/// The case whose deeds are those that a server allows: its times can't be compared.
const RANDOM: &str = "random";

/// One case over one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The worst one.
    pub verdict: Verdict,
    /// Seeds with a good verdict, and all.
    pub good: usize,
    pub total: usize,
    /// The median, in milliseconds.
    pub go_on_ms: Option<u64>,
    /// The reason of the worst one.
    pub detail: String,
}

/// A server's column.
#[derive(Debug, Clone)]
pub struct Column {
    pub results: Results,
    pub cells: BTreeMap<String, Cell>,
}

/// Everything that a report has.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub columns: Vec<Column>,
    /// Servers that have an adapter, and no result: name, title, why.
    pub never_run: Vec<(String, String, String)>,
}

impl Report {
    /// The report over these results, with the adapters that have none.
    pub fn new(results: Vec<Results>, adapters: &[Adapter]) -> Self {
        let columns: Vec<Column> = results.into_iter().map(Column::new).collect();
        let has_result = |name: &str| columns.iter().any(|column| column.results.target.name == name);
        let never_run = adapters
            .iter()
            .filter(|adapter| !has_result(&adapter.name))
            .map(|adapter| {
                let why = adapter.never_run.clone().unwrap_or_else(|| "not run yet".to_owned());
                (adapter.name.clone(), adapter.title.clone(), why)
            })
            .collect();
        Self { columns, never_run }
    }

    /// What the results cover, in sentences: a reader has to know at once what is missing.
    pub fn coverage(&self) -> String {
        let run = self.columns.len();
        let mut said = if self.never_run.is_empty() {
            format!("All {run} servers with an adapter have results.")
        } else {
            let missing: Vec<&str> = self.never_run.iter().map(|(_, title, _)| title.as_str()).collect();
            format!(
                "Partial results: {run} of {} servers with an adapter have some. Without: {}.",
                run + missing.len(),
                missing.join("; ")
            )
        };
        let interrupted = self.columns.iter().filter(|column| !column.results.is_complete);
        let interrupted: Vec<&str> = interrupted.map(|column| column.results.target.title.as_str()).collect();
        if !interrupted.is_empty() {
            said += &format!(" Interrupted, so that cases are missing: {}.", interrupted.join("; "));
        }
        let rows = self.rows().len();
        if rows < cases::ALL.len() {
            said += &format!(" {rows} of {} cases were run.", cases::ALL.len());
        }
        said
    }

    /// Cases for which at least one server has a result, in order.
    pub fn rows(&self) -> Vec<&'static Case> {
        let is_there = |case: &&Case| self.columns.iter().any(|column| column.cells.contains_key(case.name));
        cases::ALL.iter().filter(is_there).collect()
    }

    /// Where another server is better than ours: the case, its title, and in what.
    pub fn better(&self) -> Vec<(&'static str, String, String)> {
        let Some(ours) = self.columns.iter().find(|column| column.results.target.name == OURS) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for case in self.rows() {
            let Some(our) = ours.cells.get(case.name) else {
                continue;
            };
            for column in self.columns.iter().filter(|column| !column.is_ours()) {
                let Some(theirs) = column.cells.get(case.name) else {
                    continue;
                };
                if let Some(what) = is_better(case.name, theirs, our) {
                    found.push((case.name, column.results.target.title.clone(), what));
                }
            }
        }
        found
    }
}

impl Column {
    fn new(results: Results) -> Self {
        let mut runs: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        for run in &results.runs {
            runs.entry(&run.case).or_default().push(run);
        }
        let cells = runs
            .into_iter()
            .filter_map(|(case, runs)| Some((case.to_owned(), cell(&runs)?)))
            .collect();
        Self { results, cells }
    }

    /// How many runs have each verdict, in the order of reports.
    pub fn counts(&self) -> Vec<usize> {
        let runs = &self.results.runs;
        let count = |verdict: Verdict| runs.iter().filter(|run| run.verdict == verdict).count();
        Verdict::ALL.map(count).to_vec()
    }

    /// Whether it is a protocol of our own server.
    pub fn is_ours(&self) -> bool {
        let name = &self.results.target.name;
        name == OURS || name.strip_prefix(OURS).is_some_and(|rest| rest.starts_with('-'))
    }
}

fn cell(runs: &[&Run]) -> Option<Cell> {
    let worst = runs.iter().max_by_key(|run| run.verdict)?;
    let mut times: Vec<u64> = runs.iter().filter_map(|run| run.go_on_ms).collect();
    times.sort_unstable();
    Some(Cell {
        verdict: worst.verdict,
        good: runs.iter().filter(|run| run.verdict.is_good()).count(),
        total: runs.len(),
        go_on_ms: times.get(times.len() / 2).copied(),
        detail: worst.details.first().cloned().unwrap_or_default(),
    })
}

/// In what one cell of a case is better than another, if it is.
fn is_better(case: &str, theirs: &Cell, ours: &Cell) -> Option<String> {
    if theirs.verdict == Verdict::Unsupported {
        return None;
    }
    if theirs.verdict.is_good() && (!ours.verdict.is_good() || theirs.verdict < ours.verdict) {
        return Some(format!("{}, ours is {}", theirs.verdict.label(), ours.verdict.label()));
    }
    if case == RANDOM {
        return None;
    }
    let (their_ms, our_ms) = (theirs.go_on_ms?, ours.go_on_ms?);
    // Differences below a tenth of a second are noise of the machine.
    let is_faster = theirs.verdict.is_good() && their_ms + 100 < our_ms;
    is_faster.then(|| format!("goes on after {}, ours after {}", seconds(their_ms), seconds(our_ms)))
}

/// A time as text.
pub fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::About;

    fn column(name: &str, runs: &[(&str, Verdict, Option<u64>)]) -> Results {
        let about = About {
            name: name.to_owned(),
            title: format!("The {name}"),
            homepage: "https://example.com/".to_owned(),
            versions: vec![format!("{name} 1")],
            configuration: vec!["As its page recommends.".to_owned()],
        };
        let mut results = Results::new(about, vec![1, 2], format!("resume-suite run --target {name}"), None);
        results.date = "2026-01-02".to_owned();
        results.is_complete = name != "other";
        for (case, verdict, go_on_ms) in runs {
            results.runs.push(Run {
                case: (*case).to_owned(),
                family: cases::named(case).map_or("", |case| case.family).to_owned(),
                seed: 1,
                verdict: *verdict,
                details: if verdict.is_good() {
                    Vec::new()
                } else {
                    vec!["why | so".to_owned()]
                },
                go_on_ms: *go_on_ms,
                plan: Vec::new(),
                shrunk: None,
                transcript: None,
                took_ms: 1,
            });
        }
        results
    }

    fn report() -> Report {
        let ours = column(
            OURS,
            &[
                ("leave-and-return", Verdict::Exact, None),
                ("killed-between-words", Verdict::ExactByRules, Some(2_000)),
                ("killed-between-words", Verdict::ExactByRules, Some(1_500)),
            ],
        );
        let other = column(
            "other",
            &[
                ("leave-and-return", Verdict::Exact, None),
                ("killed-between-words", Verdict::Exact, Some(300)),
                ("killed-between-words", Verdict::Lost, Some(300)),
                ("cancel-in-tool", Verdict::Unsupported, None),
            ],
        );
        Report::new(vec![ours, other], &[])
    }

    #[test]
    fn the_worst_verdict_of_all_seeds_counts() {
        let report = report();
        let cell = &report.columns[1].cells["killed-between-words"];
        assert_eq!((cell.verdict, cell.good, cell.total), (Verdict::Lost, 1, 2));
        assert_eq!(report.columns[0].cells["killed-between-words"].go_on_ms, Some(2_000));
        let rows: Vec<&str> = report.rows().iter().map(|case| case.name).collect();
        assert_eq!(rows, ["leave-and-return", "killed-between-words", "cancel-in-tool"]);
        assert!(report.better().is_empty(), "one seed of two is not better");
    }

    #[test]
    fn what_another_server_does_better_is_named() {
        let ours = column(OURS, &[("killed-at-end", Verdict::ExactByRules, Some(2_000))]);
        let other = column("other", &[("killed-at-end", Verdict::ExactByRules, Some(300))]);
        let dialect = column("rejoin-ag-ui", &[("killed-at-end", Verdict::Exact, Some(10))]);
        let better = Report::new(vec![ours, other, dialect], &[]).better();
        assert_eq!(better.len(), 1);
        assert_eq!(better[0].2, "goes on after 0.3 s, ours after 2.0 s");
    }

    #[test]
    fn both_pages_have_all_verdicts() {
        let report = report();
        let markdown = markdown::render(&report);
        assert!(
            markdown.contains("| `killed-between-words` | exact by its rules 2/2, 2.0 s | **lost words** 1/2, 0.3 s |"),
            "{markdown}"
        );
        assert!(
            markdown.contains("| `cancel-in-tool` | – | unsupported |"),
            "{markdown}"
        );
        assert!(markdown.contains("why \\| so"), "{markdown}");
        let page = page::render(&report);
        assert!(page.contains("lost words") && page.contains("The other") && page.starts_with("<!doctype html>"));
        assert!(!page.contains("<script"));
        // Versions, dates, configurations, commands, counts, what is better, and what is missing.
        for text in [
            "other 1",
            "2026-01-02",
            "As its page recommends.",
            "resume-suite run --target other",
            "https://example.com/",
            "In no case of these results.",
            "Interrupted, so that cases are missing: The other.",
            " cases were run.",
        ] {
            assert!(markdown.contains(text), "{text}: {markdown}");
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(
            markdown.contains("| The other | 2 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 1 |"),
            "{markdown}"
        );
        assert!(
            page.contains("<th scope=\"row\">The other</th><td>2</td><td>0</td><td>0</td><td>1</td>"),
            "{page}"
        );
    }

    #[test]
    fn without_results_all_adapters_are_listed_as_not_run() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters");
        let adapters = Adapter::all(&folder).unwrap();
        let report = Report::new(Vec::new(), &adapters);
        assert_eq!(report.never_run.len(), adapters.len());
        let markdown = markdown::render(&report);
        assert!(markdown.contains("No results yet"), "{markdown}");
    }

    #[test]
    fn a_partial_set_of_results_says_what_is_missing() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters");
        let adapters = Adapter::all(&folder).unwrap();
        let ours = column(OURS, &[("killed-at-end", Verdict::Exact, None)]);
        let report = Report::new(vec![ours], &adapters);
        let said = report.coverage();
        assert!(
            said.starts_with(&format!("Partial results: 1 of {} servers", adapters.len())),
            "{said}"
        );
        assert!(said.contains("Restate"), "{said}");
        assert!(markdown::render(&report).contains(&said));
        assert!(page::render(&report).contains("Partial results: 1 of"));
    }
}
