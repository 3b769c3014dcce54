//! Queue figures for operators, and their actions: pause, resume, retry dead jobs.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

/// How many jobs a queue has, without those that have ended well.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueDepth {
    pub queue: String,
    /// Paused for all workspaces.
    pub paused: bool,
    /// Due and claimable.
    pub available: i64,
    /// Scheduled for later (retries, snoozes).
    pub scheduled: i64,
    /// Waiting behind another job of their concurrency key.
    pub held: i64,
    pub running: i64,
    pub dead: i64,
    /// Age of the oldest due job, in seconds.
    pub oldest_available_s: Option<f64>,
}

/// Figures of one queue, with its history.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStats {
    #[serde(flatten)]
    pub depth: QueueDepth,
    pub completed_last_hour: i64,
}

/// A worker process, as known from its heartbeats.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerStats {
    pub id: Uuid,
    pub hostname: String,
    pub pid: i32,
    pub version: String,
    pub queues: Vec<String>,
    pub slots: i32,
    pub busy: i32,
    pub draining: bool,
    pub started_at: DateTime<Utc>,
    pub seen_at: DateTime<Utc>,
    /// Seen within the last lease.
    pub alive: bool,
}

/// A dead job.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadJobInfo {
    pub id: i64,
    pub queue: String,
    pub kind: String,
    pub run_id: Option<Uuid>,
    pub attempt: i32,
    pub last_error: Option<String>,
    pub finished_at: DateTime<Utc>,
}

/// Every queue with its history, by name: counts all jobs that are kept.
pub async fn queues(db: &PgPool) -> Result<Vec<QueueStats>, sqlx::Error> {
    let depths = depths(db).await?;
    let finished = sqlx::query!(
        r#"select queue,
                  count(*) filter (where state = 'completed' and finished_at > now() - interval '1 hour') as "completed!"
           from queue.finished_jobs group by queue"#
    )
    .fetch_all(db)
    .await?;
    let with_history = |depth: QueueDepth| QueueStats {
        depth,
        completed_last_hour: 0,
    };
    let mut queues: BTreeMap<String, QueueStats> = depths
        .into_iter()
        .map(|depth| (depth.queue.clone(), with_history(depth)))
        .collect();
    for row in finished {
        // One that has nothing but completed jobs is listed, too.
        let known = queues.entry(row.queue.clone()).or_insert_with(|| {
            with_history(QueueDepth {
                queue: row.queue,
                ..QueueDepth::default()
            })
        });
        known.completed_last_hour = row.completed;
    }
    Ok(queues.into_values().collect())
}

/// Every queue without its history, for metrics, too: reads the live jobs, and an index of the dead.
pub async fn depths(db: &PgPool) -> Result<Vec<QueueDepth>, sqlx::Error> {
    sqlx::query_as!(
        QueueDepth,
        r#"with live as (
             select queue,
                    count(*) filter (where state = 'available' and not held and run_at <= now()) as available,
                    count(*) filter (where state = 'available' and not held and run_at > now()) as scheduled,
                    count(*) filter (where held) as held,
                    count(*) filter (where state = 'running') as running,
                    extract(epoch from now() - min(run_at) filter (where state = 'available' and not held and run_at <= now()))::float8 as oldest
             from queue.jobs group by queue),
           dead as (
             select queue, count(*) as dead from queue.finished_jobs where state = 'failed' group by queue),
           names as (select queue from live union select queue from dead union select name from queue.queues union select 'default')
           select n.queue as "queue!", (q.paused_at is not null) as "paused!",
                  coalesce(l.available, 0) as "available!", coalesce(l.scheduled, 0) as "scheduled!",
                  coalesce(l.held, 0) as "held!", coalesce(l.running, 0) as "running!", coalesce(d.dead, 0) as "dead!",
                  l.oldest as oldest_available_s
           from names n
           left join live l on l.queue = n.queue
           left join dead d on d.queue = n.queue
           left join queue.queues q on q.name = n.queue
           order by n.queue"#
    )
    .fetch_all(db)
    .await
}

/// The same of a workspace's jobs: the queues in which it has some, and that of runs.
pub async fn queues_of(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<QueueDepth>, sqlx::Error> {
    sqlx::query_as!(
        QueueDepth,
        r#"with live as (
             select queue,
                    count(*) filter (where state = 'available' and not held and run_at <= now()) as available,
                    count(*) filter (where state = 'available' and not held and run_at > now()) as scheduled,
                    count(*) filter (where held) as held,
                    count(*) filter (where state = 'running') as running,
                    extract(epoch from now() - min(run_at) filter (where state = 'available' and not held and run_at <= now()))::float8 as oldest
             from queue.jobs where project_id = $1 group by queue),
           -- Finished ones have an index of the dead alone.
           dead as (
             select queue, count(*) as dead from queue.finished_jobs where project_id = $1 and state = 'failed' group by queue),
           names as (select queue from live union select queue from dead union select 'default')
           select n.queue as "queue!", (q.paused_at is not null) as "paused!",
                  coalesce(l.available, 0) as "available!", coalesce(l.scheduled, 0) as "scheduled!",
                  coalesce(l.held, 0) as "held!", coalesce(l.running, 0) as "running!", coalesce(d.dead, 0) as "dead!",
                  l.oldest as oldest_available_s
           from names n
           left join live l on l.queue = n.queue
           left join dead d on d.queue = n.queue
           left join queue.queues q on q.name = n.queue
           order by n.queue"#,
        workspace_id
    )
    .fetch_all(db)
    .await
}

pub async fn workers(db: impl PgExecutor<'_>) -> Result<Vec<WorkerStats>, sqlx::Error> {
    sqlx::query_as!(
        WorkerStats,
        r#"select w.id, w.hostname, w.pid, w.version, w.queues, w.slots,
                  -- as it is now: a heartbeat may be seconds old
                  coalesce(r.n, 0) as "busy!", w.draining, w.started_at, w.seen_at,
                  (w.seen_at > now() - interval '15 seconds') as "alive!"
           from queue.workers w
           left join (select worker_id, count(*)::int as n from queue.jobs where state = 'running' group by worker_id) r
             on r.worker_id = w.id
           order by w.started_at, w.id"#
    )
    .fetch_all(db)
    .await
}

/// Pauses a queue: none of its jobs is claimed until it is resumed; running ones continue. Idempotent.
pub async fn pause(db: &PgPool, queue: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into queue.queues (name, paused_at) values ($1, now())
         on conflict (name) do update set paused_at = coalesce(queue.queues.paused_at, now())",
        queue
    )
    .execute(db)
    .await?;
    Ok(())
}

pub async fn resume(db: &PgPool, queue: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("update queue.queues set paused_at = null where name = $1", queue)
        .execute(db)
        .await?;
    Ok(())
}

/// Returns whether the caller's project is the only one of the database, and so may pause its queues.
pub async fn may_pause(db: impl PgExecutor<'_>) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"select queue.is_of_one_project() as "may!""#)
        .fetch_one(db)
        .await
}

/// Pauses or resumes a queue on behalf of the caller's project. False: other projects use the queues, too, and nothing was done.
pub async fn set_paused(db: impl PgExecutor<'_>, queue: &str, is_paused: bool) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"select queue.set_paused($1, $2) as "done!""#, queue, is_paused)
        .fetch_one(db)
        .await
}

/// Dead jobs, the newest first.
pub async fn dead(db: &PgPool, queue: &str, limit: i64) -> Result<Vec<DeadJobInfo>, sqlx::Error> {
    sqlx::query_as!(
        DeadJobInfo,
        "select id, queue, kind, run_id, attempt, last_error, finished_at
         from queue.finished_jobs where queue = $1 and state = 'failed' order by finished_at desc limit $2",
        queue,
        limit
    )
    .fetch_all(db)
    .await
}

/// Dead jobs of a workspace in all queues, the newest first.
pub async fn dead_of(db: impl PgExecutor<'_>, workspace_id: Uuid, limit: i64) -> Result<Vec<DeadJobInfo>, sqlx::Error> {
    sqlx::query_as!(
        DeadJobInfo,
        "select id, queue, kind, run_id, attempt, last_error, finished_at
         from queue.finished_jobs where project_id = $1 and state = 'failed' order by finished_at desc, id desc limit $2",
        workspace_id,
        limit
    )
    .fetch_all(db)
    .await
}

/// How many dead jobs of a kind a workspace has.
#[derive(Debug, Clone)]
pub struct DeadKind {
    pub kind: String,
    pub dead: i64,
    /// Those of no run, which can be retried.
    pub retriable: i64,
}

/// Numbers of dead jobs of a workspace in all queues, by kind.
pub async fn dead_kinds_of(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<DeadKind>, sqlx::Error> {
    sqlx::query_as!(
        DeadKind,
        r#"select kind, count(*) as "dead!", count(*) filter (where run_id is null) as "retriable!"
           from queue.finished_jobs where project_id = $1 and state = 'failed'
           group by kind order by kind"#,
        workspace_id
    )
    .fetch_all(db)
    .await
}

/// The result of retrying a dead job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retried {
    pub id: i64,
    pub queue: String,
    pub kind: String,
}

/// Re-enqueues a dead job with fresh attempts; `of`: only if it belongs to this workspace. None: there is no such dead
/// job, or it is the job of a run, which has ended with its `done` (post the message again, or trigger the agent
/// again).
pub async fn retry_dead(db: impl PgExecutor<'_>, id: i64, of: Option<Uuid>) -> Result<Option<Retried>, sqlx::Error> {
    sqlx::query_as!(
        Retried,
        r#"with gone as (
             delete from queue.finished_jobs
             where id = $1 and state = 'failed' and run_id is null and ($2::uuid is null or project_id = $2)
             returning *)
           select queue.enqueue(p_kind => kind, p_payload => payload, p_queue => queue, p_project_id => project_id,
                                p_priority => priority, p_max_attempts => 5, p_unique_key => unique_key,
                                p_concurrency_key => concurrency_key) as "id!",
                  queue as "queue!", kind as "kind!"
           from gone"#,
        id,
        of
    )
    .fetch_optional(db)
    .await
}

/// Maximum number of dead jobs retried in one transaction.
pub const RETRIED_MAX: usize = 1_000;

/// Which dead jobs of a workspace are retried.
#[derive(Debug, Clone, Copy)]
pub enum DeadJobs<'a> {
    All,
    Kind(&'a str),
    Ids(&'a [i64]),
}

/// A dead job, and the job that it became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    pub dead_id: i64,
    pub id: i64,
    pub queue: String,
}

/// Re-enqueues dead jobs of a workspace with fresh attempts, the oldest `RETRIED_MAX` that can be retried. Not those of
/// runs: see `retry_dead`.
pub async fn retry_many(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    which: DeadJobs<'_>,
) -> Result<Vec<Renewed>, sqlx::Error> {
    let (kind, ids) = match which {
        DeadJobs::All => (None, None),
        DeadJobs::Kind(kind) => (Some(kind), None),
        DeadJobs::Ids(ids) => (None, Some(ids)),
    };
    sqlx::query_as!(
        Renewed,
        r#"with gone as (
             delete from queue.finished_jobs
             where state = 'failed' and id in (
                 select id from queue.finished_jobs
                 where project_id = $1 and state = 'failed' and run_id is null
                   and ($2::text is null or kind = $2) and ($3::bigint[] is null or id = any($3))
                 order by id
                 limit $4)
             returning *)
           select id as "dead_id!",
                  queue.enqueue(p_kind => kind, p_payload => payload, p_queue => queue, p_project_id => project_id,
                                p_priority => priority, p_max_attempts => 5, p_unique_key => unique_key,
                                p_concurrency_key => concurrency_key) as "id!",
                  queue as "queue!"
           from gone
           order by gone.id"#,
        workspace_id,
        kind as _,
        ids as _,
        RETRIED_MAX as i64
    )
    .fetch_all(db)
    .await
}
