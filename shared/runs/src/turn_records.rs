//! What a turn begins with besides its run and its agent, read in one query: its conversation's context and summary, its
//! message's attachments, its request's options.

use serde_json::Value;
use sqlx::PgExecutor;
use uuid::Uuid;

use crate::client_tools::RunOptions;
use crate::compressions::Compression;
use crate::contexts::{Context, ContextPatch};

/// The records of a run's turn. All are empty for a run without a conversation and options.
#[derive(Debug, Clone, Default)]
pub struct TurnRecords {
    /// The conversation's context before the turn.
    pub context: Option<Context>,
    /// The context of its previous turn.
    pub last_turn: Option<Value>,
    /// What is stored with the message besides its text.
    pub metadata: Value,
    /// The newest summary of the conversation.
    pub compressed: Option<Compression>,
    pub options: RunOptions,
}

impl TurnRecords {
    /// The change of the context that came with the message.
    pub fn patch(&self) -> ContextPatch {
        ContextPatch::stored(self.metadata.get("attachedContext"))
    }
}

/// Returns the records of a run's turn.
pub async fn of_run(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<TurnRecords, sqlx::Error> {
    let row = sqlx::query!(
        r#"select c.context as "context?", c.last_turn as "last_turn?", m.metadata as "metadata?",
                  o.client_tools as "client_tools?", o.instructions as "instructions?",
                  s.conversation_id as "conversation_id?", s.version as "version?", s.through_seq as "through_seq?",
                  s.summary as "summary?", s.messages as "messages?", s.tokens_before as "tokens_before?",
                  s.tokens_after as "tokens_after?", s.created_at as "created_at?"
           from kb.agent_runs r
           left join kb.chat_conversations c on c.id = r.conversation_id
           left join kb.chat_messages m on m.id = r.message_id
           left join kb.run_options o on o.run_id = r.id
           left join lateral (
               select * from kb.chat_compressions where conversation_id = r.conversation_id order by version desc limit 1
           ) s on true
           where r.id = $1"#,
        run_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map_or_else(TurnRecords::default, |row| TurnRecords {
        context: Context::stored(row.context.as_ref()),
        last_turn: row.last_turn,
        metadata: row.metadata.unwrap_or_default(),
        compressed: (|| {
            Some(Compression {
                conversation_id: row.conversation_id?,
                version: row.version?,
                through_seq: row.through_seq?,
                summary: row.summary?,
                messages: row.messages?,
                tokens_before: row.tokens_before?,
                tokens_after: row.tokens_after?,
                created_at: row.created_at?,
            })
        })(),
        options: RunOptions::stored(row.client_tools, row.instructions),
    }))
}
