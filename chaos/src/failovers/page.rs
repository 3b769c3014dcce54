//! The report of failovers: each fault with its times, and each kind over all runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Failovers;
use super::times::Times;
use crate::recovery::quantile;

/// Maximum length of a detail, in characters.
const DETAIL_CHARS: usize = 120;

/// Formats the faults of one run in Markdown.
pub fn of_run(failovers: &Failovers) -> String {
    let taken_back = failovers.taken_back.map_or(String::new(), |taken_back| {
        format!(
            " {} accepted messages are lost; readers were notified {} times that a log was taken back.",
            taken_back.messages, taken_back.notices
        )
    });
    let mut page = format!(
        "{} writes of another client were acknowledged, {} of them are lost.{taken_back}\n\n\
         | fault | no writes for [s] | readers in a turn | resumed after, p50 [s] | p99 [s] | the last [s] | |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | --- |\n",
        failovers.writes, failovers.lost_writes
    );
    for times in &failovers.times {
        let detail: String = times.detail.chars().take(DETAIL_CHARS).collect();
        let detail = detail.replace(['|', '\n'], " ");
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {detail} |",
            times.fault,
            seconds(Some(times.no_writes_ms)),
            times.resumed_ms.len(),
            quantiles(&times.resumed_ms)
        );
    }
    page
}

/// Formats the times of all runs in Markdown, by kind of fault.
pub fn of_all(runs: &[Failovers]) -> String {
    let mut kinds: BTreeMap<&str, Vec<&Times>> = BTreeMap::new();
    for times in runs.iter().flat_map(|run| &run.times) {
        kinds.entry(&times.fault).or_default().push(times);
    }
    let mut page = format!(
        "# Failovers of {} runs\n\n\
         | fault | times | no writes for, p50 [s] | p99 [s] | maximum [s] | readers in a turn | resumed after, p50 [s] | p99 [s] | maximum [s] |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        runs.len()
    );
    for (fault, times) in kinds {
        let sorted = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all
        };
        let no_writes = sorted(times.iter().map(|times| times.no_writes_ms).collect());
        let resumed = sorted(times.iter().flat_map(|times| times.resumed_ms.clone()).collect());
        let _ = writeln!(
            page,
            "| {fault} | {} | {} | {} | {} |",
            times.len(),
            quantiles(&no_writes),
            resumed.len(),
            quantiles(&resumed)
        );
    }
    page
}

/// Three cells: median, 99th percentile and maximum of sorted milliseconds, in seconds.
fn quantiles(sorted: &[f64]) -> String {
    [0.5, 0.99, 1.0].map(|q| seconds(quantile(sorted, q))).join(" | ")
}

fn seconds(ms: Option<f64>) -> String {
    ms.map_or("–".to_owned(), |ms| format!("{:.1}", ms / 1_000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_summed_up_over_all_runs() {
        let run = |no_writes_ms: f64, resumed_ms: &[f64]| Failovers {
            times: vec![Times {
                fault: "primary-killed".to_owned(),
                detail: "node0".to_owned(),
                no_writes_ms,
                resumed_ms: resumed_ms.to_vec(),
            }],
            writes: 10,
            lost_writes: 0,
            taken_back: None,
        };
        let runs = [run(2_000.0, &[1_000.0, 3_000.0]), run(1_000.0, &[])];
        let page = of_all(&runs);
        let row = "| primary-killed | 2 | 2.0 | 2.0 | 2.0 | 2 | 3.0 | 3.0 | 3.0 |\n";
        assert!(page.ends_with(row), "{page}");
        let page = of_run(&runs[1]);
        assert!(
            page.ends_with("| primary-killed | 1.0 | 0 | – | – | – | node0 |\n"),
            "{page}"
        );
        assert!(
            page.starts_with("10 writes of another client were acknowledged, 0 of"),
            "{page}"
        );
    }
}
