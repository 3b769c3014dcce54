//! The tool calls of a run. A call is recorded before it acts (invariant I7), so that a new attempt knows what may have
//! happened: `pending` has not acted, `running` may have, the others have ended.

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_types::ids;

rejoin_types::text_enum! {
    pub enum CallStatus {
        Pending = "pending",
        Running = "running",
        Completed = "completed",
        Error = "error",
        /// A worker died while the call may have been acting, and repeating it would not be safe.
        OutcomeUnknown = "outcome_unknown",
    }
}

#[derive(Debug, Clone)]
pub struct ToolCallRow {
    pub id: Uuid,
    pub run_id: Uuid,
    pub message_id: Uuid,
    pub call_id: String,
    pub step_number: i32,
    pub position: i32,
    pub tool_name: String,
    pub input: Value,
    pub output: Option<Value>,
    pub error: Option<String>,
    pub status: String,
    pub duration_ms: Option<i32>,
    pub created_at: DateTime<Utc>,
    pub started_at: Option<DateTime<Utc>>,
    pub completed_at: Option<DateTime<Utc>>,
    /// What it did to which thing: an [`Operation`](rejoin_types::events::Operation).
    pub operation: Option<Value>,
    /// What it waits for: an `AwaitedInput` of `forms`.
    pub awaited_input: Option<Value>,
}

impl ToolCallRow {
    pub fn status(&self) -> CallStatus {
        self.status
            .parse()
            .expect("the table's check constraint allows only known states")
    }
}

/// Returns the outputs of a run's completed calls of tools with the name prefix `prefix`, after a step, in order.
pub async fn outputs_of(
    db: impl PgExecutor<'_>,
    run_id: Uuid,
    prefix: &str,
    after_step: i32,
) -> Result<Vec<Value>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select output as "output!" from kb.agent_run_tool_calls
           where run_id = $1 and starts_with(tool_name, $2) and step_number > $3 and status = 'completed' and output is not null
           order by step_number, position"#,
        run_id,
        prefix,
        after_step
    )
    .fetch_all(db)
    .await
}

/// Counts steps in a conversation with calls whose ids have this prefix.
pub async fn rounds_of(db: impl PgExecutor<'_>, conversation_id: Uuid, prefix: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select count(distinct (c.run_id, c.step_number)) as "rounds!"
           from kb.agent_run_tool_calls c join kb.agent_runs r on r.id = c.run_id
           where r.conversation_id = $1 and starts_with(c.call_id, $2)"#,
        conversation_id,
        prefix
    )
    .fetch_one(db)
    .await
}

/// Returns the names of the tools that a run has called.
pub async fn names(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "select distinct tool_name from kb.agent_run_tool_calls where run_id = $1",
        run_id
    )
    .fetch_all(db)
    .await
}

/// Records that the call begins to act.
pub async fn mark_running(db: &mut PgConnection, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_run_tool_calls set status = 'running', started_at = now() where id = $1",
        id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Records what a running call waits for. None: it waits for nothing, and acts.
pub async fn await_input(db: &mut PgConnection, id: Uuid, input: Option<&Value>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_run_tool_calls set awaited_input = $2 where id = $1 and status = 'running'",
        id,
        input
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Records intermediate results of a call.
pub async fn note(db: &mut PgConnection, id: Uuid, output: &Value) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_run_tool_calls set output = $2 where id = $1",
        id,
        output
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Copies another run's calls up to a step. The run already has its messages, at the same positions.
pub async fn copy(db: &mut PgConnection, of: Uuid, run_id: Uuid, step: i32) -> Result<(), sqlx::Error> {
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.agent_run_tool_calls where run_id = $1 and step_number <= $2"#,
        of,
        step
    );
    let ids: Vec<Uuid> = (0..count.fetch_one(&mut *db).await?).map(|_| ids::new()).collect();
    sqlx::query!(
        "insert into kb.agent_run_tool_calls (id, run_id, message_id, call_id, step_number, position, tool_name, input, output, error,
                                              status, duration_ms, created_at, started_at, completed_at, operation)
         select n.id, $2, theirs.id, c.call_id, c.step_number, c.position, c.tool_name, c.input, c.output, c.error,
                c.status, c.duration_ms, c.created_at, c.started_at, c.completed_at, c.operation
         from (select *, row_number() over (order by step_number, position, id) as nth
               from kb.agent_run_tool_calls where run_id = $1 and step_number <= $3) c
         join unnest($4::uuid[]) with ordinality n(id, nth) using (nth)
         join kb.agent_run_messages mine on mine.id = c.message_id
         join kb.agent_run_messages theirs on theirs.run_id = $2 and theirs.position = mine.position",
        of,
        run_id,
        step,
        &ids
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns all calls of a run, in the model's order.
pub async fn all(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<Vec<ToolCallRow>, sqlx::Error> {
    sqlx::query_as!(
        ToolCallRow,
        "select * from kb.agent_run_tool_calls where run_id = $1 order by step_number, position",
        run_id
    )
    .fetch_all(db)
    .await
}

/// An ended call of a conversation's own agent, and the message whose turn it belongs to.
#[derive(Debug, Clone)]
pub struct CallOfTurn {
    pub message_id: Uuid,
    pub id: Uuid,
    pub run_id: Uuid,
    pub call_id: String,
    pub tool_name: String,
    pub output: Option<Value>,
    pub error: Option<String>,
    pub status: String,
    pub created_at: DateTime<Utc>,
    /// The run's role in a plan.
    pub part: Option<Value>,
}

/// Returns the calls of the turns begun by these messages, in order: the first `limit`.
pub async fn of_turns(
    db: impl PgExecutor<'_>,
    conversation_id: Uuid,
    message_ids: &[Uuid],
    limit: i64,
) -> Result<Vec<CallOfTurn>, sqlx::Error> {
    sqlx::query_as!(
        CallOfTurn,
        r#"select r.message_id as "message_id!", c.id, c.run_id, c.call_id, c.tool_name, c.output, c.error, c.status, c.created_at, r.part
           from kb.agent_runs r join kb.agent_run_tool_calls c on c.run_id = r.id
           where r.conversation_id = $1 and r.message_id = any($2) and c.status in ('completed', 'error', 'outcome_unknown')
           order by r.created_at, r.id, c.step_number, c.position limit $3"#,
        conversation_id,
        message_ids,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns a page after the cursor (step_number, position).
pub async fn list(
    db: impl PgExecutor<'_>,
    run_id: Uuid,
    after: (i32, i32),
    limit: i64,
) -> Result<Vec<ToolCallRow>, sqlx::Error> {
    sqlx::query_as!(
        ToolCallRow,
        "select * from kb.agent_run_tool_calls where run_id = $1 and (step_number, position) > ($2, $3)
         order by step_number, position limit $4",
        run_id,
        after.0,
        after.1,
        limit
    )
    .fetch_all(db)
    .await
}

pub async fn get(db: impl PgExecutor<'_>, run_id: Uuid, id: Uuid) -> Result<Option<ToolCallRow>, sqlx::Error> {
    sqlx::query_as!(
        ToolCallRow,
        "select * from kb.agent_run_tool_calls where run_id = $1 and id = $2",
        run_id,
        id
    )
    .fetch_optional(db)
    .await
}
