//! The one event writer of a worker process: all runs' events, group commit.
//!
//! A flush is one transaction of two statements: take the numbers under the fence, then a plain insert. It goes out at once
//! when the last one is longer ago than the flush interval, else when that has passed or the batch is full. The queue in
//! front is bounded: while the database is slow or away, `append` waits, and with it the model's stream.
//!
//! Invariants: a run's events are written in the order of their `append` (I2); none is written once the run's lease is lost
//! (I4: the statement joins the live job by attempt and holds it KEY SHARE until the commit); a COMMIT whose answer was lost is
//! resolved by looking for its first event and never repeated (F7).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use uuid::Uuid;

use super::kinds::Event;
use crate::db::Db;
use crate::queue::settle::HotError;
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
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            flush_interval: Duration::from_millis(5),
            max_batch: 1_000,
            max_queued: 4_096,
        }
    }
}

/// A flush that takes longer is given up, its connection dropped, and its outcome looked up.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);
/// Between two tries while the database is away.
const RETRY: Duration = Duration::from_millis(200);

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
        kind: &'static str,
        data: String,
    },
    /// Answered when everything before it is committed.
    Flush {
        stream: Arc<RunStream>,
        done: oneshot::Sender<Result<(), LeaseLost>>,
    },
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
        tokio::spawn(
            Task {
                db,
                bus,
                options,
                client: None,
                committing: None,
            }
            .run(inbox),
        );
        Self { items }
    }

    /// Hands an event over, waiting while the queue is full. It is committed soon; [`EventWriter::flush`] waits for that.
    pub async fn append(&self, stream: &Arc<RunStream>, event: &Event) -> Result<(), LeaseLost> {
        if stream.lost.is_cancelled() {
            return Err(LeaseLost);
        }
        let item = Item::Event {
            stream: stream.clone(),
            kind: event.kind.name(),
            data: event.to_json(),
        };
        self.items.send(item).await.map_err(|_| LeaseLost)
    }

    /// Waits until all events of the run that were appended before are committed.
    pub async fn flush(&self, stream: &Arc<RunStream>) -> Result<(), LeaseLost> {
        let (done, answer) = oneshot::channel();
        self.items
            .send(Item::Flush {
                stream: stream.clone(),
                done,
            })
            .await
            .map_err(|_| LeaseLost)?;
        answer.await.map_err(|_| LeaseLost)?
    }
}

struct Task {
    db: Db,
    bus: SharedBus,
    options: WriterOptions,
    /// The writer's own connection, dropped after any error.
    client: Option<Object>,
    /// The commit that is under way.
    committing: Option<Committing>,
}

/// A commit whose answer is awaited: its transaction, and the first event that it leaves behind.
struct Committing {
    xid: String,
    log_id: Uuid,
    seq: i64,
    data: String,
}

/// An event of a batch.
struct Pending {
    stream: Arc<RunStream>,
    kind: &'static str,
    data: String,
}

fn take(item: Item, batch: &mut Vec<Pending>, waiting: &mut Vec<Waiting>) {
    match item {
        Item::Event { stream, kind, data } => batch.push(Pending { stream, kind, data }),
        Item::Flush { stream, done } => waiting.push((stream, done)),
    }
}

type Waiting = (Arc<RunStream>, oneshot::Sender<Result<(), LeaseLost>>);

impl Task {
    async fn run(mut self, mut inbox: mpsc::Receiver<Item>) {
        let mut last_flush = Instant::now();
        while let Some(first) = inbox.recv().await {
            let mut batch = Vec::new();
            let mut waiting = Vec::new();
            take(first, &mut batch, &mut waiting);
            // Fill the batch until the interval is over, or somebody waits for the flush.
            let due = last_flush + self.options.flush_interval;
            while batch.len() < self.options.max_batch {
                match inbox.try_recv() {
                    Ok(item) => take(item, &mut batch, &mut waiting),
                    Err(mpsc::error::TryRecvError::Disconnected) => break,
                    Err(mpsc::error::TryRecvError::Empty) => {
                        if !waiting.is_empty() || Instant::now() >= due {
                            break;
                        }
                        match tokio::time::timeout_at(due, inbox.recv()).await {
                            Ok(Some(item)) => take(item, &mut batch, &mut waiting),
                            Ok(None) | Err(_) => break,
                        }
                    }
                }
            }
            last_flush = Instant::now();
            self.flush(batch).await;
            for (stream, done) in waiting {
                // Nobody waits any more: nothing to tell.
                let _ = done.send(if stream.lost.is_cancelled() {
                    Err(LeaseLost)
                } else {
                    Ok(())
                });
            }
        }
    }

    /// Commits a batch, trying as long as it takes.
    async fn flush(&mut self, batch: Vec<Pending>) {
        if batch.is_empty() {
            return;
        }
        let mut said = false;
        loop {
            self.committing = None;
            let tried = timeout(FLUSH_LIMIT, self.try_flush(&batch)).await;
            let error = match tried {
                Ok(Ok(lost)) => {
                    for stream in lost {
                        stream.lost.cancel();
                    }
                    self.wake(&batch);
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
                && self.has_happened(&committing).await
            {
                debug!(
                    xid = committing.xid,
                    "the answer to a commit was lost; it had gone through"
                );
                self.wake(&batch);
                return;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn wake(&self, batch: &[Pending]) {
        self.bus.publish(Wake {
            logs: batch.iter().map(|pending| pending.stream.log_id).collect(),
            ..Wake::default()
        });
    }

    /// One transaction: numbers under the fence, then the events. Returns the streams whose lease was lost.
    async fn try_flush(&mut self, batch: &[Pending]) -> Result<Vec<Arc<RunStream>>, HotError> {
        if self.client.is_none() {
            self.client = Some(self.db.hot.get().await?);
        }
        let client = self.client.as_ref().expect("just connected");
        let fence = client.prepare_cached(FENCE).await?;
        let insert = client.prepare_cached(INSERT).await?;

        // How many events each (log, run, attempt) has.
        let mut counts: HashMap<(Uuid, Uuid, i32), i64> = HashMap::new();
        for pending in batch {
            let stream = &pending.stream;
            *counts
                .entry((stream.log_id, stream.run_id, stream.attempt))
                .or_default() += 1;
        }
        let mut logs = Vec::with_capacity(counts.len());
        let mut numbers = Vec::with_capacity(counts.len());
        let mut runs = Vec::with_capacity(counts.len());
        let mut attempts = Vec::with_capacity(counts.len());
        for ((log, run, attempt), n) in &counts {
            logs.push(*log);
            numbers.push(*n);
            runs.push(*run);
            attempts.push(*attempt);
        }
        let fence_arguments: [&(dyn ToSql + Sync); 4] = [&logs, &numbers, &runs, &attempts];
        let (_, rows) = tokio::try_join!(client.batch_execute("begin"), client.query(&fence, &fence_arguments))?;
        let mut xid = None;
        let mut next: HashMap<Uuid, i64> = HashMap::new();
        let mut ours: HashMap<(Uuid, i32), ()> = HashMap::new();
        for row in &rows {
            next.insert(row.get(0), row.get::<_, i64>(3) + 1);
            ours.insert((row.get(1), row.get(2)), ());
            xid = Some(row.get::<_, String>(4));
        }

        let mut event_logs = Vec::with_capacity(batch.len());
        let mut event_seqs = Vec::with_capacity(batch.len());
        let mut event_runs = Vec::with_capacity(batch.len());
        let mut event_types = Vec::with_capacity(batch.len());
        let mut event_data = Vec::with_capacity(batch.len());
        let mut lost: Vec<Arc<RunStream>> = Vec::new();
        for pending in batch {
            let stream = &pending.stream;
            if !ours.contains_key(&(stream.run_id, stream.attempt)) {
                lost.push(stream.clone());
                continue;
            }
            let seq = next.get_mut(&stream.log_id).expect("a fenced run's log has numbers");
            event_logs.push(stream.log_id);
            event_seqs.push(*seq);
            event_runs.push(stream.root_run_id);
            event_types.push(pending.kind);
            event_data.push(pending.data.as_str());
            *seq += 1;
        }
        self.committing = match (xid, event_seqs.first(), event_logs.first(), event_data.first()) {
            (Some(xid), Some(seq), Some(log_id), Some(data)) => Some(Committing {
                xid,
                log_id: *log_id,
                seq: *seq,
                data: (*data).to_owned(),
            }),
            // Nothing is written: nothing can be lost.
            _ => None,
        };
        tokio::try_join!(
            async {
                if event_seqs.is_empty() {
                    return Ok(0);
                }
                client
                    .execute(
                        &insert,
                        &[&event_logs, &event_seqs, &event_runs, &event_types, &event_data],
                    )
                    .await
            },
            client.batch_execute("commit")
        )?;
        self.committing = None;
        Ok(lost)
    }

    /// Whether a commit that went unanswered has happened: its first event is there. Asks until the server knows.
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

/// One row per (log, run): fence, and take numbers. KEY SHARE: `attempt` is part of a unique key of the job, so a takeover
/// (attempt + 1) and an append in flight exclude each other, and a heartbeat does not wait. Logs in order of id, against
/// deadlocks. A run that is missing in the result has lost its lease.
const FENCE: &str = "
with fenced as materialized (
    select t.log_id, t.n, t.run_id, t.attempt
    from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::int[]) t(log_id, n, run_id, attempt)
    join queue.jobs j on j.run_id = t.run_id and j.attempt = t.attempt and j.state = 'running'
    order by t.log_id
    for key share of j),
wanted as (
    select log_id, sum(n)::bigint as n from fenced group by log_id order by log_id),
taken as (
    update stream.logs l set last_seq = l.last_seq + w.n from wanted w where l.log_id = w.log_id
    returning l.log_id, l.last_seq - w.n as base)
select f.log_id, f.run_id, f.attempt, k.base, pg_current_xact_id()::text
from fenced f join taken k on k.log_id = f.log_id";

/// The writer has numbered the events: a plain insert.
const INSERT: &str = "
insert into stream.events (log_id, seq, run_id, type, data)
select * from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::text[])";
