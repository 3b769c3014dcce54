//! The writer's [`Store`]: one transaction per batch, over its own connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::sleep;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tracing::debug;
use uuid::Uuid;

use super::super::batch::Batch;
use super::super::rows::NewRows;
use super::{RunStream, Store, Written};
use crate::wakeup::carried::CarriedRow;
use rejoin_db::Db;
use rejoin_db::PgError;
use rejoin_db::failure_log::ErrorChain;
use rejoin_faults::Fault;

/// Interval between lookups of a commit's outcome.
const RETRY: Duration = Duration::from_millis(200);

pub(super) struct Table {
    db: Db,
    /// Dropped after any error.
    client: Option<Object>,
    /// The commit in progress.
    committing: Option<Committing>,
}

/// A commit whose response is awaited: its transaction, the first row that it inserts, and the streams that it
/// excluded.
struct Committing {
    xid: String,
    log_id: Uuid,
    seq: i64,
    data: String,
    lost: Vec<Arc<RunStream>>,
    ends: Vec<(Arc<RunStream>, i64)>,
}

impl Table {
    pub fn new(db: Db) -> Self {
        Self {
            db,
            client: None,
            committing: None,
        }
    }

    /// Returns whether an unanswered commit has happened: its first row exists. Asks until the server knows.
    async fn has_happened(&self, committing: &Committing) -> bool {
        loop {
            let asked = async {
                rejoin_db::wait_until_decided(&self.db.pool_sqlx, &committing.xid).await?;
                sqlx::query_scalar!(
                    r#"select exists (select from stream.events where log_id = $1 and seq = $2 and data = $3) as "there!""#,
                    committing.log_id,
                    committing.seq,
                    committing.data
                )
                .fetch_one(&self.db.pool_sqlx)
                .await
            };
            match asked.await {
                Ok(there) => return there,
                Err(error) => debug!(error = %ErrorChain(&error), "the outcome of a commit is unknown; checking again"),
            }
            sleep(RETRY).await;
        }
    }
}

impl Store for Table {
    type Failed = PgError;

    /// Takes numbers under the fence, then inserts the events.
    async fn write(&mut self, batch: &Batch) -> Result<Written, PgError> {
        self.committing = None;
        if self.client.is_none() {
            self.client = Some(self.db.pool_pg.get().await?);
        }
        let client = self.client.as_ref().expect("just connected");
        let fence = client.prepare_cached(FENCE).await?;
        let ends = client.prepare_cached(ENDS).await?;
        let insert = client.prepare_cached(INSERT).await?;

        let columns = FenceColumns::of(batch);
        let fence_arguments: [&(dyn ToSql + Sync); 3] = [&columns.logs, &columns.runs, &columns.attempts];
        let ends_arguments: [&(dyn ToSql + Sync); 1] = [&columns.logs];
        // One round trip for all three.
        let (_, fenced, ends) = tokio::try_join!(
            client.batch_execute("begin"),
            client.query(&fence, &fence_arguments),
            client.query(&ends, &ends_arguments)
        )?;
        let mut fence_result = FenceResult::of(&fenced, &ends, columns.runs.len());

        let mut rows = NewRows::default();
        let mut lost: Vec<Arc<RunStream>> = Vec::new();
        // The logs' ends after this write, for the streams written.
        let mut seen: Vec<(Arc<RunStream>, i64)> = Vec::new();
        let mut first_stream = 0;
        for of_log in &batch.logs {
            let ours = &mut fence_result.ours[first_stream..first_stream + of_log.streams.len()];
            first_stream += of_log.streams.len();
            let Some(end) = fence_result.ends.get(&of_log.log_id) else {
                lost.extend(of_log.streams.iter().cloned());
                continue;
            };
            // A log that ends before what a stream has seen was rolled back: appended events would follow different
            // ones.
            for (stream, ours) in of_log.streams.iter().zip(ours.iter_mut()) {
                *ours &= stream.seen.last() <= *end;
            }
            lost.extend(
                of_log
                    .streams
                    .iter()
                    .zip(ours.iter())
                    .filter(|(_, ours)| !**ours)
                    .map(|(stream, _)| stream.clone()),
            );
            let kept = of_log.events.iter().filter(|(of, _)| ours[*of]);
            let next = end
                + if rejoin_faults::enabled(Fault::DroppedSeq) {
                    2
                } else {
                    1
                };
            let mut last = *end;
            for (seq, (of, event)) in (next..).zip(kept) {
                let root = of_log.streams[*of].root_run_id;
                rows.push(of_log.log_id, seq, root, event.kind, &event.data);
                last = seq;
            }
            let writing = of_log.streams.iter().zip(ours.iter()).filter(|(_, ours)| **ours);
            seen.extend(writing.map(|(stream, _)| (stream.clone(), last)));
        }
        self.committing = match (
            fence_result.xid,
            rows.seqs.first(),
            rows.logs.first(),
            rows.data.first(),
        ) {
            (Some(xid), Some(seq), Some(log_id), Some(data)) => Some(Committing {
                xid,
                log_id: *log_id,
                seq: *seq,
                data: data.to_string(),
                lost: lost.clone(),
                ends: seen.clone(),
            }),
            // Nothing was written: nothing can be lost.
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
        advance(&seen);
        let rows = CarriedRow::of(&rows);
        Ok(Written { lost, rows })
    }

    async fn settle(&mut self) -> Option<Vec<Arc<RunStream>>> {
        // A connection with a pending statement cannot be reused.
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
        let committing = self.committing.take()?;
        if rejoin_faults::enabled(Fault::CommitRepeated) || !self.has_happened(&committing).await {
            return None;
        }
        debug!(
            xid = committing.xid,
            "the response to a commit was lost, but the commit succeeded"
        );
        advance(&committing.ends);
        Some(committing.lost)
    }
}

/// Records the committed ends of the streams' logs.
fn advance(ends: &[(Arc<RunStream>, i64)]) {
    for (stream, end) in ends {
        stream.seen.advance(*end);
    }
}

/// Columns of the runs whose events a batch contains.
#[derive(Default)]
struct FenceColumns {
    logs: Vec<Uuid>,
    runs: Vec<Uuid>,
    attempts: Vec<i32>,
}

impl FenceColumns {
    fn of(batch: &Batch) -> Self {
        let mut columns = Self::default();
        for of_log in &batch.logs {
            for stream in &of_log.streams {
                columns.logs.push(of_log.log_id);
                columns.runs.push(stream.run_id);
                columns.attempts.push(stream.attempt);
            }
        }
        columns
    }
}

/// The result of the fence.
#[derive(Default)]
struct FenceResult {
    xid: Option<String>,
    /// By the rows of [`FenceColumns`]: whether the run's lease holds, and its log is locked.
    ours: Vec<bool>,
    /// The last number of each log.
    ends: HashMap<Uuid, i64>,
}

impl FenceResult {
    fn of(fenced: &[Row], ends: &[Row], runs: usize) -> Self {
        let mut fence_result = Self {
            xid: fenced.first().map(|row| row.get(1)),
            ours: vec![rejoin_faults::enabled(Fault::NoFence); runs],
            ends: ends.iter().map(|row| (row.get(0), row.get(1))).collect(),
        };
        for row in fenced {
            let nth = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
            if let Some(ours) = fence_result.ours.get_mut(nth) {
                *ours = true;
            }
        }
        fence_result
    }
}

/// Rows of (log, run): fences the run, locks the log. KEY SHARE: `attempt` is part of a unique key of the job, so a
/// takeover (attempt + 1) and an append in progress exclude each other, and a heartbeat does not wait. Logs in order of
/// id, to avoid deadlocks. Returns the positions of the runs whose lease holds and whose log exists.
///
/// Locks leave no dead rows, unlike a counter: the writer does not slow down beside a long transaction. Exactly running
/// jobs have a lease; asked for their state, a server without statistics goes through the index of all running jobs for
/// each run.
const FENCE: &str = "
with wanted as materialized (
    select * from unnest($1::uuid[], $2::uuid[], $3::int[]) with ordinality w(log_id, run_id, attempt, nth)
    order by log_id)
select w.nth, pg_current_xact_id()::text from wanted w
cross join lateral (
    select from queue.jobs j
    where j.run_id = w.run_id and j.attempt = w.attempt and j.lease_until is not null
    for key share) live
cross join lateral (
    select from stream.logs l where l.log_id = w.log_id
    for no key update) locked";

/// Reads the logs' ends: a separate statement after the lock, so that it sees the commits of earlier lock holders.
const ENDS: &str = "
select e.log_id, e.last_seq from unnest($1::uuid[]) w(log_id) join stream.log_ends e on e.log_id = w.log_id";

/// Inserts the events, which the writer has numbered.
const INSERT: &str = "
insert into stream.events (log_id, first_seq, seq, run_id, type, data)
select unnest($1::uuid[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::uuid[]), unnest($5::text[]), unnest($6::text[])";
