//! Runs: one execution of an agent, of one or many attempts.
//!
//! State machine: queued -> running -> (waiting -> queued)* -> completed | failed | cancelled | paused; a paused one
//! may be resumed (-> queued). Commands make every change after `queued`, under the fence of the job's attempt or the
//! lock of the log.
//!
//! A sub-agent's run shares its root's log: every change of a run in a tree holds that log's lock.

/// A query for whole runs: what precedes the columns, what follows them, then the arguments.
#[macro_export]
macro_rules! run_query {
    ($head:literal, $tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            $crate::runs::Run,
            // Not null, also where the rows are those of a function.
            $head + r#" id as "id!", project_id as "workspace_id!", conversation_id, user_id, agent_definition_id,
             agent_name, parent_run_id, root_run_id as "root_run_id!", depth as "depth!", log_id as "log_id!", message_id,
             input as "input!", state as "state!", cancel_requested_at, attempt as "attempt!", model,
             step_count as "step_count!", total_steps as "total_steps!", first_seq as "first_seq!", safe_seq,
             done_seq, summary, error, error_code, usage as "usage!", final_message_id, timeout_s,
             created_at as "created_at!", started_at, finished_at, spawn_call_id, spawn_position,
             turn_step as "turn_step!", waiting_since, waited_s as "waited_s!", questions_open as "questions_open!",
             questions_since, person_s as "person_s!", tree_tokens as "tree_tokens!", tree_cost_usd as "tree_cost_usd!",
             tree_runs as "tree_runs!", task_id, forked_from_run_id, forked_from_step, routing, context, part,
             output_schema, traceparent, agent_version, requested_model "# + $tail
            $(, $argument)*
        )
    };
}

pub mod by_change;
mod clocks;
mod listed;
pub mod part;
pub mod resuming;
pub mod throughput;

pub use clocks::{Clocks, TreeUse, clocks};
pub use listed::{Listed, ListedPage, Place, RunFilter, RunHead, RunOrder, list, maker_of};

use chrono::{DateTime, Utc};
use deadpool_postgres::Pool;
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::contexts::Context;
use rejoin_db::PgError;
use rejoin_event_log::log::{self, LogEnds};
use rejoin_types::events::{DoneStatus, Event, Kind};
use rejoin_types::owner::Owner;

use part::Part;

rejoin_types::text_enum! {
    pub enum RunState {
        Queued = "queued",
        Running = "running",
        /// Waits for sub-agents, a user or a time; holds no worker slot.
        Waiting = "waiting",
        /// Ended by a limit; can be resumed.
        Paused = "paused",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

/// The state of a run that ended so.
impl From<DoneStatus> for RunState {
    fn from(status: DoneStatus) -> RunState {
        match status {
            DoneStatus::Completed => RunState::Completed,
            DoneStatus::Failed => RunState::Failed,
            DoneStatus::Cancelled => RunState::Cancelled,
            DoneStatus::Paused => RunState::Paused,
        }
    }
}

impl RunState {
    /// Returns whether its turn has ended with `done`.
    pub fn has_ended(self) -> bool {
        match self {
            RunState::Queued | RunState::Running | RunState::Waiting => false,
            RunState::Paused | RunState::Completed | RunState::Failed | RunState::Cancelled => true,
        }
    }
}

/// Sets the model of a run without an agent.
pub async fn set_model(db: impl PgExecutor<'_>, id: Uuid, model: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("update kb.agent_runs set model = $2 where id = $1", id, model)
        .execute(db)
        .await?;
    Ok(())
}

/// Sets the message that a new run answers.
pub async fn set_message(db: &mut PgConnection, id: Uuid, message_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!("update kb.agent_runs set message_id = $2 where id = $1", id, message_id)
        .execute(db)
        .await?;
    Ok(())
}

/// Sets the model that the user has chosen for a new run.
pub async fn request_model(db: &mut PgConnection, id: Uuid, model: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("update kb.agent_runs set requested_model = $2 where id = $1", id, model)
        .execute(db)
        .await?;
    Ok(())
}

/// A run as stored.
#[derive(Debug, Clone)]
pub struct Run {
    pub id: Uuid,
    pub workspace_id: Uuid,
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
    /// The parent's call that started it, and its position there.
    pub spawn_call_id: Option<Uuid>,
    pub spawn_position: Option<i32>,
    /// Number of steps before this turn.
    pub turn_step: i32,
    pub waiting_since: Option<DateTime<Utc>>,
    /// Waiting time in this turn, in seconds.
    pub waited_s: f64,
    /// For the root's tree: the number of open questions, since when one is open, and the total time with one, in
    /// seconds.
    pub questions_open: i32,
    pub questions_since: Option<DateTime<Utc>>,
    pub person_s: f64,
    /// For the root's tree.
    pub tree_tokens: i64,
    pub tree_cost_usd: f64,
    pub tree_runs: i32,
    /// The task that it executes or decides about.
    pub task_id: Option<Uuid>,
    /// The run from which it was forked, up to this step.
    pub forked_from_run_id: Option<Uuid>,
    pub forked_from_step: Option<i32>,
    /// The assignment of its agent, if made by routing.
    pub routing: Option<Value>,
    /// Its context: a [`crate::contexts::Context`].
    pub context: Option<Value>,
    /// Its role in a plan: a [`Part`].
    pub part: Option<Value>,
    /// The JSON Schema that its answer must match.
    pub output_schema: Option<Value>,
    /// The span that started it, as `traceparent`.
    pub traceparent: Option<String>,
    /// The version of its agent when it was made, or when the agent took over.
    pub agent_version: Option<i32>,
    /// The model that its user has chosen instead of the agent's.
    pub requested_model: Option<String>,
}

/// `source` of a sub-agent's events.
pub const SOURCE_SUB_AGENT: &str = "sub_agent";

impl Run {
    pub fn state(&self) -> RunState {
        self.state
            .parse()
            .expect("the table's check constraint allows only known states")
    }

    /// Returns whether another run started it.
    pub fn is_sub_agent(&self) -> bool {
        self.parent_run_id.is_some()
    }

    /// Returns whether it answers a model call of a user's program: a run started it, and it has no agent. (A run whose agent was deleted does
    /// not begin.)
    pub fn is_model_call(&self) -> bool {
        self.is_sub_agent() && self.agent_definition_id.is_none()
    }

    /// Returns its context. None: none was ever set.
    pub fn about(&self) -> Option<Context> {
        Context::stored(self.context.as_ref())
    }

    /// Returns its role in a plan.
    pub fn part(&self) -> Option<Part> {
        Part::stored(self.part.as_ref())
    }

    /// Returns an event of this run, marked if it is a sub-agent's.
    pub fn event(&self, kind: Kind) -> Event {
        let is_sub_agent = self.is_sub_agent();
        let part = self.part();
        let (source, step_number) = match &part {
            Some(part @ Part::PlanStep { step_number, .. }) => (Some(part.source()), Some(*step_number)),
            Some(part @ (Part::Planner | Part::Suggestion)) => (Some(part.source()), None),
            None => (is_sub_agent.then_some(SOURCE_SUB_AGENT), None),
        };
        // `meta` itself names its agent.
        let is_named = matches!(kind, Kind::Meta { .. });
        Event {
            agent: self.agent_name.clone().filter(|_| is_sub_agent && !is_named),
            parent_run_id: self.parent_run_id,
            source: source.map(str::to_owned),
            step_number,
            ..Event::of(self.id, kind)
        }
    }

    /// Returns what the events of this run have besides their type, as JSON.
    pub fn event_fields(&self) -> String {
        let token = String::new();
        let mut fields = serde_json::json!(self.event(Kind::Token { token }));
        for name in ["type", "token"] {
            fields.as_object_mut().expect("an event is an object").remove(name);
        }
        fields.to_string()
    }
}

/// A run to be queued.
pub struct NewRun<'a> {
    pub id: Uuid,
    /// None: a top-level run.
    pub spawned: Option<Spawned>,
    pub workspace_id: Uuid,
    pub conversation_id: Option<Uuid>,
    pub user_id: Option<Uuid>,
    pub agent_definition_id: Option<Uuid>,
    pub agent_name: Option<&'a str>,
    pub log_id: Uuid,
    pub message_id: Option<Uuid>,
    pub input: &'a str,
    pub first_seq: i64,
    pub timeout_s: Option<i32>,
    /// The task that it executes or decides about.
    pub task_id: Option<Uuid>,
    /// The JSON Schema that its answer must match; none: its definition's, if any.
    pub output_schema: Option<&'a Value>,
    /// The span that started it, as `traceparent`; none: that of its parent, or of the run whose call created its task's DAG.
    pub traceparent: Option<&'a str>,
}

/// The origin of a sub-agent.
#[derive(Debug, Clone, Copy)]
pub struct Spawned {
    pub parent_run_id: Uuid,
    pub root_run_id: Uuid,
    pub depth: i32,
    pub call_id: Uuid,
    pub position: i32,
}

/// Inserts a run, as [`insert_many`] does.
pub async fn insert(db: &mut PgConnection, run: NewRun<'_>) -> Result<(), sqlx::Error> {
    insert_many(db, &[run]).await
}

/// Inserts runs. Each inherits the context of its parent, or of the run whose call created its task's DAG.
pub async fn insert_many(db: &mut PgConnection, runs: &[NewRun<'_>]) -> Result<(), sqlx::Error> {
    fn column<'a, T>(runs: &'a [NewRun<'a>], of: impl Fn(&'a NewRun<'a>) -> T) -> Vec<T> {
        runs.iter().map(of).collect()
    }
    let spawned = |of: fn(Spawned) -> Uuid| column(runs, |run| run.spawned.map(of));
    sqlx::query!(
        "insert into kb.agent_runs (id, project_id, conversation_id, user_id, agent_definition_id, agent_name, root_run_id,
                                    log_id, message_id, input, first_seq, timeout_s,
                                    parent_run_id, depth, spawn_call_id, spawn_position, task_id, context, output_schema,
                                    traceparent)
         select n.id, n.project_id, n.conversation_id, n.user_id, n.agent_definition_id, n.agent_name, coalesce(n.root_run_id, n.id),
                n.log_id, n.message_id, n.input, n.first_seq, n.timeout_s,
                n.parent_run_id, n.depth, n.spawn_call_id, n.spawn_position, n.task_id,
                coalesce((select context from kb.agent_runs where id = n.parent_run_id),
                         (select r.context from kb.tasks t join kb.task_dags d on d.id = t.dag_id
                          join kb.agent_run_tool_calls c on c.id = d.waiting_call_id
                          join kb.agent_runs r on r.id = c.run_id where t.id = n.task_id)),
                coalesce(n.output_schema, (select nullif(config -> 'outputSchema', 'null') from kb.agent_definitions
                                           where id = n.agent_definition_id and flow_type = 'single')),
                coalesce(n.traceparent, (select traceparent from kb.agent_runs where id = n.parent_run_id),
                         (select r.traceparent from kb.tasks t join kb.task_dags d on d.id = t.dag_id
                          join kb.agent_run_tool_calls c on c.id = d.waiting_call_id
                          join kb.agent_runs r on r.id = c.run_id where t.id = n.task_id))
         from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::uuid[], $8::uuid[], $9::uuid[],
                     $10::text[], $11::bigint[], $12::int[], $13::uuid[], $14::int[], $15::uuid[], $16::int[], $17::uuid[],
                     $18::jsonb[], $19::text[])
              n(id, project_id, conversation_id, user_id, agent_definition_id, agent_name, root_run_id, log_id, message_id,
                input, first_seq, timeout_s, parent_run_id, depth, spawn_call_id, spawn_position, task_id,
                output_schema, traceparent)",
        &column(runs, |run| run.id),
        &column(runs, |run| run.workspace_id),
        &column(runs, |run| run.conversation_id) as _,
        &column(runs, |run| run.user_id) as _,
        &column(runs, |run| run.agent_definition_id) as _,
        &column(runs, |run| run.agent_name) as _,
        &spawned(|spawned| spawned.root_run_id) as _,
        &column(runs, |run| run.log_id),
        &column(runs, |run| run.message_id) as _,
        &column(runs, |run| run.input) as _,
        &column(runs, |run| run.first_seq),
        &column(runs, |run| run.timeout_s) as _,
        &spawned(|spawned| spawned.parent_run_id) as _,
        &column(runs, |run| run.spawned.map_or(0, |spawned| spawned.depth)),
        &spawned(|spawned| spawned.call_id) as _,
        &column(runs, |run| run.spawned.map(|spawned| spawned.position)) as _,
        &column(runs, |run| run.task_id) as _,
        &column(runs, |run| run.output_schema) as _,
        &column(runs, |run| run.traceparent) as _,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Records how a run's agent was assigned.
pub async fn set_routing(db: &mut PgConnection, id: Uuid, routing: &Value) -> Result<(), sqlx::Error> {
    sqlx::query!("update kb.agent_runs set routing = $2 where id = $1", id, routing)
        .execute(db)
        .await?;
    Ok(())
}

/// Records the source and step of a fork: its counters continue from there.
pub async fn set_fork(db: &mut PgConnection, id: Uuid, of: Uuid, step: i32) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_runs
         set forked_from_run_id = $2, forked_from_step = $3, turn_step = $3, step_count = $3, total_steps = $3
         where id = $1",
        id,
        of,
        step
    )
    .execute(db)
    .await?;
    Ok(())
}

pub async fn get(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<Run>, sqlx::Error> {
    run_query!("select", "from kb.agent_runs r where id = $1", id)
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
    /// The number of its newest `done`. For a resumed run, that of an earlier turn.
    pub done_seq: Option<i64>,
    pub has_ended: bool,
}

/// Returns the event range of a run that `owner` may see (like [`get_visible`]), and the ends of its log, in one query:
/// after a restart, all readers ask at once.
pub async fn span(pool: &Pool, owner: Owner, id: Uuid) -> Result<Option<(Span, LogEnds)>, PgError> {
    let sql = "select r.id, r.root_run_id, r.log_id, r.first_seq, r.done_seq, r.state, l.last_seq, l.oldest_seq, l.archived_seq
               from kb.agent_runs r join stream.log_ends l on l.log_id = r.log_id
               where r.id = $1 and r.project_id = $2
                 and (r.conversation_id is null and coalesce(r.user_id = $3, true)
                      or exists (select from kb.chat_conversations c where c.id = r.conversation_id and c.owner_user_id = $3))";
    let found = log::query_one_with_ends(pool, owner, sql, &[&id, &owner.workspace_id, &owner.user_id]).await?;
    Ok(found.map(|(ends, row)| {
        let span = Span {
            run_id: row.get(0),
            root_run_id: row.get(1),
            log_id: row.get(2),
            first_seq: row.get(3),
            done_seq: row.get(4),
            has_ended: row.get::<_, &str>(5).parse().is_ok_and(RunState::has_ended),
        };
        (span, ends)
    }))
}

/// Returns a run that `owner` may see: one of their conversations, or one that they made outside a conversation. A run
/// without a maker is visible to the whole workspace.
pub async fn get_visible(db: impl PgExecutor<'_>, owner: Owner, id: Uuid) -> Result<Option<Run>, sqlx::Error> {
    run_query!("select", "from kb.agent_runs r where r.id = $1 and r.project_id = $2
           and (r.conversation_id is null and coalesce(r.user_id = $3, true)
                or exists (select from kb.chat_conversations c where c.id = r.conversation_id and c.owner_user_id = $3))",
        id,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_optional(db)
    .await
}

/// Returns a run and its descendants, parents first, then by age.
pub async fn tree(db: impl PgExecutor<'_>, id: Uuid, limit: i64) -> Result<Vec<Run>, sqlx::Error> {
    run_query!(
        "with recursive tree as (
               select id from kb.agent_runs where id = $1
               union all
               select c.id from kb.agent_runs c join tree t on c.parent_run_id = t.id)
           select",
        "from kb.agent_runs where id in (select id from tree) order by depth, created_at, id limit $2",
        id,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns the runs started by a run.
pub async fn children(db: impl PgExecutor<'_>, id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.agent_runs where parent_run_id = $1 order by created_at, id",
        id
    )
    .fetch_all(db)
    .await
}

/// Returns the runs started by a call, in its order.
pub async fn spawned_by(db: impl PgExecutor<'_>, call_id: Uuid) -> Result<Vec<Run>, sqlx::Error> {
    run_query!(
        "select",
        "from kb.agent_runs r where spawn_call_id = $1 order by spawn_position",
        call_id
    )
    .fetch_all(db)
    .await
}

/// Returns those of `ids` with a requested cancellation: polled by workers if no wake-up arrives.
pub async fn cancel_requested(db: impl PgExecutor<'_>, ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.agent_runs where id = any($1) and cancel_requested_at is not null",
        ids
    )
    .fetch_all(db)
    .await
}

/// Returns the active turns of a conversation, oldest first.
pub async fn active_of_conversation(db: &mut PgConnection, conversation_id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.agent_runs
         where conversation_id = $1 and parent_run_id is null and state in ('queued', 'running', 'waiting')
         order by created_at, id",
        conversation_id
    )
    .fetch_all(db)
    .await
}
