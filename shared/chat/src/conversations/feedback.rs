//! Feedback of a user on an answer; lists of it, and its export for evaluation sets.

use std::io;

use axum::Json;
use axum::body::Body as ResponseBody;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::stream;
use rejoin_db::rls;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Limit, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::feedback::{self, Feedback, FeedbackFilter, NewFeedback};
use rejoin_types::owner::Owner;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::state::{ChatState, Routes};

/// Number of answers that an export reads at once.
const EXPORT_PAGE: i64 = 100;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(get_feedback, put, delete_feedback))
        .routes(routes!(list_feedback))
        .routes(routes!(export_feedback))
}

/// Feedback about an answer
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeedbackRequest {
    pub helped: bool,
    #[schema(max_length = 2000)]
    pub comment: Option<String>,
    /// Words by which you sort feedback, such as `wrong` or `slow`: at most 10, of 50 characters each
    #[serde(default)]
    pub labels: Vec<String>,
}

/// Feedback, with the answer that it is about
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Feedback)]
pub struct FeedbackBody {
    /// The answer
    pub message_id: Uuid,
    pub conversation_id: Uuid,
    /// The run that wrote the answer
    pub run_id: Option<Uuid>,
    pub agent_definition_id: Option<Uuid>,
    /// The agent's name at that time
    pub agent: Option<String>,
    /// The version of the agent
    pub agent_version: Option<i32>,
    pub model: Option<String>,
    pub helped: bool,
    pub comment: Option<String>,
    pub labels: Vec<String>,
    pub updated_at: DateTime<Utc>,
    /// The message that was answered
    pub question: Option<String>,
    /// The text of the answer
    pub answer: String,
}

impl From<Feedback> for FeedbackBody {
    fn from(feedback: Feedback) -> Self {
        Self {
            message_id: feedback.message_id,
            conversation_id: feedback.conversation_id,
            run_id: feedback.run_id,
            agent_definition_id: feedback.agent_definition_id,
            agent: feedback.agent,
            agent_version: feedback.agent_version,
            model: feedback.model,
            helped: feedback.helped,
            comment: feedback.comment,
            labels: feedback.labels,
            updated_at: feedback.updated_at,
            question: feedback.question,
            answer: feedback.answer,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackPage {
    pub items: Vec<FeedbackBody>,
    pub next_cursor: Option<String>,
}

/// Filter and page of feedback
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FeedbackParams {
    /// Only answers that helped, or only those that did not
    pub helped: Option<bool>,
    /// Only feedback with this label
    pub label: Option<String>,
    /// Only answers of this agent
    pub agent_definition_id: Option<Uuid>,
    /// Only answers of this conversation
    pub conversation_id: Option<Uuid>,
    /// Maximum number of items in the page
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the previous page
    pub cursor: Option<String>,
}

/// Filter of exported feedback
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FeedbackExportParams {
    /// Only answers that helped, or only those that did not
    pub helped: Option<bool>,
    /// Only feedback with this label
    pub label: Option<String>,
    /// Only answers of this agent
    pub agent_definition_id: Option<Uuid>,
    /// Only answers of this conversation
    pub conversation_id: Option<Uuid>,
}

fn checked(label: Option<String>) -> Result<Option<String>, Problem> {
    match label {
        Some(label) if label.contains('\0') => Err(Problem::bad_request("invalid_query", "label contains a NUL")),
        label => Ok(label),
    }
}

fn not_found() -> Problem {
    Problem::not_found("message_not_found", "The answer")
}

/// Set the feedback about an answer. It replaces earlier feedback
#[utoipa::path(put, path = "/api/messages/{id}/feedback", tag = "conversations", request_body = FeedbackRequest,
    params(("id" = Uuid, Path, description = "The answer's message")),
    responses((status = 204, description = "Noted"), Refused, BodyRefused))]
async fn put(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(request): Body<FeedbackRequest>,
) -> Result<StatusCode, Problem> {
    let new = NewFeedback {
        helped: request.helped,
        comment: request.comment.as_deref(),
        labels: &request.labels,
    };
    new.check()
        .map_err(|(code, detail)| Problem::bad_request(code, detail))?;
    let mut db = caller.begin(&state).await?;
    if !feedback::set(&mut *db, caller.owner(), id, &new).await? {
        return Err(not_found());
    }
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Get the caller's feedback about an answer
#[utoipa::path(get, path = "/api/messages/{id}/feedback", tag = "conversations",
    params(("id" = Uuid, Path, description = "The answer's message")),
    responses((status = 200, description = "The feedback", body = FeedbackBody), Refused))]
async fn get_feedback(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<FeedbackBody>, Problem> {
    let filter = FeedbackFilter {
        message_id: Some(id),
        ..FeedbackFilter::default()
    };
    let mut db = caller.begin(&state).await?;
    let found = feedback::list(&mut *db, caller.owner(), &filter, None, 1).await?.pop();
    let found = found.ok_or_else(|| Problem::not_found("feedback_not_found", "Your feedback about this answer"))?;
    Ok(Json(found.into()))
}

/// Remove the caller's feedback about an answer
#[utoipa::path(delete, path = "/api/messages/{id}/feedback", tag = "conversations",
    params(("id" = Uuid, Path, description = "The answer's message")),
    responses((status = 204, description = "Removed"), Refused))]
async fn delete_feedback(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    if !feedback::remove(&mut *db, caller.owner(), id).await? {
        return Err(Problem::not_found(
            "feedback_not_found",
            "Your feedback about this answer",
        ));
    }
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the caller's feedback, newest first, with questions and answers
#[utoipa::path(get, path = "/api/feedback", tag = "conversations", params(FeedbackParams),
    responses((status = 200, description = "A page", body = FeedbackPage), Refused))]
async fn list_feedback(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Params(params): Params<FeedbackParams>,
) -> Result<Json<FeedbackPage>, Problem> {
    let filter = FeedbackFilter {
        message_id: None,
        conversation_id: params.conversation_id,
        helped: params.helped,
        label: checked(params.label)?,
        agent_definition_id: params.agent_definition_id,
    };
    let paging = PageParams {
        limit: params.limit,
        cursor: params.cursor,
    };
    let limit = paging.limit(&state)?;
    let mut db = caller.begin(&state).await?;
    let rows = feedback::list(&mut *db, caller.owner(), &filter, paging.after()?, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| (row.updated_at, row.message_id), FeedbackBody::from);
    Ok(Json(FeedbackPage { items, next_cursor }))
}

/// What an export has still to read.
struct Rest {
    state: ChatState,
    owner: Owner,
    filter: FeedbackFilter,
    /// None: all was read.
    after: Option<Option<(DateTime<Utc>, Uuid)>>,
}

impl Rest {
    /// Reads the next lines. None: there are no more.
    async fn read(&mut self) -> Result<Option<Bytes>, sqlx::Error> {
        let Some(after) = self.after else { return Ok(None) };
        let mut db = rls::begin(&self.state.db.pool_sqlx, rls::Scope::User(self.owner)).await?;
        let rows = feedback::list(&mut *db, self.owner, &self.filter, after, EXPORT_PAGE).await?;
        let is_full = i64::try_from(rows.len()).is_ok_and(|count| count == EXPORT_PAGE);
        self.after = rows
            .last()
            .filter(|_| is_full)
            .map(|last| Some((last.updated_at, last.message_id)));
        let lines: String = rows
            .into_iter()
            .map(|row| format!("{}\n", json!(FeedbackBody::from(row))))
            .collect();
        Ok((!lines.is_empty()).then(|| lines.into()))
    }
}

/// Export the caller's feedback as NDJSON, newest first: one answer per line, with its question
#[utoipa::path(get, path = "/api/feedback/export", tag = "conversations", params(FeedbackExportParams),
    responses((status = 200, description = "Feedback, one per line", body = String, content_type = "application/x-ndjson"), Refused))]
async fn export_feedback(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Params(params): Params<FeedbackExportParams>,
) -> Result<Response, Problem> {
    let mut rest = Rest {
        owner: caller.owner(),
        state,
        filter: FeedbackFilter {
            message_id: None,
            conversation_id: params.conversation_id,
            helped: params.helped,
            label: checked(params.label)?,
            agent_definition_id: params.agent_definition_id,
        },
        after: Some(None),
    };
    // The first page precedes the headers: a failure is an error response.
    let first = rest.read().await?;
    let later = stream::try_unfold(rest, async |mut rest| {
        let page = rest.read().await.map_err(io::Error::other)?;
        Ok::<_, io::Error>(page.map(|page| (page, rest)))
    });
    let pages = futures::StreamExt::chain(stream::iter(first.map(Ok::<_, io::Error>)), later);
    let mut response = Response::new(ResponseBody::from_stream(pages));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(
        CONTENT_DISPOSITION,
        HeaderValue::from_static(r#"attachment; filename="feedback.ndjson""#),
    );
    Ok(response)
}
