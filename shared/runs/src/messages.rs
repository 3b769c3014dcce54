//! Chat messages of the user and the assistant, for the chat UI and for the history given to a model.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// Maximum length of a user's message, in characters.
pub const CONTENT_MAX_CHARS: usize = 100_000;

rejoin_types::text_enum! {
    pub enum Role {
        User = "user",
        Assistant = "assistant",
        System = "system",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatMessage {
    pub id: Uuid,
    pub role: String,
    pub content: String,
    pub citations: Option<Value>,
    pub retrieval_context: Option<Value>,
    pub metadata: Value,
    pub seq: i64,
    pub created_at: DateTime<Utc>,
}

/// A message to be stored. `seq` is the number of its event.
pub struct NewMessage<'a> {
    pub id: Uuid,
    pub conversation_id: Uuid,
    pub role: Role,
    pub content: &'a str,
    pub citations: Option<&'a Value>,
    pub retrieval_context: Option<&'a Value>,
    pub metadata: &'a Value,
    pub seq: i64,
}

pub async fn insert(db: &mut PgConnection, message: NewMessage<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.chat_messages (id, conversation_id, role, content, citations, retrieval_context, metadata, seq)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
        message.id,
        message.conversation_id,
        message.role.as_str(),
        message.content,
        message.citations,
        message.retrieval_context,
        message.metadata,
        message.seq,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Stores the earlier messages of a new conversation, in order. `last` is the number of the last one's event; their
/// events follow each other.
pub async fn insert_history(
    db: &mut PgConnection,
    conversation_id: Uuid,
    ids: &[Uuid],
    earlier: &[(Role, &str)],
    last: i64,
) -> Result<(), sqlx::Error> {
    let roles: Vec<String> = earlier.iter().map(|(role, _)| role.as_str().to_owned()).collect();
    let texts: Vec<String> = earlier.iter().map(|(_, text)| (*text).to_owned()).collect();
    sqlx::query!(
        "insert into kb.chat_messages (id, conversation_id, role, content, seq)
         select m.id, $1, m.role, m.content, $5::bigint - array_length($2::uuid[], 1) + m.nth
         from unnest($2::uuid[], $3::text[], $4::text[]) with ordinality m(id, role, content, nth)",
        conversation_id,
        ids,
        &roles,
        &texts,
        last
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns what is stored with a message besides its text: `attachedContext`, `attachments`.
pub async fn metadata(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<Value>, sqlx::Error> {
    sqlx::query_scalar!("select metadata from kb.chat_messages where id = $1", id)
        .fetch_optional(db)
        .await
}

/// Returns the first message of a conversation that was sent to a run: its metadata has the run as `toRun`.
pub async fn sent_to(db: &mut PgConnection, conversation_id: Uuid, run_id: Uuid) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.chat_messages
         where conversation_id = $1 and role = 'user' and metadata ->> 'toRun' = $2
         order by seq limit 1",
        conversation_id,
        run_id.to_string()
    )
    .fetch_optional(db)
    .await
}

/// Returns the newest messages of a conversation before this one, in order: also answers to earlier messages that came later.
pub async fn before(
    db: impl PgExecutor<'_>,
    conversation_id: Uuid,
    message_id: Uuid,
    limit: i64,
) -> Result<Vec<ChatMessage>, sqlx::Error> {
    let mut newest_first = sqlx::query_as!(
        ChatMessage,
        "select e.id, e.role, e.content, e.citations, e.retrieval_context, e.metadata, e.seq, e.created_at
         from kb.chat_messages m
         join kb.chat_messages e on e.conversation_id = m.conversation_id and e.id <> m.id
         where m.conversation_id = $1 and m.id = $2
           and (e.seq < m.seq
                or e.role = 'assistant' and exists (
                    select from kb.agent_runs r join kb.chat_messages asked on asked.id = r.message_id
                    where r.conversation_id = $1 and r.final_message_id = e.id and asked.seq < m.seq
                ))
         order by e.seq desc
         limit $3",
        conversation_id,
        message_id,
        limit
    )
    .fetch_all(db)
    .await?;
    newest_first.reverse();
    Ok(newest_first)
}

/// Returns a page of a conversation in order, after `after` (a message's seq).
pub async fn list(
    db: impl PgExecutor<'_>,
    conversation_id: Uuid,
    after: i64,
    limit: i64,
) -> Result<Vec<ChatMessage>, sqlx::Error> {
    sqlx::query_as!(
        ChatMessage,
        "select id, role, content, citations, retrieval_context, metadata, seq, created_at
         from kb.chat_messages where conversation_id = $1 and seq > $2 order by seq limit $3",
        conversation_id,
        after,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns the newest messages of a conversation, in order.
pub async fn newest(
    db: impl PgExecutor<'_>,
    conversation_id: Uuid,
    limit: i64,
) -> Result<Vec<ChatMessage>, sqlx::Error> {
    let mut newest_first = sqlx::query_as!(
        ChatMessage,
        "select id, role, content, citations, retrieval_context, metadata, seq, created_at
         from kb.chat_messages where conversation_id = $1 order by seq desc limit $2",
        conversation_id,
        limit
    )
    .fetch_all(db)
    .await?;
    newest_first.reverse();
    Ok(newest_first)
}
