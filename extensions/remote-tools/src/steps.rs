//! Steps of calls, as a program records them, and the signals that it waits for. What a run does for a call is in `rejoin_runs::remote_steps`.

use rejoin_db::rls::{self, Scope};
use rejoin_db::{Db, PgError};
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::remote_calls::MAX_ATTEMPTS;
use rejoin_runs::remote_steps::StepStatus;
use rejoin_types::ids;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Whether a step was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    Recorded,
    /// The attempt does not have the call.
    Stale,
    /// Another step has this number.
    Changed,
    /// The call has no run, which only could begin the step.
    Outside,
}

impl Recorded {
    /// From the outcome of the SQL functions.
    pub(crate) fn of(outcome: Option<&str>) -> Self {
        match outcome {
            Some("recorded") => Self::Recorded,
            Some("changed") => Self::Changed,
            Some("outside") => Self::Outside,
            Some(_) | None => Self::Stale,
        }
    }
}

/// A step that the program executes.
#[derive(Debug, Serialize)]
pub struct FunctionStep<'a> {
    pub number: i32,
    pub name: &'a str,
    pub status: StepStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

/// Records that a step of a function begins, or how it has ended.
pub async fn record(
    db: &mut PgConnection,
    call_id: Uuid,
    attempt: i32,
    step: &FunctionStep<'_>,
) -> Result<Recorded, sqlx::Error> {
    let outcome = sqlx::query_scalar!(
        "select kb.record_remote_step($1, $2, $3, $4, $5, $6, $7, $8)",
        call_id,
        attempt,
        step.number,
        step.name,
        step.status.as_str(),
        step.output as _,
        step.error as _,
        MAX_ATTEMPTS
    )
    .fetch_one(db)
    .await?;
    Ok(Recorded::of(outcome.as_deref()))
}

/// What became of a step that [`record_of_worker`] was to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempted {
    Done(Recorded),
    /// Text of the step is to be kept or discarded first; nothing was done.
    Unchecked,
}

/// The same for a worker's attempt. None: there is no such call. One statement, which may be repeated.
pub async fn record_of_worker(
    db: &Db,
    scope: Scope,
    call_id: Uuid,
    (worker_id, attempt): (Uuid, i32),
    step: &FunctionStep<'_>,
) -> Result<Option<Attempted>, PgError> {
    let call = "kb.record_step_of_worker($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let arguments: [&(dyn ToSql + Sync); 9] = [
        &call_id,
        &worker_id,
        &attempt,
        &step.number,
        &step.name,
        &step.status.as_str(),
        &step.output,
        &step.error,
        &MAX_ATTEMPTS,
    ];
    let outcome: Option<String> = rls::value_scoped(&db.pool_pg, scope, call, &arguments).await?;
    Ok(outcome.map(|outcome| match outcome.as_str() {
        "unchecked" => Attempted::Unchecked,
        outcome => Attempted::Done(Recorded::of(Some(outcome))),
    }))
}

/// What a call waits for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitStep {
    pub number: i32,
    pub name: String,
    pub kind: &'static str,
    pub request: Value,
    /// Maximum duration of the wait. None: no limit, or what the request says.
    pub seconds: Option<f64>,
}

/// Hands a call back until its steps have ended. With the wake-up for the workers of its run.
pub async fn suspend(
    db: &mut PgConnection,
    call_id: Uuid,
    attempt: i32,
    steps: &[WaitStep],
) -> Result<(Recorded, Wake), sqlx::Error> {
    let suspended = sqlx::query!(
        r#"select outcome as "outcome!", resumed as "resumed!" from kb.suspend_remote_call($1, $2, $3)"#,
        call_id,
        attempt,
        json!(steps)
    )
    .fetch_optional(db)
    .await?;
    Ok(match suspended {
        Some(suspended) if suspended.resumed => (
            Recorded::of(Some(&suspended.outcome)),
            Wake::queue(rejoin_queue::DEFAULT_QUEUE),
        ),
        Some(suspended) => (Recorded::of(Some(&suspended.outcome)), Wake::default()),
        None => (Recorded::Stale, Wake::default()),
    })
}

/// What became of a signal.
#[derive(Debug)]
pub enum Signalled {
    /// A function that waited for it goes on.
    Delivered(Wake),
    /// The next function that waits for it gets it.
    Stored,
    /// The run has ended, or has too many signals.
    Refused,
}

/// Sends a signal to a run, which the caller may see. `max`: of those that are stored.
pub async fn signal(
    db: &mut PgConnection,
    run_id: Uuid,
    name: &str,
    data: &Value,
    max: i32,
) -> Result<Signalled, sqlx::Error> {
    let signalled = sqlx::query_scalar!(
        "select queue from kb.signal_run($1, $2, $3, $4, $5)",
        ids::new(),
        run_id,
        name,
        data,
        max
    )
    .fetch_optional(db)
    .await?;
    Ok(match signalled {
        Some(Some(queue)) => Signalled::Delivered(Wake::queue(queue)),
        Some(None) => Signalled::Stored,
        None => Signalled::Refused,
    })
}
