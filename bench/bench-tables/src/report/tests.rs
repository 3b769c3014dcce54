//! The page of a small result.

use super::*;
use crate::results::example;

fn page() -> (String, Vec<Plot>) {
    render(&example::results(), &["append"], &[])
}

#[test]
fn what_is_not_held_says_why() {
    let (page, _) = page();
    assert!(
        page.contains("| yes | a hundred | ≥ 100 1/s | 100 (90.0–120) | [append](#append) |"),
        "{page}"
    );
    assert!(
        page.contains("| **no** | beyond all peers | ≥ 5,000 1/s | 1,500 | [append](#append) |"),
        "{page}"
    );
    assert!(
        page.contains("**beyond all peers.** The disk ends it: 2,000/s."),
        "{page}"
    );
}

#[test]
fn a_table_keeps_its_ratios_and_shows_what_is_missing() {
    let (page, _) = page();
    let heading = "| batch | **Rejoin [1/s]** | of COPY | a peer [1/s] | *COPY [1/s]* |";
    assert!(page.contains(heading), "{page}");
    assert!(
        page.contains("| 10 events | 100 (90.0–120) | 0.50 | 10.0 | 200 |"),
        "{page}"
    );
    assert!(
        page.contains("| a batch of a thousand & more | 1,500 | 0.75 | – | 2,000 |"),
        "{page}"
    );
}

#[test]
fn the_conditions_are_printed_once_per_machine() {
    let mut results = example::results();
    let (page, _) = render(&results, &[], &[]);
    assert!(
        page.contains("| [append](#append) | how fast events are written | abc | 2026-01-31 | 3 | 12 s |\n"),
        "{page}"
    );
    let mut elsewhere = results.scenarios["append"].clone();
    elsewhere.machine.cores = 64;
    results.scenarios.insert("other".to_owned(), elsewhere);
    let (page, _) = render(&results, &["other", "append"], &[]);
    assert!(
        page.contains("1. 64 cores of a CPU") && page.contains("2. 2 cores of a CPU"),
        "{page}"
    );
    assert!(page.find("## other").unwrap() < page.find("## append").unwrap());
}

#[test]
fn a_page_and_its_plots_are_written_and_old_plots_go() {
    let folder = std::env::temp_dir().join(format!("rejoin-bench-report-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("performance")).unwrap();
    std::fs::write(folder.join("performance/gone.svg"), "").unwrap();
    let results = folder.join("results.json");
    example::results().write(&results).unwrap();
    let arguments = ReportArgs {
        results,
        docs: folder.clone(),
    };
    write(&arguments, &[]).unwrap();
    let page = std::fs::read_to_string(folder.join("performance.md")).unwrap();
    let plots: Vec<_> = std::fs::read_dir(folder.join("performance"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(page.contains("](performance/append-rate.svg)"));
    assert_eq!(plots, ["append-rate.svg"]);
}

#[test]
fn a_scenario_links_its_own_flame_graphs() {
    let flames = ["flame-append-postgres.svg", "flame-appendix-postgres.svg"].map(str::to_owned);
    let (page, _) = render(&example::results(), &["append"], &flames);
    assert!(
        page.contains("[postgres](performance/flame-append-postgres.svg)."),
        "{page}"
    );
    assert!(!page.contains("appendix"), "{page}");
}
