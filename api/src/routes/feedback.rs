//! Feedback of a user on an answer.

use axum::extract::State;
use axum::http::StatusCode;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::feedback::{self, COMMENT_MAX_CHARS};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(put))
}

/// Feedback about an answer
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeedbackRequest {
    pub helped: bool,
    #[schema(max_length = 2000)]
    pub comment: Option<String>,
}

/// Set the feedback about an answer. It replaces earlier feedback
#[utoipa::path(put, path = "/api/messages/{id}/feedback", tag = "conversations", request_body = FeedbackRequest,
    params(("id" = Uuid, Path, description = "The answer's message")),
    responses((status = 204, description = "Noted"), Refused, BodyRefused))]
async fn put(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(request): Body<FeedbackRequest>,
) -> Result<StatusCode, Problem> {
    let comment = request.comment.as_deref();
    if comment.is_some_and(|comment| comment.chars().count() > COMMENT_MAX_CHARS || comment.contains('\0')) {
        let detail = format!("comment must have at most {COMMENT_MAX_CHARS} characters and no NUL");
        return Err(Problem::bad_request("invalid_comment", detail));
    }
    let mut db = caller.begin(&state).await?;
    if !feedback::set(&mut *db, caller.owner(), id, request.helped, comment).await? {
        return Err(Problem::not_found("message_not_found", "The answer"));
    }
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
