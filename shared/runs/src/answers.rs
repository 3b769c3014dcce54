//! How answers came about: the run that wrote each, its agent and model, what it used and how long it took.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgExecutor;
use uuid::Uuid;

/// The run that wrote an assistant's message.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub message_id: Uuid,
    pub run_id: Uuid,
    pub agent_definition_id: Option<Uuid>,
    /// The agent's name at that time.
    pub agent: Option<String>,
    pub agent_version: Option<i32>,
    pub model: Option<String>,
    pub state: String,
    /// Of the run alone: `inputTokens`, `outputTokens`, `totalTokens`, `costUsd`, `steps`.
    pub usage: Value,
    /// Of the run and all that it started.
    pub tree_tokens: i64,
    pub tree_cost_usd: f64,
    pub started_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
}

impl Answer {
    /// From the run's start to its end, with its waits.
    pub fn duration_ms(&self) -> Option<i64> {
        let (start, end) = self.started_at.zip(self.finished_at)?;
        Some((end - start).num_milliseconds())
    }
}

/// Returns the answers among these messages of a conversation.
pub async fn of_messages(
    db: impl PgExecutor<'_>,
    conversation_id: Uuid,
    message_ids: &[Uuid],
) -> Result<HashMap<Uuid, Answer>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Answer,
        r#"select final_message_id as "message_id!", id as run_id, agent_definition_id, agent_name as agent, agent_version, model, state,
                  usage, tree_tokens, tree_cost_usd, started_at, finished_at
           from kb.agent_runs
           where conversation_id = $1 and parent_run_id is null and final_message_id = any($2)"#,
        conversation_id,
        message_ids
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.message_id, row)).collect())
}
