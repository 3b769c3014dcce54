//! Tests of the hub and its readers under thousands of interleavings: whatever the tail, the table, the wake-ups, the
//! beat and the clock do between two steps of a reader, it gets each event once, in order, and ends when it has to
//! (invariants I3, I11).
//!
//! Only the database is a model: its answers are late, fail, or never arrive. The ring holds four events here, so that
//! readers often fall out of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use rejoin_event_log::reader::LogEnd;
use rejoin_event_log::rows::StoredEvent;
use rejoin_event_log::wakeup::carried::CarriedRow;
use rejoin_event_log::wakeup::{Bus, Wake};
use rejoin_http::caller::Caller;
use rejoin_identity::auth::{self, SessionBasis};
use rejoin_identity::workspaces::{Quota, Role};
use rejoin_interleave::{JoinHandle, any, explore, once_in, pause, spawn};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::dialects::Dialect;
use super::fan_out::Hub;
use super::reader::{Filter, Reader};
use super::source::{Cursor, Ends, Failed, Source};
use super::streams::Streams;

/// Number of interleavings tested per model.
const ORDERS: usize = 1_200;
const LOG: Uuid = Uuid::from_u128(1);
const KEY: Uuid = Uuid::from_u128(2);
/// The final number of events in the log: so few that most readers wait for the last one, or so many that they fall out
/// of the ring.
const FEW: i64 = 2;
const MANY: i64 = 24;
const READERS: usize = 3;
/// So rare that it never occurs: a lost wake-up is not covered by a beat.
const HEARTBEAT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A database with one log and one key.
#[derive(Clone)]
struct Table {
    rows: Arc<Mutex<Rows>>,
    /// The final number of events in the log.
    events: i64,
}

#[derive(Default)]
struct Rows {
    last_seq: i64,
    /// Up to here, events are objects: the tail does not see them, pages do.
    archived_seq: i64,
    is_revoked: bool,
    is_deleted: bool,
}

impl Table {
    fn rows<T>(&self, act: impl FnOnce(&mut Rows) -> T) -> T {
        act(&mut self.rows.lock().expect("nothing panics while it is held"))
    }

    fn last_seq(&self) -> i64 {
        self.rows(|rows| rows.last_seq)
    }

    /// Returns up to `limit` events.
    fn read(&self, after: i64, limit: i64) -> Vec<StoredEvent> {
        let last = self.last_seq().min(after + limit);
        (after + 1..=last)
            .map(|seq| StoredEvent {
                seq,
                run_id: None,
                kind: "token".to_owned(),
                data: Bytes::from_static(b"{}"),
            })
            .collect()
    }
}

/// A query: `answer` is evaluated at any moment, and returned late, or never.
async fn asked<T>(answer: impl FnOnce() -> T) -> Result<T, Failed> {
    pause().await;
    let answer = answer();
    pause().await;
    match any(12) {
        0 => Err("the connection broke".into()),
        1 => std::future::pending().await,
        _ => Ok(answer),
    }
}

#[async_trait]
impl Source for Table {
    async fn news(&self, cursors: &[Cursor]) -> Result<Vec<(usize, StoredEvent)>, Failed> {
        let of_log = |(index, (_, after)): (usize, &Cursor)| {
            let archived_seq = self.rows(|rows| rows.archived_seq);
            let events = self
                .read(*after, MANY)
                .into_iter()
                .filter(|event| event.seq > archived_seq);
            events.map(|event| (index, event)).collect::<Vec<_>>()
        };
        asked(|| cursors.iter().enumerate().flat_map(of_log).collect()).await
    }

    async fn page(&self, _log: Uuid, after: i64) -> Result<Vec<StoredEvent>, Failed> {
        let limit = 1 + any(6);
        asked(|| self.read(after, i64::try_from(limit).expect("it is small"))).await
    }

    async fn still_valid(&self, bases: &[SessionBasis]) -> Result<Vec<SessionBasis>, Failed> {
        asked(|| {
            if self.rows(|rows| rows.is_revoked) {
                vec![]
            } else {
                bases.to_vec()
            }
        })
        .await
    }

    async fn ends(&self, logs: &[Uuid], _known: Option<Uuid>) -> Result<Ends, Failed> {
        asked(|| {
            let archived_seq = self.rows(|rows| rows.archived_seq);
            let end = |log: &Uuid| LogEnd {
                log_id: *log,
                last_seq: i64::MAX,
                archived_seq,
            };
            Ends {
                epoch: Uuid::nil(),
                logs: if self.rows(|rows| rows.is_deleted) {
                    vec![]
                } else {
                    logs.iter().map(end).collect()
                },
            }
        })
        .await
    }
}

/// A bus whose listeners soon lag behind.
struct Hints(broadcast::Sender<Arc<Wake>>);

impl Bus for Hints {
    fn publish(&self, wake: Wake) {
        // No listener yet: a lost hint like any other.
        let _ = self.0.send(Arc::new(wake));
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<Wake>> {
        self.0.subscribe()
    }
}

/// A process that serves streams.
struct Process {
    hub: Arc<Hub>,
    table: Table,
    bus: Arc<Hints>,
    draining: CancellationToken,
    running: JoinHandle<()>,
}

impl Process {
    fn start() -> Self {
        let table = Table {
            rows: Arc::default(),
            events: if once_in(4) { MANY } else { FEW },
        };
        let bus = Arc::new(Hints(broadcast::channel(2).0));
        let hub = Arc::new(Hub::new(
            table.clone(),
            Streams::new(READERS, READERS, READERS),
            HEARTBEAT,
        ));
        let draining = CancellationToken::new();
        let running = spawn(hub.clone().run(bus.clone(), draining.clone()));
        Self {
            hub,
            table,
            bus,
            draining,
            running,
        }
    }

    /// Appends all events, with hints of which some are lost, some carry the events, and some are late.
    fn write(&self) -> JoinHandle<()> {
        let (table, bus) = (self.table.clone(), self.bus.clone());
        spawn(async move {
            let mut late = None;
            while table.last_seq() < table.events {
                let before = table.last_seq();
                let events = if once_in(4) { 10 } else { 1 };
                table.rows(|rows| rows.last_seq = table.events.min(before + events));
                let row = |event| CarriedRow::new(LOG, event);
                let hint = match any(3) {
                    0 => Wake::default(),
                    1 => Wake::log(LOG),
                    _ => Wake {
                        rows: table.read(before, events).into_iter().map(row).collect(),
                        ..Wake::default()
                    },
                };
                if once_in(4) {
                    late = Some(hint);
                } else {
                    bus.publish(hint);
                    late.take().into_iter().for_each(|late| bus.publish(late));
                }
                pause().await;
            }
        })
    }

    /// Spawns readers that execute `read`.
    fn readers<F>(&self, read: impl Fn(Arc<Hub>, Table) -> F) -> Vec<JoinHandle<()>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        (0..READERS)
            .map(|_| spawn(read(self.hub.clone(), self.table.clone())))
            .collect()
    }

    async fn stop(self) {
        self.hub.stop();
        self.running.await.expect("it ends well");
    }
}

async fn ended(all: Vec<JoinHandle<()>>) {
    for one in all {
        one.await.expect("it ends well");
    }
}

fn open(hub: &Arc<Hub>, last_seq: i64, cursor: i64) -> Reader {
    let caller = Caller::from(auth::Caller {
        credential: auth::Credential::Key(KEY),
        shown_in: auth::Kind::Key,
        user_id: Uuid::nil(),
        workspace_id: Uuid::nil(),
        role: Role::Member,
        scopes: vec![],
        quota: Quota::default(),
    });
    let permit = hub.streams.admit(&caller).expect("there is room for all readers");
    Reader::new(
        hub.subscribe(LOG, last_seq),
        permit,
        Filter::Log,
        Dialect::Native,
        cursor,
    )
}

/// Returns the numbers of a chunk's events.
fn numbers(chunk: &Bytes) -> Vec<i64> {
    let text = std::str::from_utf8(chunk).expect("frames are text");
    text.lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .map(|number| number.parse().expect("an id is a number"))
        .collect()
}

/// Reads from any position to the end, disconnecting and reconnecting with the cursor.
async fn read_all(hub: Arc<Hub>, table: Table) {
    let begin = any(usize::try_from(table.last_seq()).expect("it counts") + 1);
    let mut cursor = i64::try_from(begin).expect("it is small");
    while cursor < table.events {
        // The end of the log a moment ago.
        let last_seq = table.last_seq();
        pause().await;
        let mut reader = open(&hub, last_seq, cursor);
        while cursor < table.events && !once_in(8) {
            let chunk = reader
                .next()
                .await
                .expect("the stream does not end")
                .expect("it can't fail");
            for seq in numbers(&chunk) {
                assert_eq!(seq, cursor + 1, "the event after {cursor}");
                cursor = seq;
            }
            pause().await;
        }
    }
}

#[test]
fn followers_get_each_event_once_in_order_whatever_happens() {
    explore(ORDERS, || async {
        let process = Process::start();
        let writing = process.write();
        let reading = process.readers(read_all);
        writing.await.expect("it ends well");
        ended(reading).await;
        process.stop().await;
    });
}

/// Reads until the stream ends. Returns its last chunk.
async fn read_until_it_ends(hub: Arc<Hub>, table: Table) -> Option<Bytes> {
    let mut last = None;
    let mut reader = open(&hub, table.last_seq(), 0);
    while let Some(chunk) = reader.next().await {
        last = Some(chunk.expect("it can't fail"));
    }
    last
}

#[test]
fn a_drain_sends_every_reader_elsewhere() {
    explore(ORDERS, || async {
        let process = Process::start();
        let writing = once_in(2).then(|| process.write());
        let reading = process.readers(|hub, table| async {
            let last = read_until_it_ends(hub, table).await.expect("it was said");
            assert_eq!(&last[..], super::frame::GOAWAY);
        });
        // While they arrive, or while they wait.
        for _ in 0..any(16) {
            pause().await;
        }
        process.draining.cancel();
        ended(writing.into_iter().collect()).await;
        ended(reading).await;
        process.stop().await;
    });
}

#[test]
fn streams_end_whose_key_was_revoked_or_whose_log_was_deleted() {
    explore(ORDERS, || async {
        let process = Process::start();
        let reading = process.readers(|hub, table| async {
            read_until_it_ends(hub, table).await;
        });
        pause().await;
        process.table.rows(|rows| match any(2) {
            0 => rows.is_revoked = true,
            _ => rows.is_deleted = true,
        });
        ended(reading).await;
        process.stop().await;
    });
}

/// Reads from the beginning to the end, reconnecting with the cursor when the stream ends.
async fn read_all_again(hub: Arc<Hub>, table: Table) {
    let mut cursor = 0;
    while cursor < table.events {
        let last_seq = table.last_seq();
        pause().await;
        let mut reader = open(&hub, last_seq, cursor);
        while cursor < table.events {
            let Some(chunk) = reader.next().await else { break };
            for seq in numbers(&chunk.expect("it can't fail")) {
                assert_eq!(seq, cursor + 1, "the event after {cursor}");
                cursor = seq;
            }
        }
    }
}

#[test]
fn readers_of_a_log_archived_before_its_tail_read_it_reconnect() {
    explore(ORDERS, || async {
        let process = Process::start();
        let reading = process.readers(read_all_again);
        for _ in 0..any(8) {
            pause().await;
        }
        let events = process.table.events;
        process.table.rows(|rows| {
            rows.last_seq = events;
            rows.archived_seq = events;
        });
        ended(reading).await;
        process.stop().await;
    });
}
