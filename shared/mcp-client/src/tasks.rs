//! Calls that a server executes as a task (the protocol's extension `io.modelcontextprotocol/tasks`): the server returns at once, and is asked
//! for the result until it is there.
//!
//! Invariant: a task whose caller does not wait for it any longer is cancelled at the server.

use std::time::Duration;

use rmcp::model::{CallToolResult, CancelTaskParams, GetTaskParams, JsonObject, Task, TaskPayload};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tracing::debug;

/// Interval of asking, unless the server suggests another one, and its limits.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_EVERY_MIN: Duration = Duration::from_millis(100);
const ASK_EVERY_MAX: Duration = Duration::from_secs(10);
/// Timeout of cancelling.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// How a task ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Result(Box<CallToolResult>),
    /// The server's reason.
    Failed(String),
    Cancelled,
    /// It waits for input that it can't get here.
    NeedsInput,
}

/// Waits for the end of a task.
pub(crate) async fn outcome(peer: &Peer<RoleClient>, created: &Task) -> Result<Outcome, ServiceError> {
    let mut held = Held {
        peer,
        id: Some(created.task_id.clone()),
    };
    let mut every = interval(created);
    loop {
        sleep(every).await;
        let now = peer.get_task(GetTaskParams::new(created.task_id.clone())).await?.task;
        every = interval(&now.task);
        let outcome = match now.payload {
            TaskPayload::Completed { result } => match serde_json::from_value(Value::Object(result)) {
                Ok(result) => Outcome::Result(Box::new(result)),
                Err(error) => Outcome::Failed(format!("its result is invalid: {error}")),
            },
            TaskPayload::Failed { error } => Outcome::Failed(reason(&error)),
            TaskPayload::Cancelled => Outcome::Cancelled,
            // Cancelled by the guard.
            TaskPayload::InputRequired { .. } => return Ok(Outcome::NeedsInput),
            _ => continue,
        };
        held.id = None;
        return Ok(outcome);
    }
}

fn interval(task: &Task) -> Duration {
    task.poll_interval_ms
        .map_or(ASK_EVERY, Duration::from_millis)
        .clamp(ASK_EVERY_MIN, ASK_EVERY_MAX)
}

fn reason(error: &JsonObject) -> String {
    error
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or("it has failed")
        .to_owned()
}

/// Cancels the task when dropped, unless it has ended.
struct Held<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<String>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        tokio::spawn(async move {
            match timeout(CANCEL_LIMIT, peer.cancel_task(CancelTaskParams::new(id))).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "cancelling a task at an MCP server failed"),
                Err(_) => debug!("an MCP server did not confirm that it cancels a task"),
            }
        });
    }
}
