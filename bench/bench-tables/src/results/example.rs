//! A small result with every feature of a result, for tests.

use std::collections::BTreeMap;

use super::{Better, Claim, Column, Of, PlotKind, Results, Row, ScenarioResult, Size, Table};
use crate::machine::Machine;

/// Ours, a partially measured peer, and a limit.
pub fn table() -> Table {
    let columns = vec![
        Column::new("ours", "Rejoin", "1/s", Better::Higher, Of::Rejoin).ratio_to("limit"),
        Column::new("peer", "a peer", "1/s", Better::Higher, Of::Peer),
        Column::new("limit", "COPY", "1/s", Better::Higher, Of::Limit),
    ];
    let mut table = Table::new("rate", "Events a second", "batch", columns);
    table.rows = vec![
        row(
            "10 events",
            &[("ours", &[90.0, 100.0, 120.0]), ("peer", &[10.0]), ("limit", &[200.0])],
        ),
        row(
            "a batch of a thousand & more",
            &[("ours", &[1_500.0]), ("limit", &[2_000.0])],
        ),
    ];
    table.plot(PlotKind::Bars, &["ours", "peer", "limit"], true)
}

pub fn row(label: &str, cells: &[(&str, &[f64])]) -> Row {
    let cells: BTreeMap<String, Vec<f64>> = cells
        .iter()
        .map(|(key, values)| ((*key).to_owned(), values.to_vec()))
        .collect();
    Row {
        label: label.to_owned(),
        cells,
    }
}

pub fn claim(what: &str, bound: f64, better: Better, values: &[f64]) -> Claim {
    Claim {
        what: what.to_owned(),
        unit: "1/s".to_owned(),
        bound,
        better,
        values: values.to_vec(),
        why_not: None,
    }
}

pub fn results() -> Results {
    let mut not_held = claim("beyond all peers", 5_000.0, Better::Higher, &[1_500.0]);
    not_held.why_not = Some("The disk\n  ends it: 2,000/s.".to_owned());
    let result = ScenarioResult {
        about: "how fast events are written".to_owned(),
        machine: Machine {
            cpu: "a CPU".to_owned(),
            cores: 2,
            memory_gib: 24,
            kernel: "6.1".to_owned(),
            postgres: "PostgreSQL 15".to_owned(),
            rust: "rustc 1.90".to_owned(),
        },
        commit: "abc".to_owned(),
        measured_at: "2026-01-31".to_owned(),
        size: Size::Full,
        reps: 3,
        took_s: 12.3,
        tables: vec![table()],
        claims: vec![
            claim("a hundred", 100.0, Better::Higher, &[90.0, 100.0, 120.0]),
            not_held,
        ],
        notes: vec!["The peer is a bare queue.".to_owned()],
    };
    Results {
        scenarios: BTreeMap::from([("append".to_owned(), result)]),
    }
}
