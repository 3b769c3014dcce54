//! Steps of a call of a user's program (docs/reference/worker-protocol.md): what its function has done, and what it waits for. Recorded once,
//! so that a function that begins again gets the results of its earlier execution.
//!
//! A call waits for a time or a signal by itself. For a question or an agent it is `suspended`: its run begins them, and stores what became of
//! them ([`answer`]).

use rejoin_event_log::wakeup::Wake;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::model_calls::ModelCall;

/// Maximum number of steps of one call.
pub const MAX_STEPS: i32 = 1_000;
/// Maximum size of a step's output, and of what a step asks for, in bytes of JSON.
pub const STEP_MAX_BYTES: usize = 256 * 1024;
/// The kind of a model call on the wire. Its run is started like that of an agent, so it is stored as one.
const MODEL: &str = "model";

rejoin_types::text_enum! {
    /// Who executes a step.
    pub enum StepKind {
        /// The program.
        Function = "function",
        /// The call waits until a time.
        Sleep = "sleep",
        /// Another program, which sends a signal.
        Event = "event",
        /// A user, who is asked by the run.
        Question = "question",
        /// An agent, or a language model, for which the run starts another one.
        Agent = "agent",
    }
}

rejoin_types::text_enum! {
    /// The state of a step.
    pub enum StepStatus {
        /// Its run has not begun it.
        Requested = "requested",
        Begun = "begun",
        Completed = "completed",
        Error = "error",
    }
}

/// A step as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteStep {
    pub number: i32,
    pub name: String,
    pub kind: String,
    pub status: String,
    /// What is waited for.
    pub request: Option<Value>,
    pub output: Option<Value>,
    pub error: Option<String>,
    /// The question, or the run of the agent or the model call.
    pub reference: Option<Uuid>,
}

impl RemoteStep {
    pub fn kind(&self) -> StepKind {
        self.kind
            .parse()
            .expect("the table's check constraint allows only known kinds")
    }

    /// Returns what it asks a language model. None: it asks none.
    pub fn model_call(&self) -> Option<ModelCall> {
        self.request.as_ref().and_then(ModelCall::of)
    }

    /// Returns its kind as programs know it: that of a model call is `model`.
    pub fn wire_kind(&self) -> &str {
        match self.model_call() {
            Some(_) => MODEL,
            None => &self.kind,
        }
    }

    pub fn status(&self) -> StepStatus {
        self.status
            .parse()
            .expect("the table's check constraint allows only known states")
    }
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepEnd {
    pub number: i32,
    pub status: StepStatus,
    /// The question, or the agent's run.
    #[serde(rename = "ref")]
    pub reference: Option<Uuid>,
    pub output: Option<Value>,
    pub error: Option<String>,
}

impl StepEnd {
    /// It was begun, as this question or run.
    pub fn begun(number: i32, reference: Uuid) -> Self {
        Self {
            number,
            status: StepStatus::Begun,
            reference: Some(reference),
            output: None,
            error: None,
        }
    }

    pub fn completed(number: i32, output: Value) -> Self {
        Self {
            number,
            status: StepStatus::Completed,
            reference: None,
            output: Some(output),
            error: None,
        }
    }

    pub fn failed(number: i32, error: String) -> Self {
        Self {
            number,
            status: StepStatus::Error,
            reference: None,
            output: None,
            error: Some(error),
        }
    }
}

/// Returns a page of the steps of a call, in order, after this number.
pub async fn list(
    db: impl PgExecutor<'_>,
    call_id: Uuid,
    after: i32,
    limit: i64,
) -> Result<Vec<RemoteStep>, sqlx::Error> {
    sqlx::query_as!(
        RemoteStep,
        r#"select number, name, kind, status, request, output, error, ref as reference
           from kb.remote_steps where call_id = $1 and number > $2 order by number limit $3"#,
        call_id,
        after,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns the steps that the run of a suspended call is to begin, or has begun.
pub async fn open(db: impl PgExecutor<'_>, call_id: Uuid) -> Result<Vec<RemoteStep>, sqlx::Error> {
    sqlx::query_as!(
        RemoteStep,
        r#"select number, name, kind, status, request, output, error, ref as reference
           from kb.remote_steps
           where call_id = $1 and kind in ('question', 'agent') and status in ('requested', 'begun') order by number"#,
        call_id
    )
    .fetch_all(db)
    .await
}

/// Stores what became of steps of a suspended call. If all have ended, the call is handed out again: the wake-up for the workers of its queue.
/// The caller holds the log's lock.
pub async fn answer(db: &mut PgConnection, call_id: Uuid, ends: &[StepEnd]) -> Result<Wake, sqlx::Error> {
    let queue = sqlx::query_scalar!("select kb.answer_remote_steps($1, $2) as queue", call_id, json!(ends))
        .fetch_one(db)
        .await?;
    Ok(queue.map(Wake::queue).unwrap_or_default())
}
