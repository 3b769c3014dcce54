//! Reads, lists, cancels and follows tasks. A task is a top-level run that the caller may see.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use chrono::{DateTime, SecondsFormat, Utc};
use rejoin_chat::ChatState;
use rejoin_commands::CancelRun;
use rejoin_http::caller::Caller;
use rejoin_http::extract::{PageParams, page};
use rejoin_http::problem::Problem;
use rejoin_runs::runs::by_change::{self, ChangeFilter, Changed};
use rejoin_runs::{conversations, runs};
use rejoin_sse::start;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use utoipa::IntoParams;
use uuid::Uuid;

use super::{Call, refused};
use crate::envelope::Envelope;
use crate::errors::codes;
use crate::request::history_length;
use crate::state::TaskState;
use crate::{Begin, Context, Form, TaskRenderer};

/// How long a cancellation is waited for.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);
/// Default and maximum number of tasks in a page.
const PAGE: i64 = 50;
const PAGE_MAX: i64 = 100;
/// The name of no state.
const ANY_STATE: &str = "TASK_STATE_UNSPECIFIED";
/// States of the protocol that no task of ours has.
const NEVER: [&str; 2] = ["TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED"];
/// The cursor of a client that reconnects.
const LAST_EVENT_ID: &str = "last-event-id";

/// Which task
#[derive(Debug, Deserialize)]
pub(super) struct OneTask {
    pub id: String,
}

/// Which task, and how much of it
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GetTask {
    pub id: String,
    #[serde(default, alias = "history_length")]
    pub history_length: Option<i64>,
}

/// How much of a task
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct TaskParams {
    /// Maximum number of the newest messages of its history
    #[param(minimum = 0)]
    pub history_length: Option<i64>,
}

/// Which tasks. Over JSON-RPC, names as in the protocol's definition are read, too, as readers of protobuf's JSON do.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct ListTasks {
    /// Only tasks of this context
    #[serde(alias = "context_id")]
    pub context_id: Option<String>,
    /// Only tasks in this state, such as `TASK_STATE_WORKING`
    pub status: Option<String>,
    /// Maximum number of tasks in the page: 1 to 100, by default 50
    #[serde(alias = "page_size")]
    #[param(minimum = 1, maximum = 100)]
    pub page_size: Option<i64>,
    /// `nextPageToken` of the previous page
    #[serde(alias = "page_token")]
    pub page_token: Option<String>,
    /// Maximum number of the newest messages of each task's history; by default none
    #[serde(alias = "history_length")]
    #[param(minimum = 0)]
    pub history_length: Option<i64>,
    /// Only tasks whose status changed at this time or later, in RFC 3339
    #[serde(alias = "status_timestamp_after")]
    pub status_timestamp_after: Option<DateTime<Utc>>,
    /// Whether to return artifacts
    #[serde(alias = "include_artifacts")]
    pub include_artifacts: Option<bool>,
}

pub(super) fn not_found() -> Problem {
    Problem::not_found(codes::TASK_NOT_FOUND, "The task")
}

fn unsupported(detail: impl Into<String>) -> Problem {
    Problem::bad_request(codes::UNSUPPORTED_OPERATION, detail)
}

/// What a task is about, for a caller who sees the server at this address.
pub(super) fn context_of(run: &Changed, origin: &str) -> Context {
    let context_id = run.client_thread.clone();
    Context {
        task_id: run.id.to_string(),
        context_id: context_id.unwrap_or_else(|| run.conversation_id.unwrap_or(run.log_id).to_string()),
        origin: origin.to_owned(),
    }
}

pub(super) fn state_of(run: &Changed) -> TaskState {
    TaskState::of_run(&run.state, run.has_started, run.is_asking)
}

/// Returns the run of a task.
pub(super) async fn find(state: &ChatState, caller: &Caller, id: &str) -> Result<Changed, Problem> {
    let id = id.parse::<Uuid>().map_err(|_| not_found())?;
    let mut db = caller.begin(state).await?;
    by_change::get(&mut *db, caller.owner(), id)
        .await?
        .ok_or_else(not_found)
}

/// Returns a task as it is now.
pub(super) async fn get(
    state: &ChatState,
    caller: &Caller,
    origin: &str,
    id: &str,
    length: Option<i64>,
) -> Result<Value, Problem> {
    let length = history_length(length).map_err(refused)?;
    let run = find(state, caller, id).await?;
    folded(state, caller, origin, &run, length).await
}

/// The task as its events say or, if they are no longer stored, as the run was stored.
async fn folded(
    state: &ChatState,
    caller: &Caller,
    origin: &str,
    run: &Changed,
    length: Option<usize>,
) -> Result<Value, Problem> {
    let mut renderer = TaskRenderer::new(context_of(run, origin), Begin::Now, Form::AtEnd, length);
    let mut task = match start::fold_so_far(&state.streams, caller.owner(), run.id, &mut renderer).await {
        Ok(_) => renderer.task(),
        Err(problem) if problem.status == StatusCode::GONE => stored(run, length),
        Err(problem) => return Err(problem),
    };
    task["status"]["timestamp"] = timestamp(run);
    Ok(task)
}

fn timestamp(run: &Changed) -> Value {
    run.changed_at.to_rfc3339_opts(SecondsFormat::Millis, true).into()
}

/// The task without its events.
fn stored(run: &Changed, length: Option<usize>) -> Value {
    let Context {
        task_id, context_id, ..
    } = context_of(run, "");
    let message = |id: &str, role: &str, text: &str| json!({"messageId": id, "role": role, "parts": [{"text": text}], "taskId": task_id, "contextId": context_id});
    let mut task = json!({"id": task_id, "contextId": context_id, "status": {"state": state_of(run).as_str()}});
    if let Some(error) = &run.error {
        task["status"]["message"] = message(&task_id, "ROLE_AGENT", error);
    }
    if let Some(summary) = &run.summary {
        task["artifacts"] = json!([{"artifactId": "answer", "name": "answer", "parts": [{"text": summary}]}]);
    }
    if length != Some(0) {
        let id = run.message_id.unwrap_or(run.id).to_string();
        task["history"] = json!([message(&id, "ROLE_USER", &run.input)]);
    }
    task
}

/// Limits a filter to runs that are tasks in this state.
fn in_state(filter: &mut ChangeFilter, state: TaskState) {
    let (states, has_started, is_asking): (&[&str], _, _) = match state {
        TaskState::Submitted => (&["queued"], Some(false), None),
        TaskState::Working => (&["queued", "running", "waiting"], Some(true), Some(false)),
        TaskState::InputRequired => (&["waiting", "paused"], None, Some(true)),
        TaskState::Completed => (&["completed"], None, None),
        TaskState::Failed => (&["failed"], None, None),
        TaskState::Canceled => (&["cancelled"], None, None),
    };
    filter.states = Some(states.iter().map(|state| (*state).to_owned()).collect());
    filter.has_started = has_started;
    filter.is_asking = is_asking;
}

pub(super) async fn list(
    state: &ChatState,
    caller: &Caller,
    origin: &str,
    request: ListTasks,
) -> Result<Value, Problem> {
    let invalid = |detail: String| Problem::bad_request("invalid_query", detail);
    let size = request.page_size.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&size) {
        return Err(invalid(format!("pageSize must be between 1 and {PAGE_MAX}")));
    }
    let length = history_length(request.history_length).map_err(refused)?.unwrap_or(0);
    let includes_artifacts = request.include_artifacts.unwrap_or_default();
    let cursor = PageParams {
        limit: None,
        cursor: request.page_token.filter(|token| !token.is_empty()),
    };
    let after = cursor.after::<(DateTime<Utc>, Uuid)>()?;
    let nothing = || json!({"tasks": [], "nextPageToken": "", "pageSize": size, "totalSize": 0});
    let mut filter = ChangeFilter {
        since: request.status_timestamp_after,
        ..ChangeFilter::default()
    };
    match request
        .status
        .as_deref()
        .filter(|name| !name.is_empty() && *name != ANY_STATE)
    {
        None => {}
        Some(name) if NEVER.contains(&name) => return Ok(nothing()),
        Some(name) => {
            let wanted = TaskState::parse(name).ok_or_else(|| invalid(format!("there is no state {name}")))?;
            in_state(&mut filter, wanted);
        }
    }
    let mut db = caller.begin(state).await?;
    if let Some(context) = request.context_id.filter(|context| !context.is_empty()) {
        match conversations::by_thread_or_id(&mut db, caller.owner(), &context).await? {
            Some(conversation) => filter.conversation_id = Some(conversation.id),
            None => return Ok(nothing()),
        }
    }
    let rows = by_change::list(&mut *db, caller.owner(), &filter, after, size + 1).await?;
    drop(db);
    let total = rows.first().map_or(0, |run| run.total);
    let (rows, next) = page(rows, size, |run| (run.changed_at, run.id), |run| run);
    let mut tasks = Vec::with_capacity(rows.len());
    for run in &rows {
        let mut task = if includes_artifacts || length > 0 {
            folded(state, caller, origin, run, Some(length)).await?
        } else {
            let mut task = stored(run, Some(0));
            task["status"]["timestamp"] = timestamp(run);
            task
        };
        if let Some(fields) = task.as_object_mut() {
            if includes_artifacts {
                fields.entry("artifacts").or_insert_with(|| json!([]));
            } else {
                fields.remove("artifacts");
            }
        }
        tasks.push(task);
    }
    Ok(json!({
        "tasks": tasks, "nextPageToken": next.unwrap_or_default(), "pageSize": size, "totalSize": total,
    }))
}

/// Returns the number of the last event of a run's log.
pub(super) async fn last_seq(state: &ChatState, caller: &Caller, run: Uuid) -> Result<i64, Problem> {
    let found = runs::span(&state.db.pool_pg, caller.owner(), run).await?;
    let (_, ends) = found.ok_or_else(not_found)?;
    Ok(ends.last_seq)
}

/// Cancels a task, and returns it when it has stopped.
pub(super) async fn cancel(state: &ChatState, caller: &Caller, origin: &str, id: &str) -> Result<Value, Problem> {
    let run = find(state, caller, id).await?;
    if state_of(&run).is_terminal() || run.state == "paused" {
        let detail = format!(
            "the task does nothing that could be cancelled: its run is {}",
            run.state
        );
        return Err(Problem::bad_request(codes::TASK_NOT_CANCELABLE, detail));
    }
    let permit = start::admit(&state.streams, caller)?;
    let after = last_seq(state, caller, run.id).await?;
    let command = CancelRun { run_id: run.id };
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(wake);
    // Its worker stops it at the next await.
    let ended = TaskRenderer::new(context_of(&run, origin), Begin::After(after), Form::AtEnd, None);
    let ended = start::whole_run(&state.streams, permit, caller.owner(), run.id, Box::new(ended));
    if let Ok(ended) = timeout(CANCEL_LIMIT, ended).await {
        ended?;
    }
    get(state, caller, origin, id, None).await
}

/// The number of the last frame that a client received.
fn cursor(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let malformed = || {
        Problem::bad_request(
            "cursor_malformed",
            "Last-Event-ID must be the id of a frame of this task",
        )
    };
    let number = digits.then(|| text.parse().ok()).flatten().ok_or_else(malformed)?;
    Ok(Some(number))
}

/// Streams a task as it is now and then its updates, until it has ended; with a cursor, the updates that follow it.
pub(super) async fn subscribe(
    state: &ChatState,
    caller: &Caller,
    call: &Call,
    id: &str,
    envelope: Envelope,
) -> Result<Response, Problem> {
    let cursor = cursor(&call.headers)?;
    let run = find(state, caller, id).await?;
    let has_rest = cursor.is_some_and(|cursor| run.done_seq.is_some_and(|done_seq| cursor < done_seq));
    if state_of(&run).is_terminal() && !has_rest {
        return Err(unsupported("the task has ended: read it with GetTask"));
    }
    let begin = match (cursor, run.state.as_str(), run.done_seq) {
        (Some(after), _, _) => Begin::ReadOn(after),
        // Nothing follows the end of its turn.
        (None, "paused", Some(done_seq)) => Begin::After(done_seq - 1),
        (None, _, _) => Begin::Now,
    };
    let permit = start::admit(&state.streams, caller)?;
    let about = context_of(&run, &call.origin);
    let renderer = TaskRenderer::new(about, begin, Form::Subscription(envelope), None);
    start::open_rendered(
        &state.streams,
        permit,
        caller.owner(),
        run.id,
        cursor,
        Box::new(renderer),
    )
    .await
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_cursor_is_the_number_of_a_frame() {
        let of = |text: &'static str| {
            let headers = HeaderMap::from_iter([(LAST_EVENT_ID.parse().unwrap(), HeaderValue::from_static(text))]);
            cursor(&headers).map_err(|problem| problem.code)
        };
        assert_eq!((of(""), of("7")), (Ok(None), Ok(Some(7))));
        for text in ["-1", "a", "7.1", "99999999999999999999"] {
            assert_eq!(of(text), Err("cursor_malformed"), "{text}");
        }
    }
}
