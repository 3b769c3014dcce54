//! Calls that a server executes as a task (the protocol's extension `io.modelcontextprotocol/tasks`): the server returns at once, and is asked
//! for the result until it is there.
//!
//! Invariant: a task whose caller does not wait for it any longer is cancelled at the server. One that asks for input goes on when its caller has
//! the answers.

use std::time::Duration;

use rmcp::model::{
    CallToolResult, CancelTaskParams, GetTaskParams, InputRequests, InputResponses, JsonObject, Task, TaskPayload,
    UpdateTaskParams,
};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::input::Pending;

/// Interval of asking, unless the server suggests another one, and its limits.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_EVERY_MIN: Duration = Duration::from_millis(100);
const ASK_EVERY_MAX: Duration = Duration::from_secs(10);
/// Number of times that a task may still ask for what was answered: a server takes answers in its own time.
const ANSWERED_ASKED_MAX: u32 = 10;
/// Timeout of cancelling.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// How a task ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Result(Box<CallToolResult>),
    /// The server's reason.
    Failed(String),
    Cancelled,
    /// It waits for the user's input.
    NeedsInput {
        requests: InputRequests,
        pending: Pending,
    },
}

/// Waits for the end of a task.
pub(crate) async fn outcome(peer: &Peer<RoleClient>, created: &Task) -> Result<Outcome, ServiceError> {
    let held = Held::of(peer, &created.task_id);
    follow(held, &created.task_id, interval(created), &InputResponses::new()).await
}

/// Answers what a task has asked for, and waits for its end.
pub(crate) async fn resume(
    peer: &Peer<RoleClient>,
    id: &str,
    answers: InputResponses,
) -> Result<Outcome, ServiceError> {
    let held = Held::of(peer, id);
    peer.update_task(UpdateTaskParams::new(id, answers.clone())).await?;
    follow(held, id, ASK_EVERY_MIN, &answers).await
}

/// Cancels a task in the background.
pub(crate) fn abandon(peer: &Peer<RoleClient>, id: String) {
    let peer = peer.clone();
    tokio::spawn(async move {
        match timeout(CANCEL_LIMIT, peer.cancel_task(CancelTaskParams::new(id))).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "cancelling a task at an MCP server failed"),
            Err(_) => debug!("an MCP server did not confirm that it cancels a task"),
        }
    });
}

/// `answers`: what it has asked for before, which it may ask for until it has taken them.
async fn follow(
    mut held: Held<'_>,
    id: &str,
    mut every: Duration,
    answers: &InputResponses,
) -> Result<Outcome, ServiceError> {
    let mut answered_asked = 0;
    loop {
        sleep(every).await;
        let now = held.peer.get_task(GetTaskParams::new(id)).await?.task;
        every = interval(&now.task);
        let outcome = match now.payload {
            TaskPayload::Completed { result } => match serde_json::from_value(Value::Object(result)) {
                Ok(result) => Outcome::Result(Box::new(result)),
                Err(error) => Outcome::Failed(format!("its result is invalid: {error}")),
            },
            TaskPayload::Failed { error } => Outcome::Failed(reason(&error)),
            TaskPayload::Cancelled => Outcome::Cancelled,
            TaskPayload::InputRequired { mut input_requests } => {
                input_requests.retain(|key, _| !answers.contains_key(key));
                if input_requests.is_empty() {
                    answered_asked += 1;
                    if answered_asked > ANSWERED_ASKED_MAX {
                        // Cancelled by the guard.
                        return Ok(Outcome::Failed(
                            "it goes on asking for what the user has answered or declined".to_owned(),
                        ));
                    }
                    continue;
                }
                Outcome::NeedsInput {
                    requests: input_requests,
                    pending: Pending::Task(id.to_owned()),
                }
            }
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

/// Cancels the task when dropped, unless it has ended or its caller is to answer it.
struct Held<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<String>,
}

impl<'a> Held<'a> {
    fn of(peer: &'a Peer<RoleClient>, id: &str) -> Self {
        let id = Some(id.to_owned());
        Self { peer, id }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            abandon(self.peer, id);
        }
    }
}
