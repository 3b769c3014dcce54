//! The event writer of a worker process: group commit of all runs' events.
//!
//! A flush is one statement, the function `stream.write`: it locks the logs under the fence, reads their ends, and inserts. It starts immediately if
//! the last one is longer ago than the flush interval, else when that has passed or the batch is full. Meanwhile the next
//! batch gathers, and its deltas are merged where the wire allows it (`batch`). The queue is bounded: while the
//! database is slow or unreachable, `append` waits, and with it the model's stream.
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

use futures::future::{BoxFuture, OptionFuture};
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
        let (writer, running) = Self::over(Table::new(db), bus, options);
        tokio::spawn(running);
        writer
    }

    /// Creates a writer, and its task, which runs until all handles are dropped and everything is written.
    fn over(store: impl Store, bus: SharedBus, options: WriterOptions) -> (Self, impl Future<Output = ()> + Send) {
        let (items, inbox) = mpsc::channel(options.max_queued);
        (Self { items }, run(Flusher { store, bus }, options, inbox))
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

/// Gathers batches and flushes them one after the other, until all handles are dropped and everything is written.
async fn run<S: Store>(flusher: Flusher<S>, options: WriterOptions, mut inbox: mpsc::Receiver<Item>) {
    let mut idle = Some(flusher);
    let mut flushing: Option<BoxFuture<'static, Flusher<S>>> = None;
    // Late enough to overtake what should have waited for it.
    let flush_interval = if rejoin_faults::enabled(Fault::SettleBeforeEvents) {
        Duration::from_millis(500)
    } else {
        options.flush_interval
    };
    let mut last_flush = Instant::now();
    // The logs of the flush in progress.
    let mut in_progress: HashSet<Uuid> = HashSet::new();
    // The gathering batch, its waiting callers, and the items just taken from the queue.
    let mut batch = Batch::default();
    let mut waiting: Vec<Waiting> = Vec::new();
    // Those that wait for the flush in progress, and then take their events back.
    let mut taking: Vec<Waiting> = Vec::new();
    let mut items = Vec::with_capacity(TAKE);
    let mut closed = false;
    loop {
        let due = last_flush + flush_interval;
        tokio::select! {
            biased;
            Some(flusher) = OptionFuture::from(flushing.as_mut()) => {
                flushing = None;
                idle = Some(flusher);
                in_progress.clear();
                for who in taking.drain(..) {
                    give_back(&mut batch, who, &mut waiting);
                }
            }
            n = inbox.recv_many(&mut items, TAKE), if !closed && !batch.is_full(options.max_batch) => {
                closed = n == 0;
                for item in items.drain(..) {
                    match item {
                        Item::Event { stream, event } => batch.take(stream, event, options.max_delta_bytes),
                        Item::TakeBack(who) if in_progress.contains(&who.stream.log_id) => taking.push(who),
                        Item::TakeBack(who) => give_back(&mut batch, who, &mut waiting),
                        Item::Flush(who) if is_committed(&who, &batch, &in_progress) => who.answer(Vec::new()),
                        Item::Flush(who) => waiting.push(who),
                    }
                }
            }
            () = sleep_until(due), if idle.is_some() && !batch.is_empty() => {}
        }
        let wanted = closed || !waiting.is_empty() || batch.is_full(options.max_batch) || Instant::now() >= due;
        if wanted
            && !(batch.is_empty() && waiting.is_empty())
            && let Some(mut flusher) = idle.take()
        {
            last_flush = Instant::now();
            let (batch, waiting) = (std::mem::take(&mut batch), std::mem::take(&mut waiting));
            in_progress.extend(batch.logs.iter().map(|of_log| of_log.log_id));
            flushing = Some(Box::pin(async move {
                flusher.flush(&batch).await;
                for who in waiting {
                    who.answer(Vec::new());
                }
                flusher
            }));
        }
        if closed && flushing.is_none() {
            return;
        }
    }
}

/// Returns whether nothing of the stream is to be written.
fn is_committed(who: &Waiting, batch: &Batch, in_progress: &HashSet<Uuid>) -> bool {
    let log_id = who.stream.log_id;
    !batch.has(log_id) && !in_progress.contains(&log_id)
}

/// Gives a caller its events of the gathering batch, or makes it wait until they are committed.
fn give_back(batch: &mut Batch, who: Waiting, waiting: &mut Vec<Waiting>) {
    if waiting.iter().any(|other| other.stream.log_id == who.stream.log_id) {
        // Another caller waits for them.
        return waiting.push(who);
    }
    match batch.take_back(&who.stream, TAKEN_BACK) {
        Some(events) => who.answer(events.into_iter().map(Unwritten::from).collect()),
        None => waiting.push(who),
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
