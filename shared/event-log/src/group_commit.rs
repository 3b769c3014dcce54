//! The event writer of a worker process: group commit of all runs' events.
//!
//! A flush is one statement, the function `stream.write`: it locks the logs under the fence, reads their ends, and inserts. It starts immediately if
//! the last one is longer ago than the flush interval, else when that has passed or the batch is full. Meanwhile the next
//! batch gathers, and its deltas are merged where the wire allows it (`batch`). If a flush takes longer than the interval, the next one
//! begins beside it, with other logs. The queue is bounded: while the database is slow or unreachable, `append` waits, and with it the
//! model's stream.
//!
//! Invariants: a run's events are written in `append` order (I2); none is written after the run's lease is lost (I4:
//! the statement joins the live job by attempt and holds it KEY SHARE until the commit); a flush whose outcome is unknown
//! is repeated, and writes what is not there (F7), also if the first call arrives after the repeated one.
//!
//! A command that follows a run's last events can write them itself ([`EventWriter::take_back`]): one transaction instead of two.
//!
//! - here     the queue, the batching loop, retries
//! - `table`  the statement of a batch
//! - `model`  the loop under thousands of interleavings, over a failing table (tests)

#[cfg(test)]
mod model;
mod table;

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
#[cfg(test)]
use rejoin_interleave::time::{Instant, sleep, sleep_until, timeout};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
#[cfg(not(test))]
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::warn;
use uuid::Uuid;

use super::batch::{Batch, Pending};
use super::stream::RunStream;
use crate::wakeup::carried::CarriedRow;
use crate::wakeup::{SharedBus, Wake};
use rejoin_db::Db;
use rejoin_db::failure_log::ErrorChain;
use rejoin_faults::Fault;
use rejoin_types::events::Event;
use rejoin_types::ids;
use table::Table;

/// Settings of the writer.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// Minimum interval between flushes.
    pub flush_interval: Duration,
    /// Maximum number of flushes in progress, each on a connection of its own. While one is in progress, another one begins when the interval
    /// has passed.
    pub parallel_flushes: usize,
    /// Maximum number of events per flush.
    pub max_batch: usize,
    /// Maximum number of queued events; `append` waits for room beyond them.
    pub max_queued: usize,
    /// Maximum text size of merged deltas, in bytes; 0: deltas are not merged.
    pub max_delta_bytes: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            flush_interval: Duration::from_millis(5),
            parallel_flushes: 2,
            max_batch: 4_096,
            max_queued: 4_096,
            max_delta_bytes: 2_048,
        }
    }
}

/// Timeout of a flush: its connection is then closed, and the flush repeated.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);
/// Retry interval while the database is unreachable.
const RETRY: Duration = Duration::from_millis(200);
/// Maximum number of items taken from the queue at once.
const TAKE: usize = 256;
/// Maximum number of events that a command writes in place of the writer, which packs many into few rows.
const TAKEN_BACK: usize = 16;

/// The lease of the run was lost: another attempt may be active, and nothing more may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease of the run was lost")]
pub struct LeaseLost;

enum Item {
    Event {
        stream: Arc<RunStream>,
        event: Pending,
    },
    /// Answered when everything before it is committed.
    Flush(Waiting),
    /// The same, but for events that no flush has begun to write: they are returned.
    TakeBack(Waiting),
}

/// An event that was appended, but not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwritten {
    pub kind: &'static str,
    /// Its JSON text.
    pub data: String,
}

impl From<Pending> for Unwritten {
    fn from(Pending { kind, data, .. }: Pending) -> Self {
        Self { kind, data }
    }
}

/// A caller waiting until the run's events are committed, or returned.
struct Waiting {
    stream: Arc<RunStream>,
    done: oneshot::Sender<Result<Vec<Unwritten>, LeaseLost>>,
}

impl Waiting {
    fn answer(self, unwritten: Vec<Unwritten>) {
        // The caller may have stopped waiting.
        let _ = self.done.send(if self.stream.lost.is_cancelled() {
            Err(LeaseLost)
        } else {
            Ok(unwritten)
        });
    }
}

/// Handle to the writer's task. Cheap to clone.
#[derive(Clone)]
pub struct EventWriter {
    items: mpsc::Sender<Item>,
}

impl EventWriter {
    /// Starts the writer of this process.
    pub fn start(db: Db, bus: SharedBus, options: WriterOptions) -> Self {
        let tables = (0..options.parallel_flushes.max(1)).map(|_| Table::new(db.clone()));
        let (writer, running) = Self::over(tables.collect(), bus, options);
        tokio::spawn(running);
        writer
    }

    /// Creates a writer, and its task, which runs until all handles are dropped and everything is written.
    fn over<S: Store>(
        stores: Vec<S>,
        bus: SharedBus,
        options: WriterOptions,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (items, inbox) = mpsc::channel(options.max_queued);
        let flusher = |store| Flusher {
            store,
            bus: bus.clone(),
        };
        let flushers = stores.into_iter().map(flusher).collect();
        (Self { items }, run(flushers, options, inbox))
    }

    /// Queues an event, waiting while the queue is full. It is committed soon; [`EventWriter::flush`] waits for that.
    pub async fn append(&self, stream: &Arc<RunStream>, event: &Event) -> Result<(), LeaseLost> {
        self.send(stream, || Pending::of(event)).await
    }

    /// The same for an event of another program, with its own type and data. Such events are never merged.
    pub async fn append_json(
        &self,
        stream: &Arc<RunStream>,
        kind: &'static str,
        data: &Value,
    ) -> Result<(), LeaseLost> {
        self.send(stream, || Pending::of_json(kind, data)).await
    }

    async fn send(&self, stream: &Arc<RunStream>, event: impl FnOnce() -> Pending) -> Result<(), LeaseLost> {
        if stream.lost.is_cancelled() {
            return Err(LeaseLost);
        }
        let item = Item::Event {
            stream: stream.clone(),
            event: event(),
        };
        self.items.send(item).await.map_err(|_| LeaseLost)
    }

    /// Waits until all events of the run that were appended before are committed.
    pub async fn flush(&self, stream: &Arc<RunStream>) -> Result<(), LeaseLost> {
        self.ask(stream, Item::Flush).await.map(|_| ())
    }

    /// Waits until all events of the run that were appended before are committed, but for a few that no flush has begun to write: these are
    /// returned, and the caller's next command writes them. Nothing may be appended to the stream until it has.
    pub async fn take_back(&self, stream: &Arc<RunStream>) -> Result<Vec<Unwritten>, LeaseLost> {
        self.ask(stream, Item::TakeBack).await
    }

    async fn ask(
        &self,
        stream: &Arc<RunStream>,
        item: impl FnOnce(Waiting) -> Item,
    ) -> Result<Vec<Unwritten>, LeaseLost> {
        let (done, answer) = oneshot::channel();
        let waiting = Waiting {
            stream: stream.clone(),
            done,
        };
        self.items.send(item(waiting)).await.map_err(|_| LeaseLost)?;
        answer.await.map_err(|_| LeaseLost)?
    }
}

/// What is to be written: the events that gather, and what their runs wait for.
#[derive(Default)]
struct Gathering {
    /// The next flush, and those that wait until it is committed.
    batch: Batch,
    waiting: Vec<Waiting>,
    /// The logs of the flushes in progress. Their next events, and what is asked of their streams, come after these.
    in_progress: HashSet<Uuid>,
    behind: Batch,
    held: Vec<Item>,
    max_delta_bytes: usize,
}

/// The contents of a flush.
struct Gathered {
    batch: Batch,
    waiting: Vec<Waiting>,
}

impl Gathering {
    fn take(&mut self, item: Item) {
        match item {
            Item::Event { stream, event } => {
                let batch = if self.in_progress.contains(&stream.log_id) {
                    &mut self.behind
                } else {
                    &mut self.batch
                };
                batch.take(stream, event, self.max_delta_bytes);
            }
            Item::Flush(Waiting { ref stream, .. }) | Item::TakeBack(Waiting { ref stream, .. })
                if self.in_progress.contains(&stream.log_id) =>
            {
                self.held.push(item);
            }
            Item::Flush(who) if self.batch.has(who.stream.log_id) => self.waiting.push(who),
            Item::Flush(who) => who.answer(Vec::new()),
            // Another caller waits for these events.
            Item::TakeBack(who)
                if self
                    .waiting
                    .iter()
                    .any(|other| other.stream.log_id == who.stream.log_id) =>
            {
                self.waiting.push(who);
            }
            Item::TakeBack(who) => match self.batch.take_back(&who.stream, TAKEN_BACK) {
                Some(events) => who.answer(events.into_iter().map(Unwritten::from).collect()),
                None => self.waiting.push(who),
            },
        }
    }

    fn is_full(&self, max_events: usize) -> bool {
        self.batch.is_full(max_events) || self.behind.is_full(max_events)
    }

    /// Begins a flush of the batch.
    fn begin(&mut self) -> Gathered {
        let gathered = Gathered {
            batch: std::mem::take(&mut self.batch),
            waiting: std::mem::take(&mut self.waiting),
        };
        self.in_progress.extend(gathered.batch.log_ids());
        gathered
    }

    /// Ends a flush of these logs.
    fn end(&mut self, logs: &[Uuid]) {
        for log_id in logs {
            self.in_progress.remove(log_id);
        }
        self.behind.move_logs(logs, &mut self.batch);
        for item in std::mem::take(&mut self.held) {
            self.take(item);
        }
    }
}

/// Gathers events and flushes them, until all handles are dropped and everything is written. Flushes in progress at the same time have
/// different logs.
async fn run<S: Store>(flushers: Vec<Flusher<S>>, options: WriterOptions, mut inbox: mpsc::Receiver<Item>) {
    let mut idle = flushers;
    let mut flushing: FuturesUnordered<BoxFuture<'static, (Flusher<S>, Vec<Uuid>)>> = FuturesUnordered::new();
    // Late enough to overtake what should have waited for it.
    let flush_interval = if rejoin_faults::enabled(Fault::SettleBeforeEvents) {
        Duration::from_millis(500)
    } else {
        options.flush_interval
    };
    let mut last_flush = Instant::now();
    let mut gathering = Gathering {
        max_delta_bytes: options.max_delta_bytes,
        ..Gathering::default()
    };
    let mut items = Vec::with_capacity(TAKE);
    let mut closed = false;
    loop {
        let due = last_flush + flush_interval;
        tokio::select! {
            biased;
            Some((flusher, logs)) = flushing.next() => {
                idle.push(flusher);
                gathering.end(&logs);
            }
            n = inbox.recv_many(&mut items, TAKE), if !closed && !gathering.is_full(options.max_batch) => {
                closed = n == 0;
                for item in items.drain(..) {
                    gathering.take(item);
                }
            }
            () = sleep_until(due), if !idle.is_empty() && !gathering.batch.is_empty() => {}
        }
        // Who waits for a flush shares the next one with others, if there is one in progress.
        let is_awaited = flushing.is_empty() && !gathering.waiting.is_empty();
        let wanted = closed || is_awaited || gathering.batch.is_full(options.max_batch) || Instant::now() >= due;
        if wanted
            && !gathering.batch.is_empty()
            && let Some(mut flusher) = idle.pop()
        {
            last_flush = Instant::now();
            let Gathered { batch, waiting } = gathering.begin();
            flushing.push(Box::pin(async move {
                flusher.flush(&batch).await;
                for who in waiting {
                    who.answer(Vec::new());
                }
                (flusher, batch.log_ids().collect())
            }));
        }
        if closed && flushing.is_empty() {
            return;
        }
    }
}

/// The result of a committed write.
struct Written {
    /// Streams whose lease is lost: nothing of them was written.
    lost: Vec<Arc<RunStream>>,
    /// All rows that were written, if a hint can carry them.
    rows: Vec<CarriedRow>,
}

/// A batch that is written, and what all calls that try have in common.
struct Flush<'a> {
    /// A random number.
    id: i64,
    batch: &'a Batch,
    /// By stream, in the order of the batch: the log's last number that it knew to be committed before the first call.
    known: Vec<i64>,
}

impl<'a> Flush<'a> {
    fn of(batch: &'a Batch) -> Self {
        let streams = batch.logs.iter().flat_map(|of_log| &of_log.streams);
        Self {
            id: ids::new().as_u64_pair().1.cast_signed(),
            batch,
            known: streams.map(|stream| stream.seen.last()).collect(),
        }
    }
}

/// The storage of batches.
trait Store: Send + 'static {
    type Failed: Into<Box<dyn Error + Send + Sync>> + Send;

    /// One transaction: appends the events of all streams whose lease holds, unless they are there. After an error, or if the future was dropped,
    /// the caller repeats it with the same `flush`.
    fn write(&mut self, flush: &Flush<'_>) -> impl Future<Output = Result<Written, Self::Failed>> + Send;
}

/// Writes batches, retrying until they succeed.
struct Flusher<S> {
    store: S,
    bus: SharedBus,
}

impl<S: Store> Flusher<S> {
    async fn flush(&mut self, batch: &Batch) {
        if batch.is_empty() {
            return;
        }
        let mut flush = Flush::of(batch);
        let mut logged = false;
        let began = Instant::now();
        loop {
            let error = match timeout(FLUSH_LIMIT, self.store.write(&flush)).await {
                Ok(Ok(written)) => {
                    metrics::histogram!("rejoin_event_flush_seconds").record(began.elapsed().as_secs_f64());
                    metrics::counter!("rejoin_events_written_total").increment(batch.len() as u64);
                    return self.committed(batch, &written.lost, written.rows);
                }
                Ok(Err(error)) => ErrorChain(&*error.into()).to_string(),
                Err(_) => format!("no answer within {} s", FLUSH_LIMIT.as_secs()),
            };
            if !logged {
                warn!(
                    error,
                    events = batch.len(),
                    "writing events failed; trying again until it works"
                );
                logged = true;
            }
            metrics::counter!("rejoin_event_flush_retries_total").increment(1);
            if rejoin_faults::enabled(Fault::CommitRepeated) {
                flush = Flush::of(batch);
            }
            sleep(RETRY).await;
        }
    }

    fn committed(&self, batch: &Batch, lost: &[Arc<RunStream>], rows: Vec<CarriedRow>) {
        for stream in lost {
            stream.lost.cancel();
        }
        let logs = if rows.is_empty() {
            batch.logs.iter().map(|of_log| of_log.log_id).collect()
        } else {
            BTreeSet::new()
        };
        self.bus.publish(Wake {
            logs,
            rows,
            ..Wake::default()
        });
    }
}
