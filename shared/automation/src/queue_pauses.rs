//! A project that has the database to itself pauses queues, and lets them go on (admin). `GET /api/admin/projects/{p}/operations` shows the pauses.

use axum::Json;
use axum::extract::State;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::Segments;
use rejoin_http::problem::{Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_queue::stats;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use rejoin_chat::{ChatState, Routes};

/// Maximum length of a queue's name, in characters.
const NAME_MAX_CHARS: usize = 100;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(pause_queue)).routes(routes!(resume_queue))
}

/// Whether a queue is paused
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuePauseBody {
    pub queue: String,
    pub paused: bool,
}

/// Pause a queue: none of its jobs begins until it is resumed; running jobs continue. Idempotent
///
/// Only if the database has no other project, because queues belong to all of them. Otherwise an operator does it: `rejoin queue pause`.
#[utoipa::path(post, path = "/api/admin/projects/{p}/operations/queues/{queue}/pause", tag = "operations",
    params(("p" = Uuid, Path, description = "The project"), ("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Paused", body = QueuePauseBody),
        (status = 409, description = "Other projects use the queue, too", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused))]
async fn pause_queue(
    State(state): State<ChatState>,
    caller: Caller<Admin>,
    Segments((workspace_id, queue)): Segments<(Uuid, String)>,
) -> Result<Json<QueuePauseBody>, Problem> {
    set(&state, &caller, workspace_id, queue, true).await
}

/// Resume a paused queue. Idempotent
#[utoipa::path(post, path = "/api/admin/projects/{p}/operations/queues/{queue}/resume", tag = "operations",
    params(("p" = Uuid, Path, description = "The project"), ("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Resumed", body = QueuePauseBody),
        (status = 409, description = "Other projects use the queue, too", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused))]
async fn resume_queue(
    State(state): State<ChatState>,
    caller: Caller<Admin>,
    Segments((workspace_id, queue)): Segments<(Uuid, String)>,
) -> Result<Json<QueuePauseBody>, Problem> {
    set(&state, &caller, workspace_id, queue, false).await
}

async fn set(
    state: &ChatState,
    caller: &Caller,
    workspace_id: Uuid,
    queue: String,
    paused: bool,
) -> Result<Json<QueuePauseBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    if queue.trim().is_empty() || queue.chars().count() > NAME_MAX_CHARS || queue.contains('\0') {
        let detail = format!("the name of a queue has 1 to {NAME_MAX_CHARS} characters");
        return Err(Problem::bad_request("invalid_name", detail));
    }
    let mut db = caller.begin(state).await?;
    if !stats::set_paused(&mut *db, &queue, paused).await? {
        let detail = format!(
            "other projects use the queue, too; an operator can pause and resume it: rejoin queue pause {queue}"
        );
        return Err(Problem::conflict("shared_queue", detail));
    }
    let action = if paused {
        Action::QueuePaused
    } else {
        Action::QueueResumed
    };
    record(&mut db, caller, action, format!("queue:{queue}"), json!({})).await?;
    db.commit().await?;
    if !paused {
        state.bus.publish(Wake::queue(queue.clone()));
    }
    Ok(Json(QueuePauseBody { queue, paused }))
}
