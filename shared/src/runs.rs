//! Runs: one execution of an agent, of one or many attempts.
//!
//! State machine: queued -> running -> (waiting -> queued)* -> completed | failed | cancelled | paused. Every change after
//! `queued` is made by the commands, under the fence of the job's attempt.

use chrono::{DateTime, Utc};
use deadpool_postgres::Pool;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::conversations::Owner;
use crate::events::log::{self, LogEnds};
use crate::queue::settle::HotError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    Queued,
    Running,
    /// For sub-agents, a person or a time; holds no worker slot.
    Waiting,
    /// Ended by a limit; may be resumed.
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl RunState {
    pub fn as_str(self) -> &'static str {
        match self {
            RunState::Queued => "queued",
            RunState::Running => "running",
            RunState::Waiting => "waiting",
            RunState::Paused => "paused",
            RunState::Completed => "completed",
            RunState::Failed => "failed",
            RunState::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "queued" => RunState::Queued,
            "running" => RunState::Running,
            "waiting" => RunState::Waiting,
            "paused" => RunState::Paused,
            "completed" => RunState::Completed,
            "failed" => RunState::Failed,
            "cancelled" => RunState::Cancelled,
            _ => return None,
        })
    }

    /// Whether its turn has ended with `done`.
    pub fn has_ended(self) -> bool {
        match self {
            RunState::Queued | RunState::Running | RunState::Waiting => false,
            RunState::Paused | RunState::Completed | RunState::Failed | RunState::Cancelled => true,
        }
    }
}

/// A run as stored.
#[derive(Debug, Clone)]
pub struct Run {
    pub id: Uuid,
    pub project_id: Uuid,
    pub conversation_id: Option<Uuid>,
    pub user_id: Option<Uuid>,
    pub agent_definition_id: Option<Uuid>,
    pub agent_name: Option<String>,
    pub parent_run_id: Option<Uuid>,
    pub root_run_id: Uuid,
    pub depth: i32,
    pub log_id: Uuid,
    pub message_id: Option<Uuid>,
    pub input: String,
    pub state: String,
    pub cancel_requested_at: Option<DateTime<Utc>>,
    pub attempt: i32,
    pub model: Option<String>,
    pub step_count: i32,
    pub total_steps: i32,
    pub first_seq: i64,
    pub safe_seq: Option<i64>,
    pub done_seq: Option<i64>,
    pub summary: Option<String>,
    pub error: Option<String>,
    pub error_code: Option<String>,
    pub usage: Value,
    pub final_message_id: Option<Uuid>,
    pub timeout_s: Option<i32>,
    pub created_at: DateTime<Utc>,
    pub started_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
}

impl Run {
    pub fn state(&self) -> RunState {
        RunState::parse(&self.state).expect("the table's check constraint allows only known states")
    }
}

/// A run about to be queued.
pub struct NewRun<'a> {
    pub id: Uuid,
    pub project_id: Uuid,
    pub conversation_id: Option<Uuid>,
    pub user_id: Option<Uuid>,
    pub agent_definition_id: Option<Uuid>,
    pub agent_name: Option<&'a str>,
    pub log_id: Uuid,
    pub message_id: Option<Uuid>,
    pub input: &'a str,
    pub first_seq: i64,
    pub timeout_s: Option<i32>,
}

/// Adds a top-level run.
pub async fn insert(db: &mut PgConnection, run: NewRun<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.agent_runs (id, project_id, conversation_id, user_id, agent_definition_id, agent_name, root_run_id,
                                    log_id, message_id, input, first_seq, timeout_s)
         values ($1, $2, $3, $4, $5, $6, $1, $7, $8, $9, $10, $11)",
        run.id,
        run.project_id,
        run.conversation_id,
        run.user_id,
        run.agent_definition_id,
        run.agent_name,
        run.log_id,
        run.message_id,
        run.input,
        run.first_seq,
        run.timeout_s,
    )
    .execute(db)
    .await?;
    Ok(())
}

pub async fn get(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<Run>, sqlx::Error> {
    sqlx::query_as!(Run, "select * from kb.agent_runs where id = $1", id)
        .fetch_optional(db)
        .await
}

/// A run's part of its log.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub run_id: Uuid,
    pub root_run_id: Uuid,
    pub log_id: Uuid,
    /// The number before its first event.
    pub first_seq: i64,
    /// Of its newest `done`. A run that goes on after one has closed an earlier turn with it.
    pub done_seq: Option<i64>,
    pub has_ended: bool,
}

/// The events of a run that `owner` may see (as [`get_visible`]), and where its log begins and ends, in one query: after a restart,
/// all readers ask at once.
pub async fn span(pool: &Pool, owner: Owner, id: Uuid) -> Result<Option<(Span, LogEnds)>, HotError> {
    let sql = "select r.id, r.root_run_id, r.log_id, r.first_seq, r.done_seq, r.state, l.last_seq, l.oldest_seq
               from kb.agent_runs r join stream.log_ends l on l.log_id = r.log_id
               where r.id = $1 and r.project_id = $2
                 and (r.conversation_id is null
                      or exists (select from kb.chat_conversations c where c.id = r.conversation_id and c.owner_user_id = $3))";
    let found = log::look(pool, owner, sql, &[&id, &owner.project_id, &owner.user_id]).await?;
    Ok(found.map(|(ends, row)| {
        let span = Span {
            run_id: row.get(0),
            root_run_id: row.get(1),
            log_id: row.get(2),
            first_seq: row.get(3),
            done_seq: row.get(4),
            has_ended: RunState::parse(row.get(5)).is_some_and(RunState::has_ended),
        };
        (span, ends)
    }))
}

/// A run that `owner` may see: of the project, and, where it belongs to a conversation, of the conversation's owner.
pub async fn get_visible(db: impl PgExecutor<'_>, owner: Owner, id: Uuid) -> Result<Option<Run>, sqlx::Error> {
    sqlx::query_as!(
        Run,
        "select r.* from kb.agent_runs r
         where r.id = $1 and r.project_id = $2
           and (r.conversation_id is null
                or exists (select from kb.chat_conversations c where c.id = r.conversation_id and c.owner_user_id = $3))",
        id,
        owner.project_id,
        owner.user_id
    )
    .fetch_optional(db)
    .await
}

/// What a list of runs may be narrowed to.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub state: Option<RunState>,
    pub conversation_id: Option<Uuid>,
    pub agent_definition_id: Option<Uuid>,
    pub root_run_id: Option<Uuid>,
}

/// A page of a project's runs that `owner` may see, newest first, after the cursor (created_at, id).
pub async fn list_visible(
    db: impl PgExecutor<'_>,
    owner: Owner,
    filter: &RunFilter,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Run>, sqlx::Error> {
    let (at, id) = after.unzip();
    sqlx::query_as!(
        Run,
        "select r.* from kb.agent_runs r
         where r.project_id = $1
           and (r.conversation_id is null
                or exists (select from kb.chat_conversations c where c.id = r.conversation_id and c.owner_user_id = $2))
           and ($3::timestamptz is null or (r.created_at, r.id) < ($3, $4))
           and ($5::text is null or r.state = $5)
           and ($6::uuid is null or r.conversation_id = $6)
           and ($7::uuid is null or r.agent_definition_id = $7)
           and ($8::uuid is null or r.root_run_id = $8)
         order by r.created_at desc, r.id desc
         limit $9",
        owner.project_id,
        owner.user_id,
        at,
        id,
        filter.state.map(RunState::as_str),
        filter.conversation_id,
        filter.agent_definition_id,
        filter.root_run_id,
        limit
    )
    .fetch_all(db)
    .await
}

/// The runs that a run started.
pub async fn children(db: impl PgExecutor<'_>, id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.agent_runs where parent_run_id = $1 order by created_at, id",
        id
    )
    .fetch_all(db)
    .await
}

/// Of `ids`, those that somebody asked to cancel: what a worker's executors look for when no wake-up comes.
pub async fn cancel_requested(db: impl PgExecutor<'_>, ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.agent_runs where id = any($1) and cancel_requested_at is not null",
        ids
    )
    .fetch_all(db)
    .await
}

/// The runs of a conversation that have not ended, oldest first.
pub async fn active_of_conversation(db: &mut PgConnection, conversation_id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.agent_runs where conversation_id = $1 and state in ('queued', 'running', 'waiting')
         order by created_at, id",
        conversation_id
    )
    .fetch_all(db)
    .await
}
