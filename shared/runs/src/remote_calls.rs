//! Calls of remote tools: each has a job of the kind [`KIND`] in the queue of its tool's version, and its worker takes it over HTTP
//! (docs/reference/worker-protocol.md). A run that asked for one waits, as for a question.
//!
//! Invariant: a call is `running` before its worker gets it, and every change of it names the attempt that has it. A call has ended exactly if
//! its job is gone. Lock order: the log, the job, the call.

use rejoin_event_log::wakeup::Wake;
use rejoin_tools::remote::Remote;
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::run_query;
use crate::runs::Run;

/// The kind of the jobs.
pub const KIND: &str = "remote_call";
/// Maximum number of attempts of a call that may be repeated after a lost worker. One that may not has one.
pub const MAX_ATTEMPTS: i32 = 5;

rejoin_types::text_enum! {
    /// The state of a call.
    pub enum RemoteStatus {
        /// No worker has it.
        Waiting = "waiting",
        /// A worker has it, or had it and was lost.
        Running = "running",
        /// It waits for its run, which asks a user or starts agents for it.
        Suspended = "suspended",
        Completed = "completed",
        Error = "error",
        /// Its worker was lost, and repeating it would not be safe.
        OutcomeUnknown = "outcome_unknown",
        Cancelled = "cancelled",
    }
}

/// A call to be added.
#[derive(Debug)]
pub struct NewRemoteCall<'a> {
    /// That of the run's tool call.
    pub id: Uuid,
    pub workspace_id: Uuid,
    /// None: called outside of runs.
    pub run_id: Option<Uuid>,
    /// The model's id of the call.
    pub call_id: &'a str,
    pub conversation_id: Option<Uuid>,
    pub tool: &'a str,
    pub remote: &'a Remote,
    pub input: &'a Value,
    /// It may be handed out again after a lost worker.
    pub repeatable: bool,
    /// It executes the turn of an agent: what its run's events have besides their type, as JSON. None: any other call.
    pub answers: Option<&'a str>,
}

impl NewRemoteCall<'_> {
    /// The wake-up for the workers of its queue.
    pub fn wake(&self) -> Wake {
        Wake::queue(queue(
            self.workspace_id,
            &self.remote.queue,
            self.tool,
            &self.remote.version,
        ))
    }

    /// As `kb.begin_remote_calls` takes it.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id, "callId": self.call_id, "queue": self.remote.queue, "tool": self.tool, "version": self.remote.version,
            "input": self.input, "outputSchema": self.remote.output_schema, "repeatable": self.repeatable,
            "timeoutS": self.remote.timeout_s, "maxAttempts": MAX_ATTEMPTS, "answers": self.answers,
        })
    }
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteCall {
    pub id: Uuid,
    pub status: String,
    pub output: Option<Value>,
    pub error: Option<String>,
}

impl RemoteCall {
    pub fn status(&self) -> RemoteStatus {
        self.status
            .parse()
            .expect("the table's check constraint allows only known states")
    }
}

/// The queue of a tool's version: `kb.remote_queue` in SQL.
pub fn queue(workspace_id: Uuid, queue: &str, tool: &str, version: &str) -> String {
    format!("remote/{workspace_id}/{queue}/{tool}/{version}")
}

/// Adds a call with its job. Returns the wake-up for the workers of its queue.
pub async fn insert(db: &mut PgConnection, call: &NewRemoteCall<'_>) -> Result<Wake, sqlx::Error> {
    sqlx::query!(
        "select kb.add_remote_call($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        call.id,
        call.workspace_id,
        call.run_id as _,
        call.call_id,
        call.conversation_id as _,
        call.remote.queue,
        call.tool,
        call.remote.version,
        call.input,
        call.remote.output_schema as _,
        call.repeatable,
        call.remote.timeout_s,
        MAX_ATTEMPTS
    )
    .execute(&mut *db)
    .await?;
    if let Some(answers) = call.answers {
        sqlx::query!(
            "update kb.remote_calls set answers = $2 where id = $1",
            call.id,
            answers
        )
        .execute(db)
        .await?;
    }
    Ok(call.wake())
}

/// Returns how far a call is. None: it was never added.
pub async fn get(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<RemoteCall>, sqlx::Error> {
    sqlx::query_as!(
        RemoteCall,
        "select id, status, output, error from kb.remote_calls where id = $1",
        id
    )
    .fetch_optional(db)
    .await
}

/// Returns how far these calls are, once all have ended or wait for their run. None: some are open.
pub async fn settled(db: impl PgExecutor<'_>, ids: &[Uuid]) -> Result<Option<Vec<RemoteCall>>, sqlx::Error> {
    let calls = sqlx::query_as!(
        RemoteCall,
        r#"select id as "id!", status as "status!", output, error from kb.settled_remote_calls($1)"#,
        ids
    )
    .fetch_all(db)
    .await?;
    Ok((calls.len() == ids.len()).then_some(calls))
}

/// Returns what the calls of a turn, those after step `turn_step` of the run, have written of its answer: what its readers have.
pub async fn written(db: impl PgExecutor<'_>, run_id: Uuid, turn_step: i32) -> Result<String, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select coalesce(string_agg(t.text, '' order by t.seq), '') as "text!"
           from kb.agent_run_tool_calls c join kb.remote_texts t on t.call_id = c.id
           where c.run_id = $1 and c.step_number > $2"#,
        run_id,
        turn_step
    )
    .fetch_one(db)
    .await
}

/// Returns what the events of a call's run have besides their type, as JSON. None: the call has no run.
pub async fn event_fields(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<String>, sqlx::Error> {
    let run = run_query!("select", "from kb.run_of_remote_call($1)", id)
        .fetch_optional(db)
        .await?;
    Ok(run.as_ref().map(Run::event_fields))
}

/// Returns the calls that a run waits for.
pub async fn open_of_run(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.remote_calls where run_id = $1 and status in ('waiting', 'running', 'suspended') order by id",
        run_id
    )
    .fetch_all(db)
    .await
}

/// A call whose last attempt was lost.
#[derive(Debug, Clone, PartialEq)]
pub struct LostCall {
    pub id: Uuid,
    pub tool: String,
    /// The name of the worker that had it.
    pub worker_name: String,
    /// Without those that handed it back to wait.
    pub attempt: i32,
    pub timeout_s: i32,
    /// It took longer than its tool may.
    pub timed_out: bool,
}

impl LostCall {
    /// What happened, for the model.
    pub fn in_words(&self) -> String {
        let Self { tool, worker_name, .. } = self;
        let what = if self.timed_out {
            format!("{tool} did not end within {} s", self.timeout_s)
        } else {
            format!("the program {worker_name}, which executed {tool}, was lost")
        };
        let repeated = if self.attempt > 1 {
            format!("It was tried {} times", self.attempt)
        } else {
            "It was not repeated".to_owned()
        };
        format!(
            "outcome unknown: {what}; the call may have taken effect. {repeated}. Check whether it took effect before you call it again."
        )
    }
}

/// Returns the call of a job whose last attempt was lost. None: it was deleted.
pub async fn lost(db: impl PgExecutor<'_>, job_id: i64) -> Result<Option<LostCall>, sqlx::Error> {
    sqlx::query_as!(
        LostCall,
        r#"select id, tool, coalesce(worker_name, '') as "worker_name!", attempt - suspensions as "attempt!", timeout_s,
                  coalesce(handed_out_at + make_interval(secs => timeout_s) < now(), false) as "timed_out!"
           from kb.remote_calls where job_id = $1 and ended_at is null"#,
        job_id
    )
    .fetch_optional(db)
    .await
}
