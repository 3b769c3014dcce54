//! The state of a log at a number: its messages, and the running turn's text and tool calls so far. A late reader loads
//! it instead of replaying thousands of tokens. One statement, so that messages, events and the number agree.
//!
//! - `plan`   the turn's plan and operations
//! - `schema` schemas of the events that a snapshot contains
//! - `fold` the running turn, folded from its events

mod fold;
mod plan;
mod schema;

use rejoin_types::events::shapes::{ContextUsage, Plan, SnapshotMessage, SnapshotType, SubAgentStatus};
use rejoin_types::events::{Event, Operation, ToolStatus};
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use self::fold::fold;
use super::archive::{self, Archive, ArchiveError, Part};
use super::rows::{StoredEvent, StoredRow};

/// Maximum number of messages in a snapshot, newest first; older ones are read from the messages' own endpoint.
pub const MAX_MESSAGES: i64 = 200;

/// The state of a log at a number. It stands for all events up to it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SnapshotFrame)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    #[schema(value_type = SnapshotType, inline)]
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The number of the last event included; live events continue from here.
    pub through: i64,
    /// The newest 200.
    #[schema(value_type = Vec<SnapshotMessage>)]
    pub messages: Vec<Value>,
    /// The active turn, if any.
    #[schema(required)]
    pub turn: Option<Turn>,
}

impl Snapshot {
    /// The value of its `type`.
    pub const KIND: &str = "snapshot";
}

/// The state of a turn so far.
#[derive(Debug, Clone, PartialEq, Serialize, Default, ToSchema)]
#[schema(as = SnapshotTurn)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    pub run_id: Uuid,
    /// Its `meta` event, once it exists.
    #[schema(schema_with = schema::meta, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    /// The reply's text so far.
    pub text: String,
    #[schema(required = false)]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    pub tool_calls: Vec<TurnToolCall>,
    /// Its sub-agents, in order of their start.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<TurnAgent>,
    /// Unanswered questions: the `question` events.
    #[schema(schema_with = schema::questions, required = false)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Value>,
    /// Its newest plan, with the current state of its steps.
    #[schema(value_type = Option<Plan>, nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// Its operations: the latest state of each, in the order in which they began.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Operation>,
    /// How full the model's context window is.
    #[schema(value_type = Option<ContextUsage>, nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_usage: Option<Value>,
}

/// A sub-agent of the turn.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SnapshotAgent)]
#[serde(rename_all = "camelCase")]
pub struct TurnAgent {
    pub run_id: Uuid,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<Uuid>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// `plan_step`, if it executes the step `step_number` of a plan.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_number: Option<i32>,
    /// `started`, or how it ended.
    #[schema(value_type = SubAgentStatus)]
    pub status: String,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Its text so far.
    pub text: String,
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<TurnToolCall>,
    /// The length of its starter's text before it began, as counted by [`length`].
    pub after_text: usize,
}

/// A tool call of the turn.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SnapshotToolCall)]
#[serde(rename_all = "camelCase")]
pub struct TurnToolCall {
    pub call_id: String,
    pub tool: String,
    pub status: ToolStatus,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The length of the text before it began, as counted by [`length`]: a reader interleaves text and calls by it.
    pub after_text: usize,
}

/// What a snapshot is made from: the answer of the database.
#[derive(Debug)]
pub struct Loaded {
    through: i64,
    messages: Vec<Value>,
    turn: Option<LoadedTurn>,
}

/// The active turn.
#[derive(Debug)]
struct LoadedTurn {
    run_id: Uuid,
    root_run_id: Uuid,
    /// The number before its first event.
    first_seq: i64,
    /// The parts of its events that are archived: it was resumed long after its first events.
    parts: Vec<Part>,
    /// Its other events.
    events: Vec<StoredEvent>,
}

/// Loads a log's state; with `run_id`, what that run's readers see of it. None: the log does not exist. [`Loaded::fold`] makes the
/// snapshot, when the transaction has ended: it may have to wait for an archive.
pub async fn load(db: &mut PgConnection, log_id: Uuid, run_id: Option<Uuid>) -> Result<Option<Loaded>, sqlx::Error> {
    let row = sqlx::query!(
        r#"with turn as (
             -- the turn that is under way: the oldest run that has not ended
             select id, root_run_id, first_seq from kb.agent_runs
             where log_id = $1 and state in ('queued', 'running', 'waiting') and parent_run_id is null
               and ($2::uuid is null or id = $2)
             order by (state = 'queued'), created_at, id limit 1),
           answering as (
             -- which run answers which message: one that failed has left no message of its own
             select distinct on (message_id) message_id, id, state from kb.agent_runs
             where conversation_id = $1 and message_id is not null and parent_run_id is null
             order by message_id, id)
           select l.last_seq as "last_seq!", t.id as "turn_id?", t.root_run_id as "root_run_id?", t.first_seq as "turn_first_seq?",
                  l.archived_seq as "archived_seq!",
                  coalesce((select json_agg(json_build_object(
                                'id', m.id, 'role', m.role, 'content', m.content,
                                'createdAt', to_char(m.created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                                'citations', m.citations, 'retrievalContext', m.retrieval_context, 'seq', m.seq,
                                'attachments', m.metadata -> 'attachments',
                                'runId', a.id, 'runState', a.state) order by m.seq)
                            from (select * from kb.chat_messages
                                  where conversation_id = l.log_id
                                    and ($2::uuid is null
                                         or id in (select unnest(array[r.message_id, r.final_message_id])
                                                   from kb.agent_runs r where r.id = $2))
                                  order by seq desc limit $3) m
                            left join answering a on a.message_id = m.id), '[]') as "messages!: Value",
                  said.data as "data: Vec<String>", said.seqs as "seqs: Vec<i64>",
                  said.first_seqs as "first_seqs: Vec<Option<i64>>"
           from stream.log_ends l
           left join turn t on true
           -- the turn's events, read once
           left join lateral (
             select array_agg(e.data order by e.seq) as data, array_agg(e.seq order by e.seq) as seqs,
                    array_agg(e.first_seq order by e.seq) as first_seqs
             from stream.events e
             where e.log_id = l.log_id and e.seq > t.first_seq and e.run_id = t.root_run_id) said on true
           where l.log_id = $1"#,
        log_id,
        run_id as _,
        MAX_MESSAGES
    )
    .fetch_optional(&mut *db)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let turn = match (row.turn_id, row.root_run_id, row.turn_first_seq) {
        (Some(run_id), Some(root_run_id), Some(first_seq)) => {
            // Nothing of a turn is archived while it is active: these stay as they are.
            let mut parts = if first_seq < row.archived_seq {
                archive::parts_after(&mut *db, log_id, first_seq).await?
            } else {
                Vec::new()
            };
            parts.retain(|part| part.last_seq <= row.archived_seq);
            let rows = row
                .first_seqs
                .unwrap_or_default()
                .into_iter()
                .zip(row.seqs.unwrap_or_default())
                .zip(row.data.unwrap_or_default());
            let mut events = Vec::new();
            for ((first_seq, seq), data) in rows {
                let row = StoredRow {
                    first_seq,
                    seq,
                    run_id: Some(root_run_id),
                    kind: String::new(),
                    data: data.into(),
                };
                row.expand(0, &mut events);
            }
            Some(LoadedTurn {
                run_id,
                root_run_id,
                first_seq,
                parts,
                events,
            })
        }
        _ => None,
    };
    Ok(Some(Loaded {
        through: row.last_seq,
        messages: row
            .messages
            .as_array()
            .cloned()
            .unwrap_or_default()
            .into_iter()
            .map(without_none)
            .collect(),
        turn,
    }))
}

impl Loaded {
    /// Makes the snapshot. Reads the archive only for a turn that was resumed after its first events were archived.
    pub async fn fold(self, archive: &dyn Archive) -> Result<Snapshot, ArchiveError> {
        let turn = match self.turn {
            Some(turn) => Some(turn.fold(archive).await?),
            None => None,
        };
        Ok(Snapshot {
            kind: Snapshot::KIND,
            through: self.through,
            messages: self.messages,
            turn,
        })
    }
}

impl LoadedTurn {
    async fn fold(self, archive: &dyn Archive) -> Result<Turn, ArchiveError> {
        let mut events = Vec::new();
        for part in &self.parts {
            let archived = archive.events(part).await?;
            let is_its = |event: &&StoredEvent| event.run_id == Some(self.root_run_id) && event.seq > self.first_seq;
            events.extend(archived.iter().filter(is_its).cloned());
        }
        events.extend(self.events);
        Ok(fold(self.run_id, events.into_iter().filter_map(parsed)))
    }
}

/// Removes `attachments` from a message that has none.
fn without_none(mut message: Value) -> Value {
    if let Some(fields) = message.as_object_mut()
        && fields.get("attachments").is_some_and(Value::is_null)
    {
        fields.remove("attachments");
    }
    message
}

/// An event that this version can parse.
fn parsed(event: StoredEvent) -> Option<(i64, Event, String)> {
    let data = String::from_utf8(event.data.into()).ok()?;
    Some((event.seq, serde_json::from_str(&data).ok()?, data))
}

impl Turn {
    /// Applies the start or end of a sub-agent.
    fn agent(&mut self, news: TurnAgent) {
        match self.agent_of(Some(news.run_id)) {
            Some(agent) => {
                agent.status = news.status;
                agent.task = news.task.or(agent.task.take());
            }
            None => self.agents.push(news),
        }
    }

    fn agent_of(&mut self, run_id: Option<Uuid>) -> Option<&mut TurnAgent> {
        self.agents.iter_mut().find(|agent| Some(agent.run_id) == run_id)
    }
}

#[cfg(test)]
mod tests;
