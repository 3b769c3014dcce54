//! The work of a project as a whole (admin): its queues, how fast its runs go, its dead jobs; and the fleet and this process, which it
//! shares with others. Jobs of other projects are not told of, nor what anybody's runs say.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_shared::audit::Action;
use rejoin_shared::queue::stats::{self, DeadJobInfo, ProjectQueue, WorkerStats};
use rejoin_shared::runs::pace::{self, Pace};
use rejoin_shared::wakeup::{Hearing, Wake};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::audit::record;
use crate::caller::Caller;
use crate::extract::Segments;
use crate::problem::{Problem, Refused};
use crate::state::AppState;

/// Dead jobs that are shown.
const MAX_DEAD_JOBS: i64 = 50;

pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(show)).routes(routes!(retry))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operations {
    /// By the database's clock
    pub at: DateTime<Utc>,
    pub queues: Vec<QueueBody>,
    /// The newest 50
    pub dead_jobs: Vec<DeadJobBody>,
    /// Runs of the last hour, over all minutes
    pub hour: PaceBody,
    /// The same by the minute: 60, the oldest first, the last one not over yet
    pub minutes: Vec<PaceBody>,
    /// All that serve this database
    pub workers: Vec<WorkerBody>,
    pub api: ApiProcess,
}

/// A queue, with the project's jobs in it
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueBody {
    pub queue: String,
    /// Nobody's jobs are claimed from it
    pub paused: bool,
    /// Due, waiting for a worker
    pub available: i64,
    /// Waiting for a later time
    pub scheduled: i64,
    /// Waiting behind another job, such as the run before it in its conversation
    pub held: i64,
    pub running: i64,
    pub dead: i64,
    /// Age of the oldest due job in seconds
    pub oldest_available_s: Option<f64>,
}

impl From<ProjectQueue> for QueueBody {
    fn from(queue: ProjectQueue) -> Self {
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

/// A job whose last attempt was lost
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadJobBody {
    pub id: i64,
    pub queue: String,
    pub kind: String,
    /// The run that it was to make happen, which has ended with it: such a job is not tried again
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

/// Runs of all users of the project, in a minute or an hour
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaceBody {
    /// When it began
    pub from: Option<DateTime<Utc>>,
    pub started: i64,
    pub completed: i64,
    pub failed: i64,
    pub cancelled: i64,
    /// Seconds that those which started had waited: half of them no longer than this
    pub waited_p50_s: Option<f64>,
    /// 95 of 100 no longer than this
    pub waited_p95_s: Option<f64>,
    /// Seconds from start to end of those which ended, with their waits for sub-agents and people: half of them
    pub took_p50_s: Option<f64>,
    /// 95 of 100
    pub took_p95_s: Option<f64>,
}

impl From<Pace> for PaceBody {
    fn from(pace: Pace) -> Self {
        Self {
            from: pace.minute,
            started: pace.started,
            completed: pace.completed,
            failed: pace.failed,
            cancelled: pace.cancelled,
            waited_p50_s: pace.waited_p50_s,
            waited_p95_s: pace.waited_p95_s,
            took_p50_s: pace.took_p50_s,
            took_p95_s: pace.took_p95_s,
        }
    }
}

/// A worker process, as its heartbeats tell of it
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerBody {
    pub id: Uuid,
    pub hostname: String,
    pub pid: i32,
    pub version: String,
    pub queues: Vec<String>,
    /// Jobs that it works on at the same time, at most
    pub slots: i32,
    /// Jobs that it works on now, whosever they are
    pub busy: i32,
    pub draining: bool,
    pub started_at: DateTime<Utc>,
    pub seen_at: DateTime<Utc>,
    /// Seen within the last 15 s
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

/// The process that has answered
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiProcess {
    /// Wake-ups: `listening`; `lost`, the connection is being made anew; `off`. Without them all is seen within a second
    pub wakeups: &'static str,
    /// How long the database took for an answer, in milliseconds
    pub database_ms: f64,
    /// Its connections for queries
    pub connections: ConnectionsBody,
    /// Its connections for streams and appends
    pub stream_connections: ConnectionsBody,
}

/// A pool of connections to the database
#[derive(Debug, Serialize, ToSchema)]
pub struct ConnectionsBody {
    /// That are open
    pub open: usize,
    /// That are open, and nobody's just now
    pub idle: usize,
    /// That there may be
    pub max: usize,
}

/// A job that was dead
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetriedBody {
    /// What it is called now
    pub job_id: i64,
    /// For people
    pub detail: String,
}

/// The project's work as a whole, and who does it
#[utoipa::path(get, path = "/api/admin/projects/{p}/operations", tag = "operations",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "As it is now", body = Operations), Refused))]
async fn show(
    State(state): State<AppState>,
    caller: Caller,
    Segments(project_id): Segments<Uuid>,
) -> Result<Json<Operations>, Problem> {
    caller.in_project(project_id)?;
    let mut db = caller.walled(&state).await?;
    let asked = Instant::now();
    let at: DateTime<Utc> = sqlx::query_scalar("select now()").fetch_one(&mut *db).await?;
    let database_ms = asked.elapsed().as_secs_f64() * 1e3;
    let queues = stats::queues_of(&mut *db, project_id).await?;
    let dead = stats::dead_of(&mut *db, project_id, MAX_DEAD_JOBS).await?;
    let mut paces = pace::pace(&mut *db).await?.into_iter().map(PaceBody::from);
    let hour = paces.next().ok_or(sqlx::Error::RowNotFound)?;
    let workers = stats::workers(&mut *db).await?;
    drop(db);
    let (sql, hot) = (&state.db.sql, state.db.hot.status());
    Ok(Json(Operations {
        at,
        queues: queues.into_iter().map(QueueBody::from).collect(),
        dead_jobs: dead.into_iter().map(DeadJobBody::from).collect(),
        hour,
        minutes: paces.collect(),
        workers: workers.into_iter().map(WorkerBody::from).collect(),
        api: ApiProcess {
            wakeups: match state.bus.hearing() {
                Hearing::Listening => "listening",
                Hearing::Lost => "lost",
                Hearing::Off => "off",
            },
            database_ms,
            connections: ConnectionsBody {
                open: sql.size() as usize,
                idle: sql.num_idle(),
                max: sql.options().get_max_connections() as usize,
            },
            stream_connections: ConnectionsBody {
                open: hot.size,
                idle: hot.available,
                max: hot.max_size,
            },
        },
    }))
}

/// Bring a dead job back, with fresh attempts
///
/// It becomes a new job, which is due at once. The job of a run can't come back: the run has ended with it; send its message again, or
/// trigger its agent anew.
#[utoipa::path(post, path = "/api/admin/projects/{p}/operations/jobs/{id}/retry", tag = "operations",
    params(("p" = Uuid, Path, description = "The project"), ("id" = i64, Path, description = "The dead job")),
    responses((status = 200, description = "It is available again", body = RetriedBody), Refused))]
async fn retry(
    State(state): State<AppState>,
    caller: Caller,
    Segments((project_id, id)): Segments<(Uuid, i64)>,
) -> Result<Json<RetriedBody>, Problem> {
    caller.in_project(project_id)?;
    let mut db = caller.walled(&state).await?;
    let Some(job) = stats::retry_dead(&mut *db, id, Some(project_id)).await? else {
        let what = "A dead job of this project that can come back (one of a run has ended with its run)";
        return Err(Problem::not_found("dead_job_not_found", what));
    };
    let detail = json!({ "kind": job.kind, "newJob": job.id });
    record(&mut db, &caller, Action::JobRetried, format!("job:{id}"), detail).await?;
    db.commit().await?;
    state.bus.publish(Wake::queue(job.queue));
    Ok(Json(RetriedBody {
        job_id: job.id,
        detail: format!("job {id} is available again as job {}", job.id),
    }))
}
