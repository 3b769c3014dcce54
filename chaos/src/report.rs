//! The report of a run: on the terminal, and as a page of docs/reports/reliability/.

use std::fmt::Write as _;

use crate::checker;
use crate::recovery::quantile;
use crate::run::{Options, Outcome};

/// Maximum number of violations reported in full.
const TOLD: usize = 20;
/// Maximum length of one, in characters.
const TOLD_CHARS: usize = 600;

/// Formats the report in Markdown. `command` produced it, `commit` is the sources' commit.
pub fn markdown(options: &Options, outcome: &Outcome, command: &str, commit: &str) -> String {
    let mut page = String::new();
    let line = |page: &mut String, text: &str| {
        page.push_str(text);
        page.push('\n');
    };
    let verdict = match outcome.violations.len() {
        0 => "no invariant was violated".to_owned(),
        broken => format!("{broken} violations"),
    };
    line(&mut page, &format!("# Chaos, seed {}: {verdict}\n", options.seed));
    line(&mut page, &format!("    {command}\n"));
    let counts = &outcome.counts;
    line(
        &mut page,
        &format!(
            "Commit {commit}, PostgreSQL {}, {} API and {} worker processes, a lease of {} ms. {} faults of {} kinds in {} s, with {} \
             concurrent users: {} posts, {} conversations, {} runs ({} resumed, at most {} attempts), {} events, {} side effects of tools; \
             readers received {} events over {} connections. After the last fault the system became idle within {}.\n",
            outcome.postgres_major,
            options.shape.apis,
            options.shape.workers,
            options.shape.lease.as_millis(),
            outcome.tally.faults(),
            outcome.tally.happened.len(),
            options.span.as_secs(),
            options.users,
            counts.posts,
            counts.conversations,
            counts.runs,
            counts.resumed_runs,
            counts.most_attempts,
            counts.events,
            counts.effects,
            counts.heard,
            counts.connections,
            outcome
                .rest_after_ms
                .map_or("no measurable time: work was left".to_owned(), |ms| format!("{ms} ms")),
        ),
    );
    line(&mut page, "| fault | times |\n| --- | ---: |");
    for (fault, times) in &outcome.tally.happened {
        line(&mut page, &format!("| {fault} | {times} |"));
    }
    for (fault, why) in &outcome.tally.impossible {
        line(&mut page, &format!("| {fault} (at least once impossible: {why}) | |"));
    }
    line(
        &mut page,
        "\n| time until work continued elsewhere | n | p50 [ms] | p99 [ms] | maximum [ms] |\n| --- | ---: | ---: | ---: | ---: |",
    );
    let recoveries = &outcome.recoveries;
    for (what, times) in [
        (
            format!("runs of {} killed workers", recoveries.kills),
            &recoveries.killed_ms,
        ),
        (
            "… without other faults at the time".to_owned(),
            &recoveries.killed_alone_ms,
        ),
        (
            format!("runs of {} drained workers", recoveries.drains),
            &recoveries.drained_ms,
        ),
        (
            "… without other faults at the time".to_owned(),
            &recoveries.drained_alone_ms,
        ),
    ] {
        let at = |q| quantile(times, q).map_or("–".to_owned(), |ms| format!("{ms:.0}"));
        line(
            &mut page,
            &format!(
                "| {what} | {} | {} | {} | {} |",
                times.len(),
                at(0.5),
                at(0.99),
                at(1.0)
            ),
        );
    }
    line(&mut page, "\n| invariant | | violations |\n| --- | --- | ---: |");
    let may_lose_commits = options.shape.servers.may_lose_commits();
    for invariant in checker::invariants(may_lose_commits) {
        let (name, words) = (invariant.name, invariant.words);
        let broken = outcome
            .violations
            .iter()
            .filter(|violation| violation.invariant == name)
            .count();
        line(&mut page, &format!("| {name} | {words} | {broken} |"));
    }
    if !outcome.violations.is_empty() {
        let _ = writeln!(page, "\nThe first violations:\n");
        for violation in outcome.violations.iter().take(TOLD) {
            let told: String = violation.to_string().chars().take(TOLD_CHARS).collect();
            line(&mut page, &format!("- {told}"));
        }
    }
    page
}
