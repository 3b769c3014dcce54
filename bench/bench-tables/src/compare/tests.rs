//! Marks, regressions, and folders of repetitions.

use super::*;
use crate::results::example::{self, row};

fn marks(old: &[f64], new: &[f64]) -> &'static str {
    let (mut before, mut after) = (example::table(), example::table());
    before.rows = vec![row("r", &[("ours", old)])];
    after.rows = vec![row("r", &[("ours", new)])];
    let differences = differences(&before, &after);
    assert_eq!(differences.len(), 1);
    mark(&differences[0])
}

#[test]
fn a_fifth_is_marked_and_less_is_not() {
    assert_eq!(marks(&[100.0], &[81.0]), "");
    assert_eq!(marks(&[100.0], &[80.0]), "WORSE");
    assert_eq!(marks(&[100.0], &[120.0]), "better");
}

#[test]
fn ranges_that_overlap_are_distinguished() {
    assert_eq!(
        marks(&[70.0, 100.0, 110.0], &[60.0, 75.0, 90.0]),
        "worse? (ranges overlap)"
    );
}

#[test]
fn lower_may_be_better_and_peers_are_nobodys_fault() {
    let column = |better, of| Column::new("c", "c", "", better, of);
    assert_eq!(worse(&column(Better::Lower, Of::Rejoin), 10.0, 15.0), Some(0.5));
    assert_eq!(worse(&column(Better::Higher, Of::Rejoin), 10.0, 15.0), Some(-0.5));
    assert_eq!(worse(&column(Better::Higher, Of::Peer), 10.0, 1.0), None);
    assert_eq!(worse(&column(Better::Neither, Of::Rejoin), 10.0, 1.0), None);
}

#[test]
fn what_only_one_of_them_has_is_left_out() {
    let (before, mut after) = (example::table(), example::table());
    after.rows.push(row("new", &[("ours", &[1.0])]));
    after.rows.remove(1);
    let rows: Vec<String> = differences(&before, &after)
        .into_iter()
        .map(|difference| difference.row)
        .collect();
    assert_eq!(rows, ["10 events", "10 events", "10 events"]);
}

#[test]
fn a_folder_is_one_result_of_several_repetitions() {
    let folder = std::env::temp_dir().join(format!("rejoin-bench-compare-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for rep in 1..=3 {
        example::results().write(&folder.join(format!("{rep}.json"))).unwrap();
    }
    let all = read(&folder).unwrap();
    let arguments = CompareArgs {
        old: folder.clone(),
        new: folder.clone(),
        fail_above: Some(0.0),
    };
    let compared = run(&arguments);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(
        all.scenarios["append"].tables[0].values("10 events", "limit"),
        [200.0; 3]
    );
    compared.unwrap();
}

#[test]
fn a_limit_that_is_exceeded_is_an_error() {
    let folder = std::env::temp_dir().join(format!("rejoin-bench-fail-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (old, new) = (folder.join("old.json"), folder.join("new.json"));
    example::results().write(&old).unwrap();
    let mut worse = example::results();
    worse.scenarios.get_mut("append").unwrap().tables[0].rows[1] =
        row("a batch of a thousand & more", &[("ours", &[750.0])]);
    worse.write(&new).unwrap();
    let exit = |percent| {
        run(&CompareArgs {
            old: old.clone(),
            new: new.clone(),
            fail_above: percent,
        })
    };
    let (without, above, below) = (exit(None), exit(Some(60.0)), exit(Some(40.0)));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(without.is_ok() && above.is_ok() && below.is_err());
}
