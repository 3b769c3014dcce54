//! Runs' questions to users: agents' questions, and calls that need confirmation. A question is visible where its run
//! is.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_commands::{CloseQuestion, Closing};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Limit, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::questions::{self, Question};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(answer))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionBody {
    pub id: Uuid,
    pub run_id: Uuid,
    /// The tool call that asks, or that waits for confirmation; its arguments are in the run's history
    pub tool_call_id: Option<Uuid>,
    /// `ask`: an agent's question; `confirm`: confirmation of a tool call; `client_tool`: a call that the client executes
    pub kind: String,
    pub question: String,
    /// `{label, value, description?}`
    pub options: Value,
    /// `buttons`, `select`, `multi_select`, `text`, `confirm` or `client_tool`
    pub interaction_type: String,
    pub placeholder: Option<String>,
    pub max_length: Option<i32>,
    /// `pending`, `answered`, `expired` or `cancelled`
    pub status: String,
    pub answer: Option<Value>,
    pub created_at: DateTime<Utc>,
    pub answered_at: Option<DateTime<Utc>>,
}

impl From<Question> for QuestionBody {
    fn from(question: Question) -> Self {
        Self {
            id: question.id,
            run_id: question.run_id,
            tool_call_id: question.tool_call_id,
            kind: question.kind,
            question: question.question,
            options: question.options,
            interaction_type: question.interaction_type,
            placeholder: question.placeholder,
            max_length: question.max_length,
            status: question.status,
            answer: question.answer,
            created_at: question.created_at,
            answered_at: question.answered_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionPage {
    pub items: Vec<QuestionBody>,
    pub next_cursor: Option<String>,
}

/// Filter and page of questions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct QuestionParams {
    /// Maximum number of items in the page
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the previous page
    pub cursor: Option<String>,
    /// Only questions in this state
    #[param(pattern = "^(pending|answered|expired|cancelled)$")]
    pub status: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerRequest {
    /// A text, the value of an option, a list of such values, or `approve`, `edit`, `refuse`; for a call that the client
    /// executes: its output, as text or JSON
    pub answer: Value,
    /// With `edit`: the new arguments of the tool call
    #[serde(default)]
    pub input: Option<Value>,
}

/// List the questions of the runs that the caller may see, oldest first
#[utoipa::path(get, path = "/api/questions", tag = "questions", params(QuestionParams),
    responses((status = 200, description = "A page", body = QuestionPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Params(params): Params<QuestionParams>,
) -> Result<Json<QuestionPage>, Problem> {
    const KNOWN: [&str; 4] = ["pending", "answered", "expired", "cancelled"];
    if let Some(status) = params.status.as_deref().filter(|status| !KNOWN.contains(status)) {
        return Err(Problem::bad_request(
            "invalid_query",
            format!("status={status} is not supported; use {}", KNOWN.join(", ")),
        ));
    }
    let paging = PageParams {
        limit: params.limit,
        cursor: params.cursor,
    };
    let limit = paging.limit(&state)?;
    let rows = questions::list_visible(
        &mut *caller.begin(&state).await?,
        caller.owner(),
        params.status.as_deref(),
        paging.after()?,
        limit + 1,
    )
    .await?;
    let (items, next_cursor) = page(rows, limit, |row| (row.created_at, row.id), QuestionBody::from);
    Ok(Json(QuestionPage { items, next_cursor }))
}

/// Get a question
#[utoipa::path(get, path = "/api/questions/{id}", tag = "questions", params(("id" = Uuid, Path, description = "The question")),
    responses((status = 200, description = "It", body = QuestionBody), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<QuestionBody>, Problem> {
    Ok(Json(visible(&state, &caller, id).await?.into()))
}

/// Answer a question. Its run resumes when it waits for nothing else
#[utoipa::path(post, path = "/api/questions/{id}/answer", tag = "questions", request_body = AnswerRequest,
    params(("id" = Uuid, Path, description = "The question")),
    responses((status = 200, description = "Stored", body = QuestionBody),
        (status = 409, description = "It is no longer open", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn answer(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(request): Body<AnswerRequest>,
) -> Result<(StatusCode, Json<QuestionBody>), Problem> {
    visible(&state, &caller, id).await?;
    let command = CloseQuestion {
        id,
        closing: Closing::Answer {
            answer: &request.answer,
            input: request.input.as_ref(),
            user_id: Some(caller.user_id),
        },
    };
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(wake);
    Ok((StatusCode::OK, Json(visible(&state, &caller, id).await?.into())))
}

async fn visible(state: &AppState, caller: &Caller, id: Uuid) -> Result<Question, Problem> {
    questions::get_visible(&mut *caller.begin(state).await?, caller.owner(), id)
        .await?
        .ok_or_else(not_found)
}

fn not_found() -> Problem {
    Problem::not_found("question_not_found", "The question")
}
