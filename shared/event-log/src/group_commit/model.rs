//! Tests of the writer's loop under thousands of interleavings: two workers, a run that is taken over midway, and a
//! database whose answers fail, are late or never arrive, before and after the commit, and that can execute a call after its repetition.
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

use super::super::batch::OfLog;
use super::super::stream::Seen;
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

/// The events of a stream in a flush, with the log's last number that its attempt knew.
struct Appended {
    stream: Arc<RunStream>,
    known: i64,
    texts: Vec<String>,
}

/// The streams of a flush, with their log's last number. None: the lease is lost.
type Answer = Vec<(Arc<RunStream>, Option<i64>)>;

/// A model of a database: rows, and locks held until a transaction ends.
#[derive(Clone, Default)]
struct Server {
    rows: Arc<Mutex<Rows>>,
    locks: Arc<tokio::sync::Mutex<()>>,
}

struct ModelRow {
    flush_id: i64,
    run: Uuid,
    attempt: i32,
    text: String,
}

#[derive(Default)]
struct Rows {
    /// Attempts that were taken over.
    taken: BTreeMap<Uuid, i32>,
    /// Each log's events.
    logs: BTreeMap<Uuid, Vec<ModelRow>>,
    /// The number of events at the last wake-up.
    woken: BTreeMap<Uuid, usize>,
    /// Answers that never arrive.
    unanswered: Vec<oneshot::Sender<Answer>>,
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
                .filter(|row| (row.run, row.attempt) == (stream.run_id, stream.attempt))
                .map(|row| row.text.as_str())
                .collect()
        })
    }

    /// Starts the next attempt of a run, as soon as no transaction locks the last one. Returns its log's last number.
    async fn take_over(&self, (run, log): (Uuid, Uuid)) -> i64 {
        let _locks = self.locks.lock().await;
        self.rows(|rows| {
            rows.taken.insert(run, 1);
            number(rows.logs.get(&log).map_or(0, Vec::len))
        })
    }

    /// A command of the attempt appends these events and one of its own, while the outcome of a flush may be unknown. Returns false if the
    /// lease is lost.
    async fn command(&self, stream: &RunStream, texts: Vec<String>) -> bool {
        let _locks = self.locks.lock().await;
        self.rows(|rows| {
            if rows.taken.get(&stream.run_id).is_some_and(|n| *n >= stream.attempt) {
                return false;
            }
            let of_log = rows.logs.entry(stream.log_id).or_default();
            of_log.extend(texts.into_iter().chain([String::new()]).map(|text| ModelRow {
                flush_id: 0,
                run: stream.run_id,
                attempt: stream.attempt,
                text,
            }));
            stream.seen.advance(number(of_log.len()));
            rows.woken.insert(stream.log_id, of_log.len());
            true
        })
    }

    /// Executes a transaction, from its arrival to its end.
    async fn transact(self, flush_id: i64, appended: Vec<Appended>, answer: oneshot::Sender<Answer>) {
        for _ in 0..any(3) {
            pause().await;
        }
        let locks = self.locks.lock().await;
        let is_lost =
            |rows: &Rows, stream: &RunStream| rows.taken.get(&stream.run_id).is_some_and(|n| *n >= stream.attempt);
        let (lost, kept): (Vec<_>, Vec<_>) =
            self.rows(|rows| appended.into_iter().partition(|of| is_lost(rows, &of.stream)));
        let mut outcome: Answer = lost.into_iter().map(|of| (of.stream, None)).collect();
        pause().await;
        if once_in(8) {
            // It is rolled back.
            return;
        }
        self.rows(|rows| {
            let before: BTreeMap<Uuid, usize> = LOGS.map(|log| (log, rows.logs.get(&log).map_or(0, Vec::len))).into();
            for Appended { stream, known, texts } in kept {
                let of_log = rows.logs.entry(stream.log_id).or_default();
                let known = usize::try_from(known).unwrap_or_default();
                if !of_log[..before[&stream.log_id]]
                    .iter()
                    .skip(known)
                    .any(|row| row.flush_id == flush_id)
                {
                    of_log.extend(texts.into_iter().map(|text| ModelRow {
                        flush_id,
                        run: stream.run_id,
                        attempt: stream.attempt,
                        text,
                    }));
                }
                let end = number(of_log.len());
                outcome.push((stream, Some(end)));
            }
        });
        drop(locks);
        match any(6) {
            0 => drop(answer),
            1 => self.rows(|rows| rows.unanswered.push(answer)),
            // The caller may have given up.
            _ => drop(answer.send(outcome)),
        }
    }
}

fn text_of(token: &str) -> String {
    let token: Value = serde_json::from_str(token).expect("it is JSON");
    token["token"].as_str().map(str::to_owned).expect("it is a token")
}

fn number(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
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
}

impl Store for Connection {
    type Failed = &'static str;

    async fn write(&mut self, flush: &Flush<'_>) -> Result<Written, &'static str> {
        pause().await;
        if once_in(8) {
            return Err("no connection");
        }
        let of_stream = |log: &OfLog, nth: usize, known: i64| Appended {
            stream: log.streams[nth].clone(),
            known,
            texts: log
                .events
                .iter()
                .filter(|(of, _)| *of == nth)
                .map(|(_, event)| text_of(&event.data))
                .collect(),
        };
        let mut known = flush.known.iter();
        let appended = flush
            .batch
            .logs
            .iter()
            .flat_map(|log| (0..log.streams.len()).map(move |nth| (log, nth)))
            .map(|(log, nth)| of_stream(log, nth, *known.next().expect("one for each stream")))
            .collect();
        let (answer, answered) = oneshot::channel();
        let transaction = spawn(self.server.clone().transact(flush.id, appended, answer));
        self.server.rows(|rows| rows.transactions.push(transaction));
        let answer = answered.await.map_err(|_| "the connection broke")?;
        let mut lost = Vec::new();
        for (stream, end) in answer {
            match end {
                Some(end) => stream.seen.advance(end),
                None => lost.push(stream),
            }
        }
        Ok(Written { lost, rows: Vec::new() })
    }
}

fn stream((run_id, log_id): (Uuid, Uuid), attempt: i32, known: i64) -> Arc<RunStream> {
    Arc::new(RunStream {
        log_id,
        root_run_id: run_id,
        run_id,
        attempt,
        lost: CancellationToken::new(),
        seen: Seen::through(known),
    })
}

/// A worker, with its writer.
fn worker(server: &Server) -> (EventWriter, JoinHandle<()>) {
    let connection = Connection { server: server.clone() };
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
        // Neighbours can be equal.
        let token = format!("{} ", i / 3);
        let event = Event::of(stream.run_id, Kind::Token { token: token.clone() });
        if writer.append(&stream, &event).await.is_err() {
            return appended;
        }
        appended.push_str(&token);
        if once_in(4) {
            server.command(&stream, Vec::new()).await;
        }
        if once_in(4) {
            let Ok(unwritten) = writer.take_back(&stream).await else {
                return appended;
            };
            let texts = unwritten.iter().map(|event| text_of(&event.data)).collect();
            if !server.command(&stream, texts).await {
                return appended;
            }
            assert_eq!(
                server.text_of(&stream),
                appended,
                "all of it is written, by the writer or by the command"
            );
        }
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
    let one = stream(run, 1, 0);
    let running = spawn(attempt(server.clone(), first, one.clone()));
    if is_taken {
        for _ in 0..any(4) {
            pause().await;
        }
        let two = stream(run, 2, server.take_over(run).await);
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
                for ModelRow { run, .. } in events {
                    let attempts: Vec<i32> = events.iter().filter(|of| of.run == *run).map(|of| of.attempt).collect();
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
        let stream = stream(RUNS[0], 1, 0);
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
