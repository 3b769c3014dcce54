//! The hash chain: its canonical text, a whole chain, and chains that were changed.

use super::*;

/// Entries as chained by the database.
fn chain(length: i64) -> Vec<Stored> {
    let mut rows: Vec<Stored> = Vec::new();
    for id in 1..=length {
        let mut row = Stored {
            id,
            at: DateTime::from_timestamp_micros(1_700_000_000_000_000 + id).unwrap(),
            workspace_id: (id % 2 == 0).then(|| Uuid::from_u128(7)),
            actor: "operator".to_owned(),
            credential: None,
            action: "key.created".to_owned(),
            target: format!("api_key:{id} \"quoted\"\n\u{1}ü"),
            detail: "{\"name\": \"a\"}".to_owned(),
            prev_hash: rows.last().map_or_else(|| vec![0; 32], |row| row.hash.clone()),
            hash: Vec::new(),
        };
        row.hash = row.computed_hash().to_vec();
        rows.push(row);
    }
    rows
}

fn walked(rows: Vec<Stored>, expected: Option<Hash>) -> Report {
    let mut chain = Chain::looking_for(expected);
    rows.into_iter().for_each(|row| chain.take(row));
    chain.report
}

fn hash_of(row: &Stored) -> Hash {
    Hash(row.hash.as_slice().try_into().unwrap())
}

#[test]
fn the_text_that_is_hashed_is_a_list_as_the_database_writes_it() {
    let rows = chain(2);
    let canonical = rows[1].canonical();
    assert!(
        canonical.starts_with(
            r#"2, "2023-11-14T22:13:20.000002Z", "00000000-0000-0000-0000-000000000007", "operator", null, "key.created", "api_key:2 \"quoted\"\n\u0001ü", "{\"name\": \"a\"}", ""#
        ),
        "{canonical}"
    );
    assert!(
        canonical.ends_with(&format!("\"{}\"", hash_of(&rows[0]))),
        "{canonical}"
    );
}

#[test]
fn a_whole_chain_holds_and_every_hash_of_it_is_found() {
    let rows = chain(5);
    let report = walked(rows.clone(), None);
    assert_eq!((report.entries, report.head), (5, Some(hash_of(&rows[4]))));
    assert!(report.holds());
    for row in &rows {
        assert!(walked(rows.clone(), Some(hash_of(row))).holds());
    }
    assert!(walked(Vec::new(), None).holds());
    assert!(!walked(Vec::new(), Some(hash_of(&rows[0]))).holds());
}

#[test]
fn what_was_changed_taken_out_replaced_or_cut_off_is_found() {
    let broken = |rows: Vec<Stored>| walked(rows, None).broken.map(|broken| (broken.entry, broken.how));
    let mut changed = chain(5);
    changed[2].target = "api_key:9".to_owned();
    assert_eq!(broken(changed.clone()), Some((3, Fault::Changed)));
    // With a matching hash, the next entry is broken.
    changed[2].hash = changed[2].computed_hash().to_vec();
    assert_eq!(broken(changed), Some((4, Fault::WrongLink)));
    let mut short = chain(5);
    short.remove(2);
    assert_eq!(broken(short), Some((4, Fault::Gap)));
    let mut headless = chain(5);
    headless.remove(0);
    assert_eq!(broken(headless), Some((2, Fault::Gap)));
    let whole = chain(5);
    let cut = whole[..4].to_vec();
    assert_eq!(broken(cut.clone()), None, "by itself it looks whole");
    assert!(!walked(cut, Some(hash_of(&whole[4]))).holds());
}

#[test]
fn a_hash_is_read_as_it_is_written() {
    let hash = hash_of(&chain(1)[0]);
    assert_eq!(hash.to_string().parse::<Hash>(), Ok(hash));
    for wrong in ["", "00", &"g".repeat(64), &"0".repeat(65), &"ü".repeat(32)] {
        assert!(wrong.parse::<Hash>().is_err(), "{wrong}");
    }
}
