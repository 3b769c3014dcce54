//! Mirrors agents' work on tasks as objects of the knowledge graph ([`crate::coordination_schema`]): a `Session` with the run's id
//! for each run of a task, and a `SessionMessage` for each of its messages. Written in the transactions in which such a
//! run is created and ends.
//!
//! Invariant: the run is authoritative. A session that cannot be written is omitted, and the task continues.

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::mirror;
use crate::coordination_schema::{HAS_MESSAGE, HAS_SESSION, SESSION, SESSION_MESSAGE};
use rejoin_graph::Actor;
use rejoin_graph::objects::{self, ObjectChange};
use rejoin_runs::run_messages::RunMessage;
use rejoin_runs::runs::RunState;

/// Maximum number of a session's messages mirrored as objects: the newest ones.
const MESSAGES_MAX: i64 = 50;
/// Maximum length of a message's object, in characters; the run's records hold the whole.
const MESSAGE_MAX_CHARS: usize = 4_000;

/// The session of a run that begins a task.
#[derive(Debug)]
pub struct NewSession {
    pub task_id: Uuid,
    pub title: String,
    pub run_id: Uuid,
    pub agent: String,
}

/// Creates sessions.
pub async fn begin(
    db: &mut PgConnection,
    workspace_id: Uuid,
    sessions: &[NewSession],
    actor: Actor,
) -> Result<(), sqlx::Error> {
    if sessions.is_empty() {
        return Ok(());
    }
    let (mut ids, mut keys, mut contents, mut hashes, mut tasks) = (vec![], vec![], vec![], vec![], vec![]);
    for session in sessions {
        let content = json!({
            "title": format!("{}: {}", session.agent, session.title), "status": "active", "agent": session.agent,
            "task_id": session.task_id, "run_id": session.run_id,
        });
        let key = session.run_id.to_string();
        hashes.push(objects::object_hash(SESSION, &key, Some("active"), &[], &content));
        ids.push(session.run_id);
        keys.push(key);
        contents.push(content);
        tasks.push(session.task_id);
    }
    mirror::write(
        db,
        workspace_id,
        SESSION,
        "active",
        &ids,
        &keys,
        &contents,
        &hashes,
        actor,
    )
    .await?;
    mirror::relate(db, workspace_id, HAS_SESSION, &tasks, &ids, actor).await
}

/// The change of a session whose run ends in this state. If it was written, [`add_messages`] follows; else the session was deleted, its type has
/// the workspace's own rules, or the run began before there were sessions.
pub fn end(state: RunState) -> ObjectChange {
    let status = match state {
        RunState::Completed => "completed",
        RunState::Cancelled => "cancelled",
        RunState::Failed | RunState::Paused | RunState::Queued | RunState::Running | RunState::Waiting => "failed",
    };
    let mut properties = Map::new();
    properties.insert("status".to_owned(), json!(status));
    ObjectChange {
        properties,
        status: Some(status.to_owned()),
        ..ObjectChange::default()
    }
}

/// Adds the messages of ended runs to their sessions.
pub async fn add_messages(
    db: &mut PgConnection,
    workspace_id: Uuid,
    runs: &[Uuid],
    actor: Actor,
) -> Result<(), sqlx::Error> {
    if runs.is_empty() {
        return Ok(());
    }
    let messages = sqlx::query_as!(
        RunMessage,
        r#"select m.id as "id!", m.run_id as "run_id!", m.position as "position!", m.role as "role!", m.content as "content!",
                  m.step_number as "step_number!", m.created_at as "created_at!"
           from unnest($1::uuid[]) r(id)
           cross join lateral (select * from kb.agent_run_messages
                               where run_id = r.id and role <> 'system' order by position desc limit $2) m
           order by m.run_id, m.position"#,
        runs,
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
        .map(|message| format!("{}/{}", message.run_id, message.position))
        .collect();
    let contents: Vec<Value> = messages.iter().map(content).collect();
    let hashes: Vec<Vec<u8>> = keys
        .iter()
        .zip(&contents)
        .map(|(key, content)| objects::object_hash(SESSION_MESSAGE, key, Some("said"), &[], content))
        .collect();
    mirror::write(
        db,
        workspace_id,
        SESSION_MESSAGE,
        "said",
        &ids,
        &keys,
        &contents,
        &hashes,
        actor,
    )
    .await?;
    let from: Vec<Uuid> = messages.iter().map(|message| message.run_id).collect();
    mirror::relate(db, workspace_id, HAS_MESSAGE, &from, &ids, actor).await
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
