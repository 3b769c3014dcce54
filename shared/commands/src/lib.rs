//! Commands: each changes several nouns in ONE transaction: `commands::execute(db, &command)`, or
//! `command.apply(&mut tx)` within the caller's. After the commit the caller sends the wake-ups that the outcome names.
//!
//! - `post_message`   a user's message, its run and its job           (API)
//! - `trigger_run`    a run without a conversation                    (API)
//! - `cancel_run`     stops a run, or ends one that is still queued    (API)
//! - `delete_conversation`                                            (API)
//! - `idempotency`  idempotency keys of posts and triggers  (API)
//! - `start_run`      an attempt begins: `meta`, or `reset`           (worker)
//! - `record_step`    a model's answer and the calls it asked for     (worker)
//! - `record_tool`    a call begins to act; calls end            (worker)
//! - `record_input`   a call waits for its user's input, or goes on with it (worker)
//! - `transfer_run`   hands the run over to another agent              (worker)
//! - `suspend_run`    starts sub-agents, asks users, suspends the run (worker)
//! - `answer_question` a question is answered or expires (API, worker)
//! - `answer_client_tool` a client returns the output of a call   (API)
//! - `begin_remote_calls` calls of users' programs begin, beside their run (worker)
//! - `end_remote_call` a call of a user's program ends   (API, worker)
//! - `steer_run`      sends a message to a running run              (API)
//! - `resume_run`     resumes a paused run                            (API)
//! - `fork_run`         creates a run from another run's records        (API)
//! - `task_dag`       creates, pauses and cancels a DAG of tasks         (API, worker)
//! - `start_evaluation` creates the DAG that evaluates an agent     (API)
//! - `execute_plan`   creates, reviews and executes a plan
//! - `schedule_tasks` settles a DAG's tasks whose runs have ended, and starts the next ones
//! - `fire_schedule`  starts what a due schedule names          (worker)
//! - `finalize_run`   the steps shared by all ends of a run
//! - `finish_run`     the answer, the run's end, `done`, the job      (worker)
//!
//! Lock order, to avoid deadlocks: the job (KEY SHARE, as a fence), the log, the run, then the rest. A command without
//! a fence locks the log first.
//!
//! What a worker does for each step is one statement: a function of `migrations/0016_commands.up.sql`, which may be
//! repeated ([`Command::is_one_statement`]).

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use tokio::time::Instant;

use rejoin_db::rls;
use rejoin_faults::Fault;

pub mod answer_client_tool;
pub mod answer_question;
pub mod begin_remote_calls;
pub mod cancel_run;
pub mod delete_conversation;
pub mod end_remote_call;
mod execute_plan;
mod finalize_run;
pub mod finish_run;
pub mod fire_schedule;
pub mod fork_run;
pub mod idempotency;
pub mod post_message;
pub mod record_input;
pub mod record_step;
pub mod record_tool;
pub mod resume_run;
mod run_end;
mod schedule_tasks;
pub mod start_evaluation;
pub mod start_run;
pub mod steer_run;
pub mod suspend_run;
pub mod task_dag;
pub mod transfer_run;
pub mod trigger_run;

pub use answer_client_tool::{AnswerClientTool, AnsweredTool, answer_client_tool};
pub use answer_question::{AnswerError, CloseQuestion, Closing};
pub use begin_remote_calls::BeginRemoteCalls;
pub use cancel_run::CancelRun;
pub use delete_conversation::DeleteConversation;
pub use end_remote_call::{EndRemoteCall, EndedRemoteCall, RemoteEnd};
pub use execute_plan::Review;
pub use finish_run::{FinishRun, Finished, RunError};
pub use fire_schedule::{FireSchedule, Fired};
pub use fork_run::{ForkError, ForkRun};
pub use idempotency::{Idempotency, run_of_key};
pub use post_message::{HISTORY_MAX, HistoryMessage, OnBusy, PostError, PostMessage, Posted};
pub use record_input::RecordInput;
pub use record_step::{AskedCall, RecordStep, Recorded};
pub use record_tool::{EndRecorded, EndedCall, ToolStarted, ToolsEnded};
pub use resume_run::{ResumeError, ResumeRun, Resumed};
pub use start_evaluation::StartEvaluation;
pub use start_run::{Begun, StartRun, Started};
pub use steer_run::{SteerError, SteerRun, Steered};
pub use suspend_run::{CLARIFYING, NewTasks, PlanAhead, Reviewer};
pub use suspend_run::{
    Deferred, DeferredWhat, NewSpawn, NewStep, SpawnItem, SpawnLimits, SpawnWhat, StepWhat, SuspendRun, Suspended,
};
pub use task_dag::{ChangeDag, CreateDag, DagChange, DagError, cancel_dag};
pub use transfer_run::TransferRun;
pub use trigger_run::TriggerRun;

/// A command. Applying it joins the caller's transaction; [`execute`] runs it in its own.
pub trait Command: Sync {
    type Output: Send;
    type Error: CommandError;

    fn apply(&self, db: &mut PgConnection) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;

    /// Returns whether an unanswered COMMIT with the result `output` took effect: looked up by the data that it would
    /// have left. (Not by its transaction id: a server crash reuses unflushed ids.) Also false if repeating it has no
    /// further effect.
    fn happened(
        &self,
        _db: &mut PgConnection,
        _output: &Self::Output,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send {
        async { Ok(false) }
    }

    /// Returns whether [`apply`](Self::apply) writes with one statement, the repetition of which has no further effect.
    /// It then needs neither BEGIN nor COMMIT, and is repeated until it is answered.
    fn is_one_statement(&self) -> bool {
        false
    }

    /// Called after the commit.
    fn committed(&self) {}
}

/// An error of a command, as far as retries are concerned.
pub trait CommandError: From<sqlx::Error> + Send {
    /// The underlying database error, if any.
    fn database(&self) -> Option<&sqlx::Error>;
}

impl CommandError for sqlx::Error {
    fn database(&self) -> Option<&sqlx::Error> {
        Some(self)
    }
}

impl CommandError for PostError {
    fn database(&self) -> Option<&sqlx::Error> {
        match self {
            PostError::Database(error) => Some(error),
            PostError::ConversationNotFound
            | PostError::DefinitionNotFound
            | PostError::Busy { .. }
            | PostError::KeyReused
            | PostError::Unfit { .. }
            | PostError::Files(_)
            | PostError::Unreadable(_)
            | PostError::Exhausted(_) => None,
        }
    }
}

impl CommandError for FencedError {
    fn database(&self) -> Option<&sqlx::Error> {
        match self {
            FencedError::Database { source, .. } => Some(source),
            FencedError::LeaseLost => None,
        }
    }
}

/// Maximum number of attempts while the database is unreachable or reports deadlocks.
const TRIES: u32 = 5;
/// The delay after the first failure; doubled each time.
const RETRY: Duration = Duration::from_millis(50);

/// How long a worker's command waits for an unreachable database: longer than failovers take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Maximum delay between its attempts.
const PATIENT_RETRY_MAX: Duration = Duration::from_millis(500);

/// Runs a command in its own transaction, without restriction to a user: for workers and operators.
pub async fn execute<C: Command>(db: &PgPool, command: &C) -> Result<C::Output, C::Error> {
    execute_for(db, rls::Scope::System, command).await
}

/// Runs a command in its own transaction, on behalf of a user. Transient failures are retried. A COMMIT with a lost
/// response is looked up: it is neither repeated nor reported as failed if it took effect (F7).
pub async fn execute_for<C: Command>(db: &PgPool, scope: rls::Scope, command: &C) -> Result<C::Output, C::Error> {
    let mut wait = RETRY;
    let mut tries = 1;
    loop {
        let error = match try_execute(db, scope, command).await {
            Ok(output) => return Ok(output),
            // It may have taken effect: repeating it could apply it twice.
            Err(Failed::Unknown(unknown)) => return Err(unknown.error.into()),
            Err(Failed::NotDone(error)) => error,
        };
        let again = tries < TRIES && error.database().is_some_and(rejoin_db::is_transient);
        if !again {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
        tries += 1;
    }
}

/// The same for a worker, without a waiting client: it waits for an unreachable database, so that its run can continue.
/// The fence decides whether its attempt is still valid.
pub async fn execute_patiently<C: Command>(db: &PgPool, command: &C) -> Result<C::Output, C::Error> {
    let output = try_patiently(db, command).await?;
    command.committed();
    Ok(output)
}

async fn try_patiently<C: Command>(db: &PgPool, command: &C) -> Result<C::Output, C::Error> {
    let give_up = Instant::now() + PATIENCE;
    let mut wait = RETRY;
    let mut unknown: Option<Unknown<C::Output>> = None;
    loop {
        let error = match unknown.take() {
            // First look up its outcome.
            Some(earlier) => match look_up(db, rls::Scope::System, command, earlier).await {
                Ok(LookedUp::Happened(output)) => return Ok(output),
                Ok(LookedUp::NotDone(error)) => error.into(),
                Err(still) if Instant::now() >= give_up => return Err(still.error.into()),
                Err(still) => {
                    unknown = Some(still);
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(PATIENT_RETRY_MAX);
                    continue;
                }
            },
            None => match try_execute(db, rls::Scope::System, command).await {
                Ok(output) => return Ok(output),
                Err(Failed::NotDone(error)) => error,
                Err(Failed::Unknown(earlier)) => {
                    unknown = Some(earlier);
                    continue;
                }
            },
        };
        if Instant::now() >= give_up || !error.database().is_some_and(rejoin_db::is_transient) {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(PATIENT_RETRY_MAX);
    }
}

/// The failure of a transaction.
enum Failed<C: Command> {
    /// Nothing was committed.
    NotDone(C::Error),
    /// The response to its COMMIT was lost, and its outcome could not be looked up.
    Unknown(Unknown<C::Output>),
}

/// A transaction whose COMMIT was not answered.
struct Unknown<O> {
    xid: String,
    /// The result that it would have returned.
    output: O,
    error: sqlx::Error,
}

enum LookedUp<O> {
    Happened(O),
    NotDone(sqlx::Error),
}

/// Looks up the outcome of an unanswered COMMIT. An error: it could not be determined.
async fn look_up<C: Command>(
    db: &PgPool,
    scope: rls::Scope,
    command: &C,
    unknown: Unknown<C::Output>,
) -> Result<LookedUp<C::Output>, Unknown<C::Output>> {
    let looked_up = async {
        rejoin_db::wait_until_decided(db, &unknown.xid).await?;
        // With the same scope: one that sees no rows would take it for not committed.
        let mut looking = rls::begin(db, scope).await?;
        command.happened(&mut looking, &unknown.output).await
    };
    match looked_up.await {
        Ok(true) => Ok(LookedUp::Happened(unknown.output)),
        Ok(false) => Ok(LookedUp::NotDone(unknown.error)),
        Err(error) => Err(Unknown { error, ..unknown }),
    }
}

async fn try_execute<C: Command>(db: &PgPool, scope: rls::Scope, command: &C) -> Result<C::Output, Failed<C>> {
    let not_done = |error: sqlx::Error| Failed::NotDone(error.into());
    if scope == rls::Scope::System && command.is_one_statement() && !rejoin_faults::enabled(Fault::AnswerBeforeCommit) {
        let mut connection = db.acquire().await.map_err(not_done)?;
        // Without an answer it may have taken effect; repeating it is right in either case.
        return command.apply(&mut connection).await.map_err(Failed::NotDone);
    }
    let mut tx = rls::begin(db, scope).await.map_err(not_done)?;
    let output = command.apply(&mut tx).await.map_err(Failed::NotDone)?;
    if command.is_one_statement() && !rejoin_faults::enabled(Fault::AnswerBeforeCommit) {
        tx.commit().await.map_err(not_done)?;
        return Ok(output);
    }
    let xid = sqlx::query_scalar!(r#"select pg_current_xact_id()::text as "xid!""#)
        .fetch_one(&mut *tx)
        .await
        .map_err(not_done)?;
    if rejoin_faults::enabled(Fault::AnswerBeforeCommit) {
        tokio::spawn(async move {
            tokio::time::sleep(RETRY).await;
            tx.commit().await
        });
        return Ok(output);
    }
    match tx.commit().await {
        Ok(()) => Ok(output),
        Err(error) if rejoin_db::is_transient(&error) => {
            let unknown = Unknown { xid, output, error };
            match look_up(db, scope, command, unknown).await {
                Ok(LookedUp::Happened(output)) => Ok(output),
                Ok(LookedUp::NotDone(error)) => Err(not_done(error)),
                Err(unknown) => Err(Failed::Unknown(unknown)),
            }
        }
        Err(error) => Err(not_done(error)),
    }
}

/// The reason why a worker's command had no effect.
#[derive(Debug, thiserror::Error)]
pub enum FencedError {
    /// The lease was lost: another attempt owns the run, or it has ended. Stop, and write nothing.
    #[error("the lease of the run was lost")]
    LeaseLost,
    #[error("{attempted} failed")]
    Database {
        attempted: &'static str,
        #[source]
        source: sqlx::Error,
    },
}

impl From<sqlx::Error> for FencedError {
    fn from(source: sqlx::Error) -> Self {
        FencedError::Database {
            attempted: "the transaction",
            source,
        }
    }
}

impl FencedError {
    fn database(attempted: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| FencedError::Database { attempted, source }
    }
}

/// Formats times for the wire: RFC 3339 in UTC, with microseconds.
fn wire_time(at: chrono::DateTime<chrono::Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}
