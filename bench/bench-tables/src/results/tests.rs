//! Medians, claims, and round trips of results.

use super::*;

#[test]
fn the_median_is_the_middle_value_or_the_mean_of_the_middle_two() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
}

#[test]
fn a_claim_is_held_by_its_median() {
    let held = |better, values| example::claim("", 100.0, better, values).holds();
    assert_eq!(held(Better::Higher, &[90.0, 100.0, 300.0]), Some(true));
    assert_eq!(held(Better::Higher, &[90.0, 99.0, 300.0]), Some(false));
    assert_eq!(held(Better::Lower, &[90.0, 101.0, 300.0]), Some(false));
    assert_eq!(held(Better::Lower, &[]), None);
}

#[test]
fn results_are_read_as_they_were_written() {
    let path = std::env::temp_dir().join(format!("rejoin-bench-results-{}.json", std::process::id()));
    let written = example::results();
    written.write(&path).unwrap();
    let read = Results::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        serde_json::to_value(&read).unwrap(),
        serde_json::to_value(&written).unwrap()
    );
}
