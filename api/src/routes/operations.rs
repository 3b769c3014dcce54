//! Operation of a project (admin): its queues, throughput, dead jobs; and the fleet and this process, which it shares
//! with others. Other projects' jobs and the content of runs are not shown. `rejoin_automation` retries dead jobs.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_event_log::wakeup::Hearing;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::Segments;
use rejoin_http::problem::{Problem, Refused};
use rejoin_queue::stats::{self, DeadJobInfo, DeadKind, QueueDepth, WorkerStats};
use rejoin_runs::runs::throughput::{self, Throughput};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

/// Maximum number of dead jobs shown.
const MAX_DEAD_JOBS: i64 = 50;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(show))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operations {
    /// Current time of the database's clock
    pub at: DateTime<Utc>,
    pub queues: Vec<QueueBody>,
    /// Whether the project may pause queues: the database has no other project
    pub may_pause_queues: bool,
    /// The newest 50
    pub dead_jobs: Vec<DeadJobBody>,
    /// Numbers of all dead jobs, by kind
    pub dead_kinds: Vec<DeadKindBody>,
    /// Run statistics of the last hour
    pub hour: PaceBody,
    /// The same per minute: 60 minutes, oldest first; the last one is incomplete
    pub minutes: Vec<PaceBody>,
    /// All workers that use this database
    pub workers: Vec<WorkerBody>,
    pub api: ApiProcess,
}

/// A queue with the project's jobs
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueBody {
    pub queue: String,
    /// Whether the queue is paused
    pub paused: bool,
    /// Due, waiting for a worker
    pub available: i64,
    /// Scheduled for a later time
    pub scheduled: i64,
    /// Waiting for another job, such as the previous run of its conversation
    pub held: i64,
    pub running: i64,
    pub dead: i64,
    /// Age of the oldest due job, in seconds
    pub oldest_available_s: Option<f64>,
}

impl From<QueueDepth> for QueueBody {
    fn from(queue: QueueDepth) -> Self {
        Self {
            queue: queue.queue,
            paused: queue.paused,
            available: queue.available,
            scheduled: queue.scheduled,
            held: queue.held,
            running: queue.running,
            dead: queue.dead,
            oldest_available_s: queue.oldest_available_s,
        }
    }
}

/// A job that failed permanently
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadJobBody {
    pub id: i64,
    pub queue: String,
    pub kind: String,
    /// Its run, which has ended with it: such a job cannot be retried
    pub run_id: Option<Uuid>,
    pub attempt: i32,
    pub last_error: Option<String>,
    pub finished_at: DateTime<Utc>,
}

impl From<DeadJobInfo> for DeadJobBody {
    fn from(job: DeadJobInfo) -> Self {
        Self {
            id: job.id,
            queue: job.queue,
            kind: job.kind,
            run_id: job.run_id,
            attempt: job.attempt,
            last_error: job.last_error,
            finished_at: job.finished_at,
        }
    }
}

/// Dead jobs of a kind
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadKindBody {
    pub kind: String,
    pub dead: i64,
    /// Those of no run, which can be retried
    pub retriable: i64,
}

impl From<DeadKind> for DeadKindBody {
    fn from(DeadKind { kind, dead, retriable }: DeadKind) -> Self {
        Self { kind, dead, retriable }
    }
}

/// Statistics of the runs of all users of the project, for a minute or an hour
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaceBody {
    /// Start of the period
    pub from: Option<DateTime<Utc>>,
    pub started: i64,
    pub completed: i64,
    pub failed: i64,
    pub cancelled: i64,
    /// Median wait of the runs that started, in seconds
    pub waited_p50_s: Option<f64>,
    /// 95th percentile of the wait
    pub waited_p95_s: Option<f64>,
    /// 99th percentile of the wait
    pub waited_p99_s: Option<f64>,
    /// Median time from the creation of the runs that started to their first token, in seconds; of the newest 1,000 of the
    /// hour, without sub-agents. Null: there was no token
    pub first_token_p50_s: Option<f64>,
    /// 95th percentile of that time
    pub first_token_p95_s: Option<f64>,
    /// 99th percentile of that time
    pub first_token_p99_s: Option<f64>,
    /// Median time from start to end of the runs that ended, in seconds, including waits for sub-agents and people
    pub took_p50_s: Option<f64>,
    /// 95th percentile of that time
    pub took_p95_s: Option<f64>,
    /// 99th percentile of that time
    pub took_p99_s: Option<f64>,
}

impl From<Throughput> for PaceBody {
    fn from(minute: Throughput) -> Self {
        Self {
            from: minute.minute,
            started: minute.started,
            completed: minute.completed,
            failed: minute.failed,
            cancelled: minute.cancelled,
            waited_p50_s: minute.waited_p50_s,
            waited_p95_s: minute.waited_p95_s,
            waited_p99_s: minute.waited_p99_s,
            first_token_p50_s: minute.first_token_p50_s,
            first_token_p95_s: minute.first_token_p95_s,
            first_token_p99_s: minute.first_token_p99_s,
            took_p50_s: minute.took_p50_s,
            took_p95_s: minute.took_p95_s,
            took_p99_s: minute.took_p99_s,
        }
    }
}

/// A worker process, from its heartbeats
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerBody {
    pub id: Uuid,
    pub hostname: String,
    pub pid: i32,
    pub version: String,
    pub queues: Vec<String>,
    /// Maximum number of concurrent jobs
    pub slots: i32,
    /// Number of current jobs, of all projects
    pub busy: i32,
    pub draining: bool,
    pub started_at: DateTime<Utc>,
    pub seen_at: DateTime<Utc>,
    /// Whether its last heartbeat is at most 15 s old
    pub alive: bool,
}

impl From<WorkerStats> for WorkerBody {
    fn from(worker: WorkerStats) -> Self {
        Self {
            id: worker.id,
            hostname: worker.hostname,
            pid: worker.pid,
            version: worker.version,
            queues: worker.queues,
            slots: worker.slots,
            busy: worker.busy,
            draining: worker.draining,
            started_at: worker.started_at,
            seen_at: worker.seen_at,
            alive: worker.alive,
        }
    }
}

/// The API process that responded
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiProcess {
    /// Wake-ups: `listening`; `lost`: reconnecting; `off`. Without them, events are seen within a second
    pub wakeups: &'static str,
    /// Response time of the database, in milliseconds
    pub database_ms: f64,
    /// Its connections for queries
    pub connections: ConnectionsBody,
    /// Its connections for streams and appends
    pub stream_connections: ConnectionsBody,
}

/// A pool of database connections
#[derive(Debug, Serialize, ToSchema)]
pub struct ConnectionsBody {
    /// Open connections
    pub open: usize,
    /// Idle connections
    pub idle: usize,
    /// Maximum number of connections
    pub max: usize,
}

/// Get the state of the project's queues, runs and workers
#[utoipa::path(get, path = "/api/admin/projects/{p}/operations", tag = "operations",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The current state", body = Operations), Refused))]
async fn show(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<Operations>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let asked = Instant::now();
    let at: DateTime<Utc> = sqlx::query_scalar("select now()").fetch_one(&mut *db).await?;
    let database_ms = asked.elapsed().as_secs_f64() * 1e3;
    let queues = stats::queues_of(&mut *db, workspace_id).await?;
    let may_pause_queues = stats::may_pause(&mut *db).await?;
    let dead = stats::dead_of(&mut *db, workspace_id, MAX_DEAD_JOBS).await?;
    let dead_kinds = stats::dead_kinds_of(&mut *db, workspace_id).await?;
    let mut minutes = throughput::per_minute(&mut *db).await?.into_iter().map(PaceBody::from);
    let hour = minutes.next().ok_or(sqlx::Error::RowNotFound)?;
    let workers = stats::workers(&mut *db).await?;
    drop(db);
    let (pool_sqlx, pool_pg) = (&state.db.pool_sqlx, state.db.pool_pg.status());
    Ok(Json(Operations {
        at,
        queues: queues.into_iter().map(QueueBody::from).collect(),
        may_pause_queues,
        dead_jobs: dead.into_iter().map(DeadJobBody::from).collect(),
        dead_kinds: dead_kinds.into_iter().map(DeadKindBody::from).collect(),
        hour,
        minutes: minutes.collect(),
        workers: workers.into_iter().map(WorkerBody::from).collect(),
        api: ApiProcess {
            wakeups: match state.bus.hearing() {
                Hearing::Listening => "listening",
                Hearing::Lost => "lost",
                Hearing::Off => "off",
            },
            database_ms,
            connections: ConnectionsBody {
                open: pool_sqlx.size() as usize,
                idle: pool_sqlx.num_idle(),
                max: pool_sqlx.options().get_max_connections() as usize,
            },
            stream_connections: ConnectionsBody {
                open: pool_pg.size,
                idle: pool_pg.available,
                max: pool_pg.max_size,
            },
        },
    }))
}
