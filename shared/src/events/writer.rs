//! The one event writer of a worker process: all runs' events, group commit.
//!
//! A flush is one transaction: lock the logs under the fence, see where they end, insert. It goes out at once
//! when the last one is longer ago than the flush interval, else when that has passed or the batch is full. While one is under
//! way the next batch gathers, and what waits in it together is merged where the wire allows it (`batch`). The queue in front is
//! bounded: while the database is slow or away, `append` waits, and with it the model's stream.
//!
//! Invariants: a run's events are written in the order of their `append` (I2); none is written once the run's lease is lost
//! (I4: the statement joins the live job by attempt and holds it KEY SHARE until the commit); a COMMIT whose answer was lost is
//! resolved by looking for its first row and never repeated (F7).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use futures::future::{BoxFuture, OptionFuture};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use uuid::Uuid;

use super::batch::{Batch, Pending};
use super::kinds::Event;
use super::rows::NewRows;
use crate::db::Db;
use crate::queue::settle::HotError;
use crate::sabotage::{self, Break};
use crate::wakeup::{SharedBus, Wake};

/// Settings of the writer.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// At most one flush in this time.
    pub flush_interval: Duration,
    /// Events that one flush takes at most.
    pub max_batch: usize,
    /// Events that may wait; `append` waits for room beyond them.
    pub max_queued: usize,
    /// Text that deltas which wait together are merged up to [bytes]; 0: each stays an event of its own.
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

/// A flush that takes longer is given up, its connection dropped, and its outcome looked up.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);
/// Between two tries while the database is away.
const RETRY: Duration = Duration::from_millis(200);
/// Items that are taken from the queue at once.
const TAKE: usize = 256;

/// The lease of the run was lost: another attempt may be at work, and nothing more may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease of the run was lost")]
pub struct LeaseLost;

/// A run's place in the log: whose events they are, and the fence under which they are written.
#[derive(Debug, Clone)]
pub struct RunStream {
    pub log_id: Uuid,
    /// Whose readers see the events.
    pub root_run_id: Uuid,
    pub run_id: Uuid,
    pub attempt: i32,
    /// Cancelled when the writer finds the lease lost.
    pub lost: CancellationToken,
}

enum Item {
    Event {
        stream: Arc<RunStream>,
        event: Pending,
    },
    /// Answered when everything before it is committed.
    Flush(Waiting),
}

/// Somebody who waits until the run's events are committed.
struct Waiting {
    stream: Arc<RunStream>,
    done: oneshot::Sender<Result<(), LeaseLost>>,
}

/// Handle to the writer's task. Cheap to clone.
#[derive(Clone)]
pub struct EventWriter {
    items: mpsc::Sender<Item>,
}

impl EventWriter {
    /// Starts the writer of this process.
    pub fn start(db: Db, bus: SharedBus, options: WriterOptions) -> Self {
        let (items, inbox) = mpsc::channel(options.max_queued);
        let flusher = Flusher {
            db,
            bus,
            client: None,
            committing: None,
        };
        tokio::spawn(run(flusher, options, inbox));
        Self { items }
    }

    /// Hands an event over, waiting while the queue is full. It is committed soon; [`EventWriter::flush`] waits for that.
    pub async fn append(&self, stream: &Arc<RunStream>, event: &Event) -> Result<(), LeaseLost> {
        if stream.lost.is_cancelled() {
            return Err(LeaseLost);
        }
        let item = Item::Event {
            stream: stream.clone(),
            event: Pending::of(event),
        };
        self.items.send(item).await.map_err(|_| LeaseLost)
    }

    /// Waits until all events of the run that were appended before are committed.
    pub async fn flush(&self, stream: &Arc<RunStream>) -> Result<(), LeaseLost> {
        let (done, answer) = oneshot::channel();
        let waiting = Waiting {
            stream: stream.clone(),
            done,
        };
        self.items.send(Item::Flush(waiting)).await.map_err(|_| LeaseLost)?;
        answer.await.map_err(|_| LeaseLost)?
    }
}

/// Gathers batches and has them flushed, one after the other, until all handles are gone and everything is written.
async fn run(flusher: Flusher, options: WriterOptions, mut inbox: mpsc::Receiver<Item>) {
    let mut idle = Some(flusher);
    let mut flushing: Option<BoxFuture<'static, Flusher>> = None;
    // Late enough for what should have waited for it.
    let flush_interval = match sabotage::is(Break::SettleBeforeEvents) {
        true => Duration::from_millis(500),
        false => options.flush_interval,
    };
    let mut last_flush = Instant::now();
    // The batch that gathers, who waits for it, and what has just been taken from the queue.
    let mut batch = Batch::default();
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut items = Vec::with_capacity(TAKE);
    let mut closed = false;
    loop {
        let due = last_flush + flush_interval;
        tokio::select! {
            biased;
            Some(flusher) = OptionFuture::from(flushing.as_mut()) => {
                flushing = None;
                idle = Some(flusher);
            }
            n = inbox.recv_many(&mut items, TAKE), if !closed && !batch.is_full(options.max_batch) => {
                closed = n == 0;
                for item in items.drain(..) {
                    match item {
                        Item::Event { stream, event } => batch.take(stream, event, options.max_delta_bytes),
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
            flushing = Some(Box::pin(async move {
                flusher.flush(&batch).await;
                for Waiting { stream, done } in waiting {
                    // Nobody waits any more: nothing to tell.
                    let _ = done.send(if stream.lost.is_cancelled() {
                        Err(LeaseLost)
                    } else {
                        Ok(())
                    });
                }
                flusher
            }));
        }
        if closed && flushing.is_none() {
            return;
        }
    }
}

/// Writes batches, over a connection of its own.
struct Flusher {
    db: Db,
    bus: SharedBus,
    /// Dropped after any error.
    client: Option<Object>,
    /// The commit that is under way.
    committing: Option<Committing>,
}

/// A commit whose answer is awaited: its transaction, and the first row that it leaves behind.
struct Committing {
    xid: String,
    log_id: Uuid,
    seq: i64,
    data: String,
}

impl Flusher {
    /// Commits a batch, trying as long as it takes.
    async fn flush(&mut self, batch: &Batch) {
        if batch.is_empty() {
            return;
        }
        let mut said = false;
        loop {
            self.committing = None;
            let tried = timeout(FLUSH_LIMIT, self.try_flush(batch)).await;
            let error = match tried {
                Ok(Ok(lost)) => {
                    for stream in lost {
                        stream.lost.cancel();
                    }
                    self.wake(batch);
                    return;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {} s", FLUSH_LIMIT.as_secs()),
            };
            // Whatever went wrong: a connection in the middle of something is of no use any more.
            if let Some(client) = self.client.take() {
                drop(Object::take(client));
            }
            if !said {
                warn!(
                    error,
                    events = batch.len(),
                    "writing events failed; trying again until it works"
                );
                said = true;
            }
            if let Some(committing) = self.committing.take()
                && !sabotage::is(Break::CommitRepeated)
                && self.has_happened(&committing).await
            {
                debug!(
                    xid = committing.xid,
                    "the answer to a commit was lost; it had gone through"
                );
                self.wake(batch);
                return;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn wake(&self, batch: &Batch) {
        self.bus.publish(Wake {
            logs: batch.logs.iter().map(|of_log| of_log.log_id).collect(),
            ..Wake::default()
        });
    }

    /// One transaction: numbers under the fence, then the events. Returns the streams whose lease was lost.
    async fn try_flush(&mut self, batch: &Batch) -> Result<Vec<Arc<RunStream>>, HotError> {
        if self.client.is_none() {
            self.client = Some(self.db.hot.get().await?);
        }
        let client = self.client.as_ref().expect("just connected");
        let fence = client.prepare_cached(FENCE).await?;
        let ends = client.prepare_cached(ENDS).await?;
        let insert = client.prepare_cached(INSERT).await?;

        let wanted = Wanted::of(batch);
        let fence_arguments: [&(dyn ToSql + Sync); 3] = [&wanted.logs, &wanted.runs, &wanted.attempts];
        let ends_arguments: [&(dyn ToSql + Sync); 1] = [&wanted.logs];
        // One round trip for all three.
        let (_, fenced, ends) = tokio::try_join!(
            client.batch_execute("begin"),
            client.query(&fence, &fence_arguments),
            client.query(&ends, &ends_arguments)
        )?;
        let taken = Taken::of(&fenced, &ends, wanted.runs.len());

        let mut rows = NewRows::default();
        let mut lost: Vec<Arc<RunStream>> = Vec::new();
        let mut first_stream = 0;
        for of_log in &batch.logs {
            let ours = &taken.ours[first_stream..first_stream + of_log.streams.len()];
            first_stream += of_log.streams.len();
            let Some(end) = taken.ends.get(&of_log.log_id) else {
                lost.extend(of_log.streams.iter().cloned());
                continue;
            };
            lost.extend(
                of_log
                    .streams
                    .iter()
                    .zip(ours)
                    .filter(|(_, ours)| !**ours)
                    .map(|(stream, _)| stream.clone()),
            );
            let kept = of_log.events.iter().filter(|(of, _)| ours[*of]);
            let next = end + if sabotage::is(Break::DroppedSeq) { 2 } else { 1 };
            for (seq, (of, event)) in (next..).zip(kept) {
                let root = of_log.streams[*of].root_run_id;
                rows.push(of_log.log_id, seq, root, event.kind, &event.data);
            }
        }
        self.committing = match (taken.xid, rows.seqs.first(), rows.logs.first(), rows.data.first()) {
            (Some(xid), Some(seq), Some(log_id), Some(data)) => Some(Committing {
                xid,
                log_id: *log_id,
                seq: *seq,
                data: data.to_string(),
            }),
            // Nothing is written: nothing can be lost.
            _ => None,
        };
        tokio::try_join!(
            async {
                if rows.is_empty() {
                    return Ok(0);
                }
                let arguments: [&(dyn ToSql + Sync); 6] = [
                    &rows.logs,
                    &rows.first_seqs,
                    &rows.seqs,
                    &rows.runs,
                    &rows.types,
                    &rows.data,
                ];
                client.execute(&insert, &arguments).await
            },
            client.batch_execute("commit")
        )?;
        self.committing = None;
        Ok(lost)
    }

    /// Whether a commit that went unanswered has happened: its first row is there. Asks until the server knows.
    async fn has_happened(&self, committing: &Committing) -> bool {
        loop {
            let asked = async {
                crate::db::wait_until_decided(&self.db.sql, &committing.xid).await?;
                sqlx::query_scalar!(
                    r#"select exists (select from stream.events where log_id = $1 and seq = $2 and data = $3) as "there!""#,
                    committing.log_id,
                    committing.seq,
                    committing.data
                )
                .fetch_one(&self.db.sql)
                .await
            };
            match asked.await {
                Ok(there) => return there,
                Err(error) => debug!(%error, "the outcome of a commit is not known yet; asking again"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Columns of the runs whose events a batch holds.
#[derive(Default)]
struct Wanted {
    logs: Vec<Uuid>,
    runs: Vec<Uuid>,
    attempts: Vec<i32>,
}

impl Wanted {
    fn of(batch: &Batch) -> Self {
        let mut wanted = Self::default();
        for of_log in &batch.logs {
            for stream in &of_log.streams {
                wanted.logs.push(of_log.log_id);
                wanted.runs.push(stream.run_id);
                wanted.attempts.push(stream.attempt);
            }
        }
        wanted
    }
}

/// What the fence answered.
#[derive(Default)]
struct Taken {
    xid: Option<String>,
    /// By the rows of [`Wanted`]: whether the run's lease holds, so that its log is locked.
    ours: Vec<bool>,
    /// The last number of each log.
    ends: HashMap<Uuid, i64>,
}

impl Taken {
    fn of(fenced: &[Row], ends: &[Row], wanted: usize) -> Self {
        let mut taken = Self {
            xid: fenced.first().map(|row| row.get(1)),
            ours: vec![sabotage::is(Break::NoFence); wanted],
            ends: ends.iter().map(|row| (row.get(0), row.get(1))).collect(),
        };
        for row in fenced {
            let nth = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
            if let Some(ours) = taken.ours.get_mut(nth) {
                *ours = true;
            }
        }
        taken
    }
}

/// Rows of (log, run): fence the run, lock the log. KEY SHARE: `attempt` is part of a unique key of the job, so a takeover
/// (attempt + 1) and an append in flight exclude each other, and a heartbeat does not wait. Logs in order of id, against
/// deadlocks. Answers with the places of the runs whose lease holds and whose log is there.
///
/// Locks leave no dead rows behind, as a counter would: the writer does not slow down beside a transaction that stays open.
const FENCE: &str = "
with wanted as materialized (
    select * from unnest($1::uuid[], $2::uuid[], $3::int[]) with ordinality w(log_id, run_id, attempt, nth)
    order by log_id)
select w.nth, pg_current_xact_id()::text from wanted w
cross join lateral (
    select from queue.jobs j
    where j.run_id = w.run_id and j.attempt = w.attempt and j.state = 'running'
    for key share) live
cross join lateral (
    select from stream.logs l where l.log_id = w.log_id
    for no key update) locked";

/// Where the logs end: a statement of its own after the lock, so that it sees what the lock's last holders have committed.
const ENDS: &str = "
select e.log_id, e.last_seq from unnest($1::uuid[]) w(log_id) join stream.log_ends e on e.log_id = w.log_id";

/// The writer has numbered the events: a plain insert.
const INSERT: &str = "
insert into stream.events (log_id, first_seq, seq, run_id, type, data)
select unnest($1::uuid[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::uuid[]), unnest($5::text[]), unnest($6::text[])";
