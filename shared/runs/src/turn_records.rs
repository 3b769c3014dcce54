//! What a turn begins with besides its run and its agent, read in one query: its conversation's context, summary and newest
//! messages, its message's attachments, its request's options, its workspace's prices, its maker's role.

use serde::Deserialize;
use serde_json::Value;
use sqlx::PgExecutor;
use uuid::Uuid;

use crate::client_tools::RunOptions;
use crate::compressions::{self, Compression};
use crate::contexts::{Context, ContextPatch};
use crate::messages::Role;
use crate::prices::ModelPrice;

/// The records of a run's turn. All are empty for a run without a conversation and options.
#[derive(Debug, Clone, Default)]
pub struct TurnRecords {
    /// The conversation's context before the turn, as stored. Null: none.
    pub context: Value,
    /// The context of its previous turn.
    pub last_turn: Option<Value>,
    /// What is stored with the message besides its text.
    pub metadata: Value,
    /// The newest summary of the conversation.
    pub compressed: Option<Compression>,
    pub options: RunOptions,
    /// The newest messages before the turn's own, oldest first: none that the summary covers.
    pub history: Vec<HistoryMessage>,
    /// Whether these are all.
    pub history_is_complete: bool,
    /// The workspace's own prices.
    pub prices: Vec<ModelPrice>,
    /// The role of the user who started the run, if that user is still a member.
    pub role: Option<String>,
    /// Whether steering messages have arrived before the turn began.
    pub has_pending: bool,
    /// Whether the workspace's graph has objects.
    pub has_objects: bool,
}

/// An earlier message of the conversation, as a model needs it.
#[derive(Debug, Clone, Deserialize)]
pub struct HistoryMessage {
    pub role: String,
    pub content: String,
    pub metadata: Value,
}

impl TurnRecords {
    /// The conversation's context with the change that came with the message.
    pub fn turn_context(&self) -> Option<Context> {
        ContextPatch::stored(self.metadata.get("attachedContext")).apply_to(Context::stored(Some(&self.context)))
    }

    /// Returns whether a summary may be due after the turn, which adds a message and its answer.
    pub fn may_need_summary(&self) -> bool {
        let messages = i64::try_from(self.history.len() + 2).unwrap_or(i64::MAX);
        !self.history_is_complete || messages > compressions::KEPT
    }

    /// Returns whether the conversation has no answer before the turn's own.
    pub fn is_first_answer(&self) -> bool {
        self.history_is_complete
            && self.compressed.is_none()
            && self
                .history
                .iter()
                .all(|message| message.role != Role::Assistant.as_str())
    }
}

/// Returns the records of a run's turn, with up to `history` earlier messages; after a summary with all that follow it, up to the number
/// that the next summary would cover. Messages that users posted after the turn's own have their own turns and are omitted; answers to earlier
/// turns count even if they came later.
pub async fn of_run(db: impl PgExecutor<'_>, run_id: Uuid, history: i64) -> Result<TurnRecords, sqlx::Error> {
    let row = sqlx::query!(
        r#"select c.context as "context?", c.last_turn as "last_turn?", m.metadata as "metadata?",
                  o.client_tools as "client_tools?", o.instructions as "instructions?",
                  s.conversation_id as "conversation_id?", s.version as "version?", s.through_seq as "through_seq?",
                  s.summary as "summary?", s.messages as "messages?", s.tokens_before as "tokens_before?",
                  s.tokens_after as "tokens_after?", s.created_at as "created_at?",
                  coalesce((
                      select json_agg(json_build_object('role', h.role, 'content', h.content, 'metadata', h.metadata) order by h.seq)
                      from (select e.role, e.content, e.metadata, e.seq
                            from kb.chat_messages e
                            where e.conversation_id = r.conversation_id and e.id <> m.id and (e.seq < m.seq or e.role = 'assistant')
                            order by e.seq desc
                            limit (select case when exists (select from kb.chat_compressions covering
                                                            where covering.conversation_id = own.conversation_id)
                                               then greatest($2::bigint, $3::bigint) else $2::bigint end
                                   from kb.agent_runs own where own.id = $1)) h
                      where h.seq > coalesce(s.through_seq, 0)
                  ), '[]') as "history!",
                  coalesce((
                      select json_agg(json_build_object('model', p.model, 'input_usd', p.input_usd, 'output_usd', p.output_usd) order by p.model)
                      from kb.model_prices p where p.project_id = r.project_id
                  ), '[]') as "prices!",
                  case when r.user_id is not null then kb.member_role(r.project_id, r.user_id) end as role,
                  exists (select from kb.run_inbox i where i.run_id = r.id) as "has_pending!",
                  exists (select from kb.graph_objects g
                          where g.project_id = r.project_id and g.superseded_at is null and g.deleted_at is null) as "has_objects!"
           from kb.agent_runs r
           left join kb.chat_conversations c on c.id = r.conversation_id
           left join kb.chat_messages m on m.id = r.message_id
           left join kb.run_options o on o.run_id = r.id
           left join lateral (
               select * from kb.chat_compressions where conversation_id = r.conversation_id order by version desc limit 1
           ) s on true
           where r.id = $1"#,
        run_id,
        history,
        compressions::TAKEN_IN
    )
    .fetch_optional(db)
    .await?;
    let Some(row) = row else {
        return Ok(TurnRecords::default());
    };
    let messages: Vec<HistoryMessage> = decode(row.history)?;
    let read = match row.version {
        Some(_) => history.max(compressions::TAKEN_IN),
        None => history,
    };
    Ok(TurnRecords {
        context: row.context.unwrap_or_default(),
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
        history_is_complete: i64::try_from(messages.len()).unwrap_or(i64::MAX) < read,
        history: messages,
        prices: decode(row.prices)?,
        role: row.role,
        has_pending: row.has_pending,
        has_objects: row.has_objects,
    })
}

fn decode<T: serde::de::DeserializeOwned>(rows: Value) -> Result<Vec<T>, sqlx::Error> {
    serde_json::from_value(rows).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}
