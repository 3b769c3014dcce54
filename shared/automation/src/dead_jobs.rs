//! Dead jobs of a project (admin) are retried: one, those of a list, all of a kind, or all. The job of a run is not, because the run has ended
//! with it. `GET /api/admin/projects/{p}/operations` lists them.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_queue::stats::{self, DeadJobs, RETRIED_MAX};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use rejoin_chat::{ChatState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(retry)).routes(routes!(retry_many))
}

/// A job that was retried
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetriedBody {
    /// Its new id
    pub job_id: i64,
    /// Text for people
    pub detail: String,
}

/// Which dead jobs to retry; without a field: all
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRequest {
    /// These jobs
    #[schema(min_items = 1, max_items = 1000)]
    pub ids: Option<Vec<i64>>,
    /// Jobs of this kind
    pub kind: Option<String>,
}

impl RetryRequest {
    fn which(&self) -> Result<DeadJobs<'_>, Problem> {
        match (&self.ids, &self.kind) {
            (Some(_), Some(_)) => {
                let detail = "ids and kind cannot be combined";
                Err(Problem::bad_request("invalid_request", detail))
            }
            (Some(ids), None) if ids.is_empty() || ids.len() > RETRIED_MAX => {
                let detail = format!("ids must be 1 to {RETRIED_MAX}");
                Err(Problem::bad_request("invalid_request", detail))
            }
            (Some(ids), None) => Ok(DeadJobs::Ids(ids)),
            (None, Some(kind)) if kind.contains('\0') => {
                Err(Problem::bad_request("invalid_request", "kind contains a NUL"))
            }
            (None, Some(kind)) => Ok(DeadJobs::Kind(kind)),
            (None, None) => Ok(DeadJobs::All),
        }
    }
}

/// The jobs that were retried
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetriedManyBody {
    pub jobs: Vec<RetriedJobBody>,
}

/// A dead job that was retried
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetriedJobBody {
    /// The dead job
    pub id: i64,
    /// Its new id
    pub job_id: i64,
}

/// Retry a dead job
///
/// It becomes a new job, which is due at once. A run's job cannot be retried because the run has ended with it; send
/// its message again, or trigger its agent again.
#[utoipa::path(post, path = "/api/admin/projects/{p}/operations/jobs/{id}/retry", tag = "operations",
    params(("p" = Uuid, Path, description = "The project"), ("id" = i64, Path, description = "The dead job")),
    responses((status = 200, description = "The job is available again", body = RetriedBody), Refused))]
async fn retry(
    State(state): State<ChatState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, i64)>,
) -> Result<Json<RetriedBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let Some(job) = stats::retry_dead(&mut *db, id, Some(workspace_id)).await? else {
        let what = "A dead job of this project that can be retried (a run's job cannot be: the run has ended with it)";
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

/// Retry dead jobs: those of a list, all of a kind, or all
///
/// Each becomes a new job, which is due at once; the oldest 1,000 in one request. Jobs that are not dead, and those of
/// runs, are left out.
#[utoipa::path(post, path = "/api/admin/projects/{p}/operations/retry-jobs", tag = "operations", request_body = RetryRequest,
    operation_id = "retry_dead_jobs", params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The jobs that are available again", body = RetriedManyBody), Refused, BodyRefused))]
async fn retry_many(
    State(state): State<ChatState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<RetryRequest>,
) -> Result<Json<RetriedManyBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let which = request.which()?;
    let mut db = caller.begin(&state).await?;
    let jobs = stats::retry_many(&mut *db, workspace_id, which).await?;
    if !jobs.is_empty() {
        let ids: Vec<i64> = jobs.iter().map(|job| job.dead_id).collect();
        let detail = json!({ "kind": request.kind, "jobs": ids });
        record(&mut db, &caller, Action::JobRetried, "jobs".to_owned(), detail).await?;
    }
    db.commit().await?;
    let queues: BTreeSet<&str> = jobs.iter().map(|job| job.queue.as_str()).collect();
    for queue in queues {
        state.bus.publish(Wake::queue(queue.to_owned()));
    }
    let jobs = jobs.into_iter().map(|job| RetriedJobBody {
        id: job.dead_id,
        job_id: job.id,
    });
    Ok(Json(RetriedManyBody { jobs: jobs.collect() }))
}
