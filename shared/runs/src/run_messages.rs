//! The messages of a run as its model saw them: the audit trail, and the source from which a new attempt rebuilds the
//! conversation.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_types::ids;

#[derive(Debug, Clone)]
pub struct RunMessage {
    pub id: Uuid,
    pub run_id: Uuid,
    pub position: i32,
    /// `system`, `user`, `assistant` or `tool_result`.
    pub role: String,
    pub content: Value,
    pub step_number: i32,
    pub created_at: DateTime<Utc>,
}

/// Returns the content of a `system` message: the prompt, and whose it is. Of several, the last one applies.
pub fn system_prompt(text: &str, agent_definition_id: Option<Uuid>) -> Value {
    json!({ "kind": "system", "text": text, "agentDefinitionId": agent_definition_id })
}

/// Returns the current agent of these messages.
pub fn agent_of(messages: &[RunMessage]) -> Option<Uuid> {
    let last = messages.iter().rfind(|message| message.role == "system")?;
    last.content["agentDefinitionId"].as_str()?.parse().ok()
}

/// Appends a message to the run and returns its id.
pub async fn append(
    db: &mut PgConnection,
    run_id: Uuid,
    id: Uuid,
    role: &str,
    content: &Value,
    step_number: i32,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.agent_run_messages (id, run_id, position, role, content, step_number)
         select $1, $2, coalesce(max(position), 0) + 1, $3, $4, $5 from kb.agent_run_messages where run_id = $2",
        id,
        run_id,
        role,
        content,
        step_number
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Copies another run's messages to a run.
pub async fn copy(db: &mut PgConnection, run_id: Uuid, messages: &[RunMessage]) -> Result<(), sqlx::Error> {
    let ids: Vec<Uuid> = messages.iter().map(|_| ids::new()).collect();
    let of: Vec<Uuid> = messages.iter().map(|message| message.id).collect();
    sqlx::query!(
        "insert into kb.agent_run_messages (id, run_id, position, role, content, step_number)
         select n.id, $1, m.position, m.role, m.content, m.step_number
         from unnest($2::uuid[], $3::uuid[]) n(id, of) join kb.agent_run_messages m on m.id = n.of",
        run_id,
        &ids,
        &of
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Replaces the content of the newest message of that role.
pub async fn replace_last(db: &mut PgConnection, run_id: Uuid, role: &str, content: &Value) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_run_messages set content = $3
         where run_id = $1 and position = (select max(position) from kb.agent_run_messages where run_id = $1 and role = $2)",
        run_id,
        role,
        content
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns all messages of a run, in order.
pub async fn all(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<Vec<RunMessage>, sqlx::Error> {
    sqlx::query_as!(
        RunMessage,
        "select * from kb.agent_run_messages where run_id = $1 order by position",
        run_id
    )
    .fetch_all(db)
    .await
}

/// Returns a page after `after` (a position).
pub async fn list(
    db: impl PgExecutor<'_>,
    run_id: Uuid,
    after: i32,
    limit: i64,
) -> Result<Vec<RunMessage>, sqlx::Error> {
    sqlx::query_as!(
        RunMessage,
        "select * from kb.agent_run_messages where run_id = $1 and position > $2 order by position limit $3",
        run_id,
        after,
        limit
    )
    .fetch_all(db)
    .await
}

pub async fn get(db: impl PgExecutor<'_>, run_id: Uuid, id: Uuid) -> Result<Option<RunMessage>, sqlx::Error> {
    sqlx::query_as!(
        RunMessage,
        "select * from kb.agent_run_messages where run_id = $1 and id = $2",
        run_id,
        id
    )
    .fetch_optional(db)
    .await
}
