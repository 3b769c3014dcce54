//! Compression of long conversations: the newest summary replaces all messages up to its number for models; later
//! messages are given verbatim. The messages themselves are kept; each summary is a version.
//!
//! Invariant: a summary covers whole turns from the beginning without a gap, and its coverage only grows.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::contexts::TOKEN_BUDGET;
use crate::messages::ChatMessage;
use rejoin_models::tokens;
use rejoin_queue::NewJob;

/// The `queue.jobs.kind` of the compression job.
pub const KIND: &str = "compress";
/// Number of newest messages that are never summarized.
pub const KEPT: i64 = 10;
/// Number of uncovered messages that triggers a summary, however short they are.
pub const DUE: i64 = 20;
/// Target length of a summary, as a share of the tokens that it replaces, within bounds.
const TARGET_SHARE: f64 = 0.45;
const TARGET_TOKENS: std::ops::RangeInclusive<u64> = 1_000..=2_000;
/// Maximum length of each message examined to see whether a summary is due, in characters: more than the budget, in any
/// language.
const LOOKED_AT_CHARS: i32 = 20_000;
/// Maximum number of messages covered by one summary; the next one continues.
pub const TAKEN_IN: i64 = 200;
/// Below interactive work, above sweeps.
const PRIORITY: i16 = 500;

/// A summary.
#[derive(Debug, Clone, PartialEq)]
pub struct Compression {
    pub conversation_id: Uuid,
    pub version: i32,
    pub through_seq: i64,
    pub summary: String,
    pub messages: i32,
    pub tokens_before: i32,
    pub tokens_after: i32,
    pub created_at: DateTime<Utc>,
}

impl Compression {
    /// The representation in `context_usage`.
    pub fn to_json(&self) -> Value {
        json!({
            "at": self.created_at,
            "version": self.version,
            "messages": self.messages,
            "tokensBefore": self.tokens_before,
            "tokensAfter": self.tokens_after,
        })
    }
}

/// Returns the maximum length of a summary of this many tokens, in tokens.
pub fn target(tokens: u64) -> u64 {
    ((tokens as f64 * TARGET_SHARE) as u64).clamp(*TARGET_TOKENS.start(), *TARGET_TOKENS.end())
}

pub async fn newest(db: impl PgExecutor<'_>, conversation_id: Uuid) -> Result<Option<Compression>, sqlx::Error> {
    sqlx::query_as!(
        Compression,
        "select * from kb.chat_compressions where conversation_id = $1 order by version desc limit 1",
        conversation_id
    )
    .fetch_optional(db)
    .await
}

/// Requests a summary if the uncovered messages exceed their budget, or number [`DUE`]. No effect while one is in
/// progress.
pub async fn consider(db: &mut PgConnection, workspace_id: Uuid, conversation_id: Uuid) -> Result<bool, sqlx::Error> {
    let texts = sqlx::query_scalar!(
        r#"select left(content, $2) as "content!"
           from kb.chat_messages
           where conversation_id = $1
             and seq > coalesce((select max(through_seq) from kb.chat_compressions where conversation_id = $1), 0)
           limit $3"#,
        conversation_id,
        LOOKED_AT_CHARS,
        DUE
    )
    .fetch_all(&mut *db)
    .await?;
    let messages = i64::try_from(texts.len()).unwrap_or(i64::MAX);
    let is_long = || texts.iter().map(|text| tokens::estimate(text)).sum::<u64>() > TOKEN_BUDGET;
    if messages <= KEPT || (messages < DUE && !is_long()) {
        return Ok(false);
    }
    let key = format!("compress:{conversation_id}");
    let job = NewJob {
        workspace_id,
        unique_key: Some(key),
        priority: PRIORITY,
        ..NewJob::new(KIND, json!({ "conversationId": conversation_id }))
    };
    rejoin_queue::enqueue(db, &job).await?;
    Ok(true)
}

/// Returns the messages for the next summary: those after the newest summary, except the last [`KEPT`]; up to the end
/// of a turn. Empty: none.
pub async fn due(
    db: impl PgExecutor<'_>,
    conversation_id: Uuid,
    after_seq: i64,
) -> Result<Vec<ChatMessage>, sqlx::Error> {
    let mut rows = sqlx::query_as!(
        ChatMessage,
        "select id, role, content, citations, retrieval_context, metadata, seq, created_at from kb.chat_messages
         where conversation_id = $1 and seq > $2
           and seq <= (select coalesce(min(seq), 0) - 1
                       from (select seq from kb.chat_messages where conversation_id = $1 order by seq desc limit $3) newest)
         order by seq limit $4",
        conversation_id,
        after_seq,
        KEPT,
        TAKEN_IN
    )
    .fetch_all(db)
    .await?;
    // An answer stays with its question.
    while rows.last().is_some_and(|last| last.role == "user") {
        rows.pop();
    }
    Ok(rows)
}

/// Stores the next version. False: another one was faster, and is kept.
pub async fn insert(db: impl PgExecutor<'_>, new: &Compression) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "insert into kb.chat_compressions (conversation_id, version, through_seq, summary, messages, tokens_before, tokens_after)
         values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing",
        new.conversation_id,
        new.version,
        new.through_seq,
        new.summary,
        new.messages,
        new.tokens_before,
        new.tokens_after
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirements: E59.
    #[test]
    fn a_summary_is_a_share_of_what_it_stands_for_within_bounds() {
        assert_eq!((target(100), target(3_000), target(100_000)), (1_000, 1_350, 2_000));
    }
}
