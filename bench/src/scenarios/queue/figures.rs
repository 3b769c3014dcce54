//! The scenario's tables and claims, and one repetition's values for them.

use std::collections::BTreeMap;

use super::peers::{OURS, peers};
use crate::results::{Better, Claim, Column, Of, PlotKind, Table, median};
use crate::scenario::Recorder;

/// Rows of the tables.
pub mod rows {
    pub const BULK: &str = "bulk enqueue";
    pub const SINGLE_1: &str = "enqueue, 1 producer";
    pub const SINGLE_8: &str = "enqueue, 8 producers";
    pub const DRAIN_1: &str = "drain, 1 worker";
    pub const DRAIN_2: &str = "drain, 2 workers";
    pub const DRAIN_QUEUED: &str = "drain, 500,000 queued";
    pub const DRAIN_FINISHED: &str = "drain, 500,000 finished";
    pub const P50: &str = "start, p50";
    pub const P99: &str = "start, p99";
    pub const MAX: &str = "start, max";
    pub const WAL_IN: &str = "a job's enqueue";
    pub const WAL_OUT: &str = "a job's drain";
}

/// Tables, by their keys.
const RATES: &str = "rates";
const STARTS: &str = "starts";
const WAL: &str = "wal";
const AHEAD: &str = "ahead";
/// The column of the machine's own commits.
const COMMITS: &str = "commits";

/// Each row's table, in the order in which they are shown.
const ROWS: [(&str, &str); 12] = [
    (rows::BULK, RATES),
    (rows::SINGLE_1, RATES),
    (rows::SINGLE_8, RATES),
    (rows::DRAIN_1, RATES),
    (rows::DRAIN_2, RATES),
    (rows::DRAIN_QUEUED, RATES),
    (rows::DRAIN_FINISHED, RATES),
    (rows::P50, STARTS),
    (rows::P99, STARTS),
    (rows::MAX, STARTS),
    (rows::WAL_IN, WAL),
    (rows::WAL_OUT, WAL),
];

/// Rows in which Rejoin should lead every peer; whether a bare queue counts there.
const WANTED_AHEAD: [(&str, bool); 9] = [
    (rows::BULK, true),
    (rows::SINGLE_1, false),
    (rows::SINGLE_8, false),
    (rows::DRAIN_1, true),
    (rows::DRAIN_2, true),
    (rows::DRAIN_QUEUED, true),
    (rows::DRAIN_FINISHED, true),
    (rows::P50, true),
    (rows::P99, true),
];
/// Limits of starting a job, in milliseconds.
const WANTED_MS: [(&str, f64); 2] = [(rows::P50, 1.6), (rows::P99, 4.0)];

pub fn tables() -> Vec<Table> {
    let peers: Vec<String> = peers().into_iter().map(|peer| peer.name).collect();
    let names: Vec<&str> = std::iter::once(OURS).chain(peers.iter().map(String::as_str)).collect();
    let column = |name: &str, unit, better| {
        let of = if name == OURS { Of::Rejoin } else { Of::Peer };
        Column::new(name, name, unit, better, of)
    };
    let all = |unit, better| names.iter().map(|name| column(name, unit, better)).collect::<Vec<_>>();
    let mut rates = all("1/s", Better::Higher);
    rates.push(Column::new(
        COMMITS,
        "one-row commits then",
        "1/s",
        Better::Higher,
        Of::Limit,
    ));
    let starts = all("ms", Better::Lower);
    let ahead = all("times", Better::Higher)
        .into_iter()
        .filter(|column| column.of == Of::Peer)
        .collect();
    vec![
        Table::new(RATES, "Jobs in and out", "phase", rates).plot(PlotKind::Bars, &names, true),
        Table::new(STARTS, "From enqueue to start, 50 jobs/s", "share", starts).plot(PlotKind::Bars, &names, true),
        Table::new(WAL, "Write-ahead log", "for", all("B", Better::Lower)),
        Table::new(
            AHEAD,
            "Rejoin, times each peer (starts: the peer's, times Rejoin's)",
            "phase",
            ahead,
        ),
    ]
}

/// The results of a repetition.
#[derive(Debug, Default)]
pub struct Values {
    of_queues: BTreeMap<(String, &'static str), f64>,
    commits_per_s: Vec<f64>,
}

impl Values {
    pub fn add(&mut self, queue: &str, row: &'static str, value: f64) {
        self.of_queues.insert((queue.to_owned(), row), value);
    }

    /// Copies a queue's value to another of its rows.
    pub fn copy(&mut self, queue: &str, from: &'static str, to: &'static str) {
        if let Some(&value) = self.of_queues.get(&(queue.to_owned(), from)) {
            self.add(queue, to, value);
        }
    }

    /// Records the machine's commit rate just before a queue's single enqueues.
    pub fn commits(&mut self, per_s: f64) {
        self.commits_per_s.push(per_s);
    }

    /// Stores them in the tables, with ours beside each peer's.
    pub fn keep(self, out: &mut Recorder) {
        for (row, table) in ROWS {
            let wanted_ahead = WANTED_AHEAD.iter().any(|(wanted, _)| *wanted == row);
            let ours = self.of_queues.get(&(OURS.to_owned(), row)).filter(|_| wanted_ahead);
            for ((queue, _), &value) in self.of_queues.iter().filter(|((_, of), _)| *of == row) {
                out.record(table, row, queue, value);
                if let Some(ours) = ours.filter(|_| queue != OURS) {
                    let times = if table == STARTS { value / ours } else { ours / value };
                    out.record(AHEAD, row, queue, times);
                }
            }
        }
        self.commits_per_s
            .iter()
            .for_each(|&per_s| out.record(RATES, rows::SINGLE_1, COMMITS, per_s));
    }
}

pub fn claims(found: &Recorder) -> Vec<Claim> {
    let bare: Vec<String> = peers()
        .into_iter()
        .filter(|peer| peer.bare)
        .map(|peer| peer.name)
        .collect();
    let claim = |what: String, unit: &str, bound, better, values: &[f64]| Claim {
        what,
        unit: unit.to_owned(),
        bound,
        better,
        values: values.to_vec(),
        why_not: None,
    };
    let ahead = WANTED_AHEAD.iter().map(|&(row, with_bare)| {
        let among = if with_bare { "peer" } else { "job queue" };
        let counts = |peer: &str| with_bare || !bare.iter().any(|bare| bare == peer);
        let values = beside_the_best(found.table(AHEAD), row, counts);
        claim(
            format!("{row}, relative to the best {among}"),
            "times",
            1.0,
            Better::Higher,
            values,
        )
        .unless(drains_why(found))
    });
    let starts = WANTED_MS.iter().map(|&(row, bound)| {
        claim(
            row.to_owned(),
            "ms",
            bound,
            Better::Lower,
            found.table(STARTS).values(row, OURS),
        )
        .unless(starts_why(found))
    });
    ahead.chain(starts).collect()
}

fn drains_why(found: &Recorder) -> String {
    let wal = found.table(WAL);
    format!(
        "A minimal queue does less: pgmq deletes delivered messages, and has \
         no fencing by attempt, no leases, no round-robin between projects, no keys. In Rejoin, a claim creates a \
         new version of the job's row with its attempt in the key, and a finished job is copied to \
         queue.finished_jobs: {} bytes of write-ahead log per job from claim to end, compared with pgmq's {}.",
        wal.cell_text(rows::WAL_OUT, OURS),
        wal.cell_text(rows::WAL_OUT, "pgmq"),
    )
}

fn starts_why(found: &Recorder) -> String {
    let commits = found.table(RATES);
    let per_s = median(commits.values(rows::SINGLE_1, COMMITS)).unwrap_or(f64::NAN);
    format!(
        "The bound was set on another machine. A start waits for two commits, the enqueue's and the claim's, and a \
         wake-up between them; on this machine, a single commit takes {} ms on average. The best peer in the same \
         run: {} ms (p50), {} ms (p99).",
        crate::print::figure(1_000.0 / per_s),
        least_of_peers(found, rows::P50),
        least_of_peers(found, rows::P99),
    )
}

fn least_of_peers(found: &Recorder, row: &str) -> String {
    let starts = found.table(STARTS);
    let peers = starts.columns.iter().filter(|column| column.key != OURS);
    let medians = peers.filter_map(|column| median(starts.values(row, &column.key)));
    medians
        .reduce(f64::min)
        .map_or_else(|| "–".to_owned(), crate::print::figure)
}

/// Returns our ratios to the best counted peer, by the median.
fn beside_the_best<'a>(ahead: &'a Table, row: &str, counts: impl Fn(&str) -> bool) -> &'a [f64] {
    let peers = ahead
        .columns
        .iter()
        .map(|column| column.key.as_str())
        .filter(|peer| counts(peer));
    let ratios = peers.map(|peer| ahead.values(row, peer));
    let medians = ratios.filter_map(|values| Some((median(values)?, values)));
    let least = medians.min_by(|(one, _), (other, _)| one.total_cmp(other));
    least.map_or(&[], |(_, values)| values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_is_the_closest_of_those_that_count() {
        let column = |name: &str| Column::new(name, name, "times", Better::Higher, Of::Peer);
        let mut table = Table::new(
            AHEAD,
            "",
            "",
            vec![column("bare"), column("fast"), column("slow"), column("absent")],
        );
        let cells = [
            ("bare", vec![0.5, 0.9]),
            ("fast", vec![1.2, 1.4]),
            ("slow", vec![9.0, 1.0]),
        ];
        let cells = cells
            .into_iter()
            .map(|(name, values)| (name.to_owned(), values))
            .collect();
        table.rows.push(crate::results::Row {
            label: rows::BULK.to_owned(),
            cells,
        });
        assert_eq!(beside_the_best(&table, rows::BULK, |_| true), [0.5, 0.9]);
        assert_eq!(beside_the_best(&table, rows::BULK, |peer| peer != "bare"), [1.2, 1.4]);
        assert!(beside_the_best(&table, rows::P50, |_| true).is_empty());
    }
}
