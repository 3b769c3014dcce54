//! Types, names of columns, limits, and attacks in joined results.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;
use crate::sqlite::engine::{self, Task};
use serde_json::json;

fn rows(columns: &[(&str, &str)], rows: Value) -> Rows {
    Rows {
        columns: columns
            .iter()
            .map(|(name, type_name)| Column {
                name: (*name).to_owned(),
                type_name: (*type_name).to_owned(),
            })
            .collect(),
        rows: serde_json::from_value(rows).unwrap(),
        ..Rows::default()
    }
}

fn table(name: &str, rows: &Rows) -> Joined {
    Joined {
        name: name.to_owned(),
        source: "shop".to_owned(),
        columns: columns(rows).unwrap(),
        rows: rows.rows.len(),
        truncated: false,
        elapsed_ms: 0,
        bytes_billed: None,
    }
}

const BOUNDS: Bounds = Bounds {
    timeout: Duration::from_millis(500),
    max_rows: 100,
    max_bytes: 100_000,
    max_bytes_billed: 0,
};

fn task(tables: &[(&str, Rows)], sql: &str, bounds: Bounds) -> Task {
    let queries: Vec<Joined> = tables.iter().map(|(name, rows)| table(name, rows)).collect();
    let answers = tables.iter().map(|(_, rows)| rows.clone()).collect();
    Task {
        on: On::Tables(named(&queries, answers)),
        query: sql.to_owned(),
        arguments: Vec::new(),
        access: Access::Reads,
        bounds,
        value_max_bytes: bounds.max_bytes,
        memory_max_bytes: 1 << 30,
        file_max_bytes: 0,
    }
}

fn joined(tables: &[(&str, Rows)], sql: &str) -> Result<Rows, SourceError> {
    engine::run(&task(tables, sql, BOUNDS), Arc::new(true.into()))
}

#[test]
fn values_keep_their_types_and_decimals_are_numbers() {
    let left = rows(
        &[
            ("id", "int4"),
            ("price", "numeric"),
            ("doc", "jsonb"),
            ("ok", "bool"),
            ("large", "bigint unsigned"),
        ],
        json!([[1, "1.50", {"a": [1, 2]}, true, 18_446_744_073_709_551_615_u64], [2, null, null, false, 7]]),
    );
    let right = rows(
        &[("id", ""), ("price", "double"), ("code", "text")],
        json!([[1, 1.5, "007"], [3, 2.5, null]]),
    );
    let types: Vec<String> = columns(&left)
        .unwrap()
        .into_iter()
        .map(|column| column.type_name)
        .collect();
    assert_eq!(types, ["numeric", "numeric", "text", "integer", "numeric"]);
    let answer = joined(
        &[("a", left), ("b", right)],
        "select a.id, a.price = b.price, json_extract(doc, '$.a[1]'), ok, code, typeof(code) from a join b on a.id = b.id",
    );
    assert_eq!(
        answer.unwrap().rows,
        [vec![
            json!(1),
            json!(1),
            json!(2),
            json!(1),
            json!("007"),
            json!("text")
        ]]
    );
}

#[test]
fn unnamed_and_equally_named_columns_get_unique_names() {
    let answer = rows(
        &[
            ("id", ""),
            ("ID", ""),
            ("", ""),
            ("?column?", ""),
            ("a\"b", ""),
            ("id_2", ""),
        ],
        json!([[1, 2, 3, 4, 5, 6]]),
    );
    let names: Vec<String> = columns(&answer)
        .unwrap()
        .into_iter()
        .map(|column| column.name)
        .collect();
    assert_eq!(names, ["id", "ID_2", "column_3", "?column?", "a\"b", "id_2_2"]);
    let all = joined(
        &[("a", answer)],
        "select id, ID_2, column_3, \"?column?\", \"a\"\"b\", id_2_2 from a",
    );
    assert_eq!(all.unwrap().rows, [[1, 2, 3, 4, 5, 6].map(|n| json!(n)).to_vec()]);
    assert!(columns(&rows(&[], json!([]))).unwrap_err().contains("has no columns"));
    let wide: Vec<(&str, &str)> = vec![("x", ""); JOINED_COLUMNS_MAX + 1];
    assert!(columns(&rows(&wide, json!([]))).is_err());
}

/// Sent as if the guard had accepted them.
#[test]
fn behind_the_guard_a_join_refuses_every_attack() {
    let orders = rows(&[("id", ""), ("item", "")], json!([[1, "x"]]));
    let mut passed = Vec::new();
    for attack in include_str!("../../../../tests/attacks/sqlite.sql").lines() {
        // There is no index to rebuild.
        let is_harmless = attack.starts_with(['#', '~']) || attack == "reindex";
        if !is_harmless && joined(&[("orders", orders.clone())], attack).is_ok() {
            passed.push(attack);
        }
    }
    assert!(passed.is_empty(), "{passed:#?}");
    for attack in [
        "attach database '/tmp/x.db' as x",
        "attach ':memory:' as x",
        "select load_extension('/tmp/x.so')",
        "pragma query_only = off",
        "pragma database_list",
        "vacuum into '/tmp/x.db'",
        "delete from orders",
        "create temp table t (a)",
        "select writefile('/tmp/x', 'x')",
        "select readfile('/etc/passwd')",
    ] {
        assert!(joined(&[("orders", orders.clone())], attack).is_err(), "{attack}");
        assert!(guard::check(Kind::Sqlite, attack).is_err(), "{attack}");
    }
}

#[test]
fn an_endless_join_ends_in_time_or_when_abandoned() {
    let orders = rows(&[("id", "")], json!([[1]]));
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    assert_eq!(
        joined(&[("orders", orders.clone())], endless),
        Err(SourceError::TimedOut(500))
    );
    let long = Bounds {
        timeout: Duration::from_secs(600),
        ..BOUNDS
    };
    let waits: engine::WaitedFor = Arc::new(true.into());
    let stops = waits.clone();
    let (began, begun) = std::sync::mpsc::sync_channel(1);
    let endless = task(&[("orders", orders)], endless, long);
    let asked = std::thread::spawn(move || {
        began.send(()).unwrap();
        engine::run(&endless, waits)
    });
    begun.recv().unwrap();
    stops.store(false, Ordering::Relaxed);
    assert!(asked.join().unwrap().is_err());
    let wide = joined(
        &[(
            "orders",
            rows(&[("id", "")], json!((0..200).map(|n| [n]).collect::<Vec<_>>())),
        )],
        "select a.id, b.id from orders a, orders b",
    );
    let wide = wide.unwrap();
    assert_eq!((wide.rows.len(), wide.truncated), (100, true));
    let huge = joined(
        &[("a", rows(&[("id", "")], json!([[1]])))],
        "select hex(zeroblob(90000))",
    );
    assert!(matches!(huge, Err(SourceError::TooLarge(_))), "{huge:?}");
}

#[test]
fn what_was_cut_short_is_said_in_words() {
    let whole = table("a", &rows(&[("id", "")], json!([[1]])));
    assert_eq!(note(std::slice::from_ref(&whole)), None);
    let cut = Joined {
        truncated: true,
        ..whole.clone()
    };
    let text = note(&[whole, cut]).unwrap();
    assert!(
        text.starts_with("This result is partial: only the first 1 rows of `a` were joined"),
        "{text}"
    );
}
