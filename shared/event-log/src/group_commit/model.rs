//! Tests of the writer's loop under thousands of interleavings: two workers, a run that is taken over midway, and a
//! database whose answers fail, are late or never arrive, before and after the commit.
//!
//! Properties: a run's events are written once and in order (I2); `flush` succeeds only if all of them are (the run's
//! next record depends on it); nothing is written after the lease is lost; closing loses nothing; readers are woken
//! after the last commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rejoin_interleave::{JoinHandle, any, explore, once_in, pause, spawn};
use serde_json::Value;
use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::*;
use crate::wakeup::Bus;
use rejoin_types::events::Kind;

/// Number of interleavings tested.
const ORDERS: usize = 1_500;
/// Events appended by each run.
const EVENTS: usize = 8;
const LOGS: [Uuid; 2] = [Uuid::from_u128(1), Uuid::from_u128(2)];
/// Runs, with their logs: two share one.
const RUNS: [(Uuid, Uuid); 3] = [
    (Uuid::from_u128(11), LOGS[0]),
    (Uuid::from_u128(12), LOGS[0]),
    (Uuid::from_u128(13), LOGS[1]),
];

/// A model of a database: rows, and locks held until a transaction ends.
#[derive(Clone, Default)]
struct Server {
    rows: Arc<Mutex<Rows>>,
    locks: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Rows {
    /// Attempts that were taken over.
    taken: BTreeMap<Uuid, i32>,
    /// Each log's events: run, attempt, text.
    logs: BTreeMap<Uuid, Vec<(Uuid, i32, String)>>,
    /// The number of events at the last wake-up.
    woken: BTreeMap<Uuid, usize>,
    /// Answers that never arrive.
    unanswered: Vec<oneshot::Sender<Vec<Arc<RunStream>>>>,
    transactions: Vec<JoinHandle<()>>,
}

impl Server {
    fn rows<T>(&self, act: impl FnOnce(&mut Rows) -> T) -> T {
        act(&mut self.rows.lock().expect("nothing panics while it is held"))
    }

    /// All text written by an attempt.
    fn text_of(&self, stream: &RunStream) -> String {
        self.rows(|rows| {
            let of_log = rows.logs.entry(stream.log_id).or_default();
            of_log
                .iter()
                .filter(|(run, attempt, _)| (*run, *attempt) == (stream.run_id, stream.attempt))
                .map(|(_, _, text)| text.as_str())
                .collect()
        })
    }

    /// Starts the next attempt of a run, as soon as no transaction locks the last one.
    async fn take_over(&self, run: Uuid) {
        let _locks = self.locks.lock().await;
        self.rows(|rows| rows.taken.insert(run, 1));
    }

    /// Executes a transaction, from its arrival to its end.
    async fn transact(
        self,
        appended: Vec<(Arc<RunStream>, String)>,
        answer: oneshot::Sender<Vec<Arc<RunStream>>>,
        outcome: oneshot::Sender<Vec<Arc<RunStream>>>,
    ) {
        pause().await;
        let locks = self.locks.lock().await;
        let is_lost =
            |rows: &Rows, stream: &RunStream| rows.taken.get(&stream.run_id).is_some_and(|n| *n >= stream.attempt);
        let (lost, kept): (Vec<_>, Vec<_>) =
            self.rows(|rows| appended.into_iter().partition(|(stream, _)| is_lost(rows, stream)));
        pause().await;
        if once_in(8) {
            // It is rolled back: a later lookup will find nothing.
            return;
        }
        self.rows(|rows| {
            for (stream, text) in kept {
                let of_log = rows.logs.entry(stream.log_id).or_default();
                of_log.push((stream.run_id, stream.attempt, text));
            }
        });
        drop(locks);
        let lost: Vec<_> = lost.into_iter().map(|(stream, _)| stream).collect();
        // A later lookup is answered. No caller may be left.
        let _ = outcome.send(lost.clone());
        match any(6) {
            0 => drop(answer),
            1 => self.rows(|rows| rows.unanswered.push(answer)),
            // The caller may have given up.
            _ => drop(answer.send(lost)),
        }
    }
}

impl Bus for Server {
    fn publish(&self, wake: Wake) {
        self.rows(|rows| {
            for log in wake.logs {
                let events = rows.logs.get(&log).map_or(0, Vec::len);
                rows.woken.insert(log, events);
            }
        });
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<Wake>> {
        broadcast::channel(1).1
    }
}

/// A worker's connection.
struct Connection {
    server: Server,
    /// The outcome of the sent transaction.
    outcome: Option<oneshot::Receiver<Vec<Arc<RunStream>>>>,
}

impl Store for Connection {
    type Failed = &'static str;

    async fn write(&mut self, batch: &Batch) -> Result<Written, &'static str> {
        self.outcome = None;
        pause().await;
        if once_in(8) {
            return Err("no connection");
        }
        let text = |data: &str| {
            serde_json::from_str::<Value>(data).expect("it is JSON")["token"]
                .as_str()
                .map(str::to_owned)
        };
        let appended = batch
            .logs
            .iter()
            .flat_map(|log| log.events.iter().map(|(of, event)| (log.streams[*of].clone(), event)))
            .map(|(stream, event)| (stream, text(&event.data).expect("it is a token")))
            .collect();
        let (answer, answered) = oneshot::channel();
        let (decide, outcome) = oneshot::channel();
        self.outcome = Some(outcome);
        let transaction = spawn(self.server.clone().transact(appended, answer, decide));
        self.server.rows(|rows| rows.transactions.push(transaction));
        let lost = answered.await.map_err(|_| "the connection broke")?;
        Ok(Written { lost, rows: Vec::new() })
    }

    async fn settle(&mut self) -> Option<Vec<Arc<RunStream>>> {
        self.outcome.take()?.await.ok()
    }
}

fn stream((run_id, log_id): (Uuid, Uuid), attempt: i32) -> Arc<RunStream> {
    Arc::new(RunStream {
        log_id,
        root_run_id: run_id,
        run_id,
        attempt,
        lost: CancellationToken::new(),
        seen: Default::default(),
    })
}

/// A worker, with its writer.
fn worker(server: &Server) -> (EventWriter, JoinHandle<()>) {
    let connection = Connection {
        server: server.clone(),
        outcome: None,
    };
    let options = WriterOptions {
        flush_interval: Duration::from_millis(5),
        max_batch: 3,
        max_queued: 4,
        max_delta_bytes: if once_in(2) { 0 } else { 8 },
    };
    let (writer, running) = EventWriter::over(connection, Arc::new(server.clone()), options);
    (writer, spawn(running))
}

/// Runs one attempt of a run. Returns the appended text.
async fn attempt(server: Server, writer: EventWriter, stream: Arc<RunStream>) -> String {
    let mut appended = String::new();
    for i in 0..EVENTS {
        let token = format!("{i} ");
        let event = Event::of(stream.run_id, Kind::Token { token: token.clone() });
        if writer.append(&stream, &event).await.is_err() {
            return appended;
        }
        appended.push_str(&token);
        if i + 1 == EVENTS || once_in(4) {
            if writer.flush(&stream).await.is_err() {
                return appended;
            }
            assert_eq!(server.text_of(&stream), appended, "all of it is written: flush said so");
        }
        pause().await;
    }
    appended
}

/// A run that the other worker may take over.
async fn run_once_or_twice(server: Server, writers: [EventWriter; 2], run: (Uuid, Uuid)) {
    let [first, second] = writers;
    let is_taken = once_in(2);
    let [one, two] = [1, 2].map(|attempt| stream(run, attempt));
    let running = spawn(attempt(server.clone(), first, one.clone()));
    if is_taken {
        for _ in 0..any(4) {
            pause().await;
        }
        server.take_over(run.0).await;
        let appended = attempt(server.clone(), second, two.clone()).await;
        assert_eq!(server.text_of(&two), appended);
    }
    let appended = running.await.expect("it ends well");
    let written = server.text_of(&one);
    assert!(appended.starts_with(&written), "{written:?} of {appended:?}");
    assert!(
        is_taken || written == appended,
        "{written:?} of {appended:?}, without a takeover"
    );
}

#[test]
fn events_are_written_once_in_order_under_the_runs_lease() {
    explore(ORDERS, || async {
        let server = Server::default();
        let (a, a_runs) = worker(&server);
        let (b, b_runs) = worker(&server);
        let runs = RUNS.map(|run| spawn(run_once_or_twice(server.clone(), [a.clone(), b.clone()], run)));
        drop((a, b));
        for run in runs {
            run.await.expect("it ends well");
        }
        a_runs.await.expect("it ends well");
        b_runs.await.expect("it ends well");
        for transaction in server.rows(|rows| std::mem::take(&mut rows.transactions)) {
            transaction.await.expect("it ends well");
        }
        server.rows(|rows| {
            for (log, events) in &rows.logs {
                let woken = rows.woken.get(log).copied().unwrap_or(0);
                assert_eq!(woken, events.len(), "readers were woken after the last commit");
                for (run, ..) in events {
                    let attempts: Vec<i32> = events.iter().filter(|of| of.0 == *run).map(|of| of.1).collect();
                    assert!(attempts.is_sorted(), "a zombie wrote after its successor");
                }
            }
        });
    });
}

/// Everything that was appended is written when all handles are gone, also without a flush.
#[test]
fn closing_writes_what_waits() {
    explore(ORDERS / 4, || async {
        let server = Server::default();
        let (writer, running) = worker(&server);
        let stream = stream(RUNS[0], 1);
        let events = any(EVENTS);
        for i in 0..events {
            let token = format!("{i} ");
            let event = Event::of(stream.run_id, Kind::Token { token });
            writer.append(&stream, &event).await.expect("it is not taken over");
        }
        drop(writer);
        running.await.expect("it ends well");
        for transaction in server.rows(|rows| std::mem::take(&mut rows.transactions)) {
            transaction.await.expect("it ends well");
        }
        let all: String = (0..events).map(|i| format!("{i} ")).collect();
        assert_eq!(server.text_of(&stream), all);
    });
}
