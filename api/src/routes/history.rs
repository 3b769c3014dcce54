//! The audit trail of a project's runs: lists and details. Six endpoints, three levels of detail.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{Limit, PageParams, Params, Segments, cursor, page, search_text};
use rejoin_http::problem::{Problem, Refused};
use rejoin_http::visible;
use rejoin_runs::run_messages::{self, RunMessage};
use rejoin_runs::runs::{self, Place, Run, RunFilter, RunOrder};
use rejoin_runs::tool_calls::{self, ToolCallRow};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::runs::{RunBody, RunDetail, detail};
use crate::state::{AppState, Routes};

/// Length of a message's preview in lists, in characters.
const PREVIEW_CHARS: usize = 200;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_runs))
        .routes(routes!(get_run))
        .routes(routes!(list_messages))
        .routes(routes!(get_message))
        .routes(routes!(list_tool_calls))
        .routes(routes!(get_tool_call))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPage {
    pub items: Vec<RunBody>,
    pub next_cursor: Option<String>,
}

/// Filter and page of runs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct RunParams {
    /// Maximum number of items in the page
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the previous page
    pub cursor: Option<String>,
    /// Only runs in this state
    #[param(pattern = "^(queued|running|waiting|paused|completed|failed|cancelled)$")]
    pub state: Option<String>,
    /// The same as `state`
    #[param(pattern = "^(queued|running|waiting|paused|completed|failed|cancelled)$")]
    pub status: Option<String>,
    /// Only runs of this conversation
    pub conversation_id: Option<Uuid>,
    /// Only runs of this agent
    pub agent_definition_id: Option<Uuid>,
    /// Only runs of the agent that had this name
    pub agent: Option<String>,
    /// Only runs created at or after this time
    pub since: Option<DateTime<Utc>>,
    /// Only runs created before this time
    pub until: Option<DateTime<Utc>>,
    /// Only runs of this tree
    pub root_run_id: Option<Uuid>,
    /// Only runs started by this one
    pub parent_run_id: Option<Uuid>,
    /// Only top-level runs
    pub top_level: Option<bool>,
    /// Words that the run's id, agent, model, input, output or error contain, in any order and ignoring case. A page may be
    /// short or empty and still have a `nextCursor`, because each request searches at most 2,000 runs
    #[param(min_length = 1, max_length = 200)]
    pub q: Option<String>,
    /// `newest` (default), `longest` or `mostExpensive`; the latter two sort the newest 10,000 runs that match the filters
    #[param(pattern = "^(newest|longest|mostExpensive)$")]
    pub order: Option<String>,
}

impl RunParams {
    fn filter(&self) -> Result<RunFilter, Problem> {
        let state = match self.state.as_deref().or(self.status.as_deref()) {
            None => None,
            Some(text) => {
                let unknown = || Problem::bad_request("invalid_query", format!("state={text} is not supported"));
                Some(text.parse().map_err(|_| unknown())?)
            }
        };
        Ok(RunFilter {
            state,
            conversation_id: self.conversation_id,
            agent_definition_id: self.agent_definition_id,
            agent: self.agent.clone(),
            since: self.since,
            until: self.until,
            root_run_id: self.root_run_id,
            parent_run_id: self.parent_run_id,
            is_top_level: self.top_level.unwrap_or_default(),
            words: self.words()?,
        })
    }

    fn words(&self) -> Result<Vec<String>, Problem> {
        let Some(text) = &self.q else { return Ok(Vec::new()) };
        let text = search_text(text)?;
        Ok(text.to_lowercase().split_whitespace().map(str::to_owned).collect())
    }

    fn order(&self) -> Result<RunOrder, Problem> {
        match self.order.as_deref() {
            None | Some("newest") => Ok(RunOrder::Newest),
            Some("longest") => Ok(RunOrder::Longest),
            Some("mostExpensive") => Ok(RunOrder::MostExpensive),
            Some(other) => {
                let detail = format!("order={other} is not supported");
                Err(Problem::bad_request("invalid_query", detail))
            }
        }
    }
}

/// Encodes the end of a page. A list by time has the cursors that it always had.
fn cursor_of(order: RunOrder, place: Place) -> String {
    match order {
        RunOrder::Newest => cursor(&(place.created_at, place.id)),
        RunOrder::Longest | RunOrder::MostExpensive => cursor(&(place.rank, place.created_at, place.id)),
    }
}

fn place_of(order: RunOrder, paging: &PageParams) -> Result<Option<Place>, Problem> {
    let place = |(rank, created_at, id)| Place { rank, created_at, id };
    match order {
        RunOrder::Newest => Ok(paging.after()?.map(|(at, id)| place((0, at, id)))),
        RunOrder::Longest | RunOrder::MostExpensive => Ok(paging.after()?.map(place)),
    }
}

/// A message of a run, as in lists.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunMessageBody {
    pub id: Uuid,
    pub run_id: Uuid,
    /// `system`, `user`, `assistant` or `tool_result`
    pub role: String,
    pub step_number: i32,
    /// The beginning of the message
    pub content: String,
    /// Whether the message is longer
    pub truncated: bool,
    pub created_at: DateTime<Utc>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunMessagePage {
    pub items: Vec<RunMessageBody>,
    pub next_cursor: Option<String>,
}

/// A message of a run with its full content.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunMessageDetail {
    pub id: Uuid,
    pub run_id: Uuid,
    pub role: String,
    pub step_number: i32,
    /// As stored
    pub content: Value,
    pub created_at: DateTime<Utc>,
}

/// A tool call, as in lists.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallBody {
    pub id: Uuid,
    pub run_id: Uuid,
    /// The assistant's message that requested it
    pub message_id: Uuid,
    /// The model's id of the call
    pub call_id: String,
    pub step_number: i32,
    pub tool: String,
    /// The same as `tool`
    pub tool_name: String,
    /// `pending`, `running`, `completed`, `error` or `outcome_unknown`
    pub status: String,
    pub duration_ms: Option<i32>,
    pub created_at: DateTime<Utc>,
    pub started_at: Option<DateTime<Utc>>,
    pub completed_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallPage {
    pub items: Vec<ToolCallBody>,
    pub next_cursor: Option<String>,
}

/// A tool call with full input and output.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallDetail {
    #[serde(flatten)]
    pub call: ToolCallBody,
    pub input: Value,
    pub output: Option<Value>,
    pub error: Option<String>,
}

impl From<ToolCallRow> for ToolCallBody {
    fn from(row: ToolCallRow) -> Self {
        Self {
            id: row.id,
            run_id: row.run_id,
            message_id: row.message_id,
            call_id: row.call_id,
            step_number: row.step_number,
            tool: row.tool_name.clone(),
            tool_name: row.tool_name,
            status: row.status,
            duration_ms: row.duration_ms,
            created_at: row.created_at,
            started_at: row.started_at,
            completed_at: row.completed_at,
        }
    }
}

impl From<RunMessage> for RunMessageBody {
    fn from(message: RunMessage) -> Self {
        let (content, truncated) = preview(&message.content);
        Self {
            id: message.id,
            run_id: message.run_id,
            role: message.role,
            step_number: message.step_number,
            content,
            truncated,
            created_at: message.created_at,
        }
    }
}

impl From<RunMessage> for RunMessageDetail {
    fn from(message: RunMessage) -> Self {
        Self {
            id: message.id,
            run_id: message.run_id,
            role: message.role,
            step_number: message.step_number,
            content: message.content,
            created_at: message.created_at,
        }
    }
}

impl From<ToolCallRow> for ToolCallDetail {
    fn from(row: ToolCallRow) -> Self {
        Self {
            input: row.input.clone(),
            output: row.output.clone(),
            error: row.error.clone(),
            call: row.into(),
        }
    }
}

/// Returns the beginning of a stored message, and whether there is more: its text, or else its JSON.
fn preview(content: &Value) -> (String, bool) {
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Object(object) => match object.get("text").or_else(|| object.get("content")) {
            Some(Value::String(text)) if !text.is_empty() => text.clone(),
            _ => content.to_string(),
        },
        other => other.to_string(),
    };
    match text.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => (text[..end].to_owned(), true),
        None => (text, false),
    }
}

/// Returns the run, if the caller may see it in this project.
async fn run_of(state: &AppState, caller: &Caller, workspace_id: Uuid, id: Uuid) -> Result<Run, Problem> {
    caller.in_workspace(workspace_id)?;
    visible::run(state, caller, id).await
}

/// List the project's runs, newest first or in another order, and search them
///
/// For other members' runs outside of conversations, only ids, agent, state and times are returned (`restricted`); runs
/// of their conversations are not included.
#[utoipa::path(get, path = "/api/projects/{p}/agent-runs", tag = "history",
    params(RunParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = RunPage), Refused))]
async fn list_runs(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<RunParams>,
) -> Result<Json<RunPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let (filter, order) = (params.filter()?, params.order()?);
    let paging = PageParams {
        limit: params.limit,
        cursor: params.cursor,
    };
    let (limit, after) = (paging.limit(&state)?, place_of(order, &paging)?);
    let mut db = caller.begin(&state).await?;
    let page = runs::list(&mut db, caller.owner(), &filter, order, after, limit).await?;
    Ok(Json(RunPage {
        items: page.runs.into_iter().map(RunBody::from).collect(),
        next_cursor: page.next.map(|place| cursor_of(order, place)),
    }))
}

/// Get a run: summary, agent, parent and children
#[utoipa::path(get, path = "/api/projects/{p}/agent-runs/{run}", tag = "history",
    params(("p" = Uuid, Path, description = "The project"), ("run" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "It", body = RunDetail), Refused))]
async fn get_run(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, run)): Segments<(Uuid, Uuid)>,
) -> Result<Json<RunDetail>, Problem> {
    let run = run_of(&state, &caller, workspace_id, run).await?;
    Ok(Json(detail(&state, &caller, run).await?))
}

/// List the messages of a run as the model saw them, shortened
#[utoipa::path(get, path = "/api/projects/{p}/agent-runs/{run}/messages", tag = "history",
    params(PageParams, ("p" = Uuid, Path, description = "The project"), ("run" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "A page", body = RunMessagePage), Refused))]
async fn list_messages(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, run)): Segments<(Uuid, Uuid)>,
    Params(params): Params<PageParams>,
) -> Result<Json<RunMessagePage>, Problem> {
    let limit = params.limit(&state)?;
    let after = params.after()?.unwrap_or(0);
    let run = run_of(&state, &caller, workspace_id, run).await?;
    let rows = run_messages::list(&mut *caller.begin(&state).await?, run.id, after, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| row.position, RunMessageBody::from);
    Ok(Json(RunMessagePage { items, next_cursor }))
}

/// Get a message of a run with its full content
#[utoipa::path(get, path = "/api/projects/{p}/agent-runs/{run}/messages/{m}", tag = "history",
    params(("p" = Uuid, Path, description = "The project"), ("run" = Uuid, Path, description = "The run"),
        ("m" = Uuid, Path, description = "The message")),
    responses((status = 200, description = "It", body = RunMessageDetail), Refused))]
async fn get_message(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, run, id)): Segments<(Uuid, Uuid, Uuid)>,
) -> Result<Json<RunMessageDetail>, Problem> {
    let run = run_of(&state, &caller, workspace_id, run).await?;
    let message = run_messages::get(&mut *caller.begin(&state).await?, run.id, id).await?;
    let message = message.ok_or_else(|| Problem::not_found("message_not_found", "The message"))?;
    Ok(Json(message.into()))
}

/// List the tool calls of a run
#[utoipa::path(get, path = "/api/projects/{p}/agent-runs/{run}/tool-calls", tag = "history",
    params(PageParams, ("p" = Uuid, Path, description = "The project"), ("run" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "A page", body = ToolCallPage), Refused))]
async fn list_tool_calls(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, run)): Segments<(Uuid, Uuid)>,
    Params(params): Params<PageParams>,
) -> Result<Json<ToolCallPage>, Problem> {
    let limit = params.limit(&state)?;
    // Before the first: steps and positions are not negative.
    let after = params.after()?.unwrap_or((-1, -1));
    let run = run_of(&state, &caller, workspace_id, run).await?;
    let rows = tool_calls::list(&mut *caller.begin(&state).await?, run.id, after, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| (row.step_number, row.position), ToolCallBody::from);
    Ok(Json(ToolCallPage { items, next_cursor }))
}

/// Get a tool call with its full input and output
#[utoipa::path(get, path = "/api/projects/{p}/agent-runs/{run}/tool-calls/{c}", tag = "history",
    params(("p" = Uuid, Path, description = "The project"), ("run" = Uuid, Path, description = "The run"),
        ("c" = Uuid, Path, description = "The call")),
    responses((status = 200, description = "It", body = ToolCallDetail), Refused))]
async fn get_tool_call(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, run, id)): Segments<(Uuid, Uuid, Uuid)>,
) -> Result<Json<ToolCallDetail>, Problem> {
    let run = run_of(&state, &caller, workspace_id, run).await?;
    let row = tool_calls::get(&mut *caller.begin(&state).await?, run.id, id).await?;
    let row = row.ok_or_else(|| Problem::not_found("tool_call_not_found", "The tool call"))?;
    Ok(Json(row.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_preview_is_cut_between_characters() {
        let (text, truncated) = preview(&json!("é".repeat(201)));
        assert_eq!((text.chars().count(), truncated), (200, true));
        assert_eq!(preview(&json!({"text": "short"})), ("short".to_owned(), false));
        assert_eq!(preview(&json!({"calls": []})), (r#"{"calls":[]}"#.to_owned(), false));
    }
}
