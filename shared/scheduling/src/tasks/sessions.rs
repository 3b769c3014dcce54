//! Mirrors agents' work on tasks as objects of the knowledge graph ([`crate::coordination_schema`]): a `Session` with the run's id
//! for each run of a task, and a `SessionMessage` for each of its messages. Written in the transactions in which such a
//! run is created and ends.
//!
//! Invariant: the run is authoritative. A session that cannot be written is omitted, and the task continues.

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{DagTask, mirror};
use crate::coordination_schema::{HAS_MESSAGE, HAS_SESSION, SESSION, SESSION_MESSAGE};
use rejoin_graph::objects::{self, ObjectChange};
use rejoin_graph::{Actor, Error};
use rejoin_runs::run_messages::RunMessage;
use rejoin_runs::runs::{Run, RunState};

/// Maximum number of a session's messages mirrored as objects: the newest ones.
const MESSAGES_MAX: i64 = 50;
/// Maximum length of a message's object, in characters; the run's records hold the whole.
const MESSAGE_MAX_CHARS: usize = 4_000;

/// Creates the session of a run that begins a task.
pub async fn begin(
    db: &mut PgConnection,
    task: &DagTask,
    run_id: Uuid,
    agent: &str,
    actor: Actor,
) -> Result<(), sqlx::Error> {
    let content = json!({
        "title": format!("{agent}: {}", task.title), "status": "active", "agent": agent, "task_id": task.id, "run_id": run_id,
    });
    let key = run_id.to_string();
    let hash = objects::object_hash(SESSION, &key, Some("active"), &[], &content);
    mirror::write(
        db,
        task.workspace_id,
        SESSION,
        "active",
        &[run_id],
        &[key],
        &[content],
        &[hash],
        actor,
    )
    .await?;
    mirror::relate(db, task.workspace_id, HAS_SESSION, &[task.id], &[run_id], actor).await
}

/// Ends the session with its run, and adds its messages.
pub async fn end(db: &mut PgConnection, run: &Run, state: RunState, actor: Actor) -> Result<(), sqlx::Error> {
    let status = match state {
        RunState::Completed => "completed",
        RunState::Cancelled => "cancelled",
        RunState::Failed | RunState::Paused | RunState::Queued | RunState::Running | RunState::Waiting => "failed",
    };
    let mut properties = Map::new();
    properties.insert("status".to_owned(), json!(status));
    let change = ObjectChange {
        properties,
        status: Some(status.to_owned()),
        ..ObjectChange::default()
    };
    match objects::update(db, run.workspace_id, run.id, &change, actor).await {
        Ok(_) => {}
        Err(Error::Database { source, .. }) => return Err(source),
        // The session was deleted, its type has the workspace's own rules, or the run began before there were sessions.
        Err(error) => {
            tracing::debug!(run = %run.id, %error, "mirroring a session in the graph failed");
            return Ok(());
        }
    }
    let messages = sqlx::query_as!(
        RunMessage,
        r#"select id as "id!", run_id as "run_id!", position as "position!", role as "role!", content as "content!",
                  step_number as "step_number!", created_at as "created_at!"
           from (select * from kb.agent_run_messages where run_id = $1 and role <> 'system' order by position desc limit $2) newest
           order by position"#,
        run.id,
        MESSAGES_MAX
    )
    .fetch_all(&mut *db)
    .await?;
    if messages.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = messages.iter().map(|message| message.id).collect();
    let keys: Vec<String> = messages
        .iter()
        .map(|message| format!("{}/{}", run.id, message.position))
        .collect();
    let contents: Vec<Value> = messages.iter().map(content).collect();
    let hashes: Vec<Vec<u8>> = keys
        .iter()
        .zip(&contents)
        .map(|(key, content)| objects::object_hash(SESSION_MESSAGE, key, Some("said"), &[], content))
        .collect();
    mirror::write(
        db,
        run.workspace_id,
        SESSION_MESSAGE,
        "said",
        &ids,
        &keys,
        &contents,
        &hashes,
        actor,
    )
    .await?;
    let from = vec![run.id; ids.len()];
    mirror::relate(db, run.workspace_id, HAS_MESSAGE, &from, &ids, actor).await
}

/// Returns the content of a message's object.
fn content(message: &RunMessage) -> Value {
    let stored = &message.content;
    let text = ["text", "content"]
        .iter()
        .find_map(|name| stored[*name].as_str())
        .unwrap_or_default();
    let calls = stored["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| json!({ "id": call["id"], "name": call["name"] }))
        .collect();
    json!({
        "role": message.role, "content": text.chars().take(MESSAGE_MAX_CHARS).collect::<String>(), "tool_calls": calls,
        "timestamp": message.created_at,
    })
}
