//! What a worker has to record of several calls at once: ends of steps, and outputs. One statement, in which each record counts alone.

use rejoin_commands::EndedRemoteCall;
use rejoin_db::rls::{self, Scope};
use rejoin_db::{Db, PgError};
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::remote_calls::MAX_ATTEMPTS;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::steps::{FunctionStep, Recorded};

/// What is to be recorded of a call.
#[derive(Debug)]
pub enum What<'a> {
    Step(FunctionStep<'a>),
    /// The call completes.
    Output(&'a Value),
}

/// A record of an attempt.
#[derive(Debug)]
pub struct Record<'a> {
    pub call_id: Uuid,
    pub attempt: i32,
    pub what: What<'a>,
}

impl Record<'_> {
    /// As `kb.record_of_worker` takes it.
    fn to_json(&self) -> Value {
        let Self { call_id, attempt, what } = self;
        match what {
            What::Step(step) => json!({"callId": call_id, "attempt": attempt, "step": step}),
            What::Output(output) => json!({"callId": call_id, "attempt": attempt, "output": output}),
        }
    }
}

/// What became of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// There is no such call.
    Missing,
    /// This worker's attempt does not have the call.
    Stale,
    /// The output or text of the step must be checked first; nothing was done, nor with later records of the call.
    Unchecked,
    Step(Recorded),
    /// The call has ended with this status.
    Ended(String),
}

/// Records all of it. Returns what became of each, and the wake-ups to send. One statement, which may be repeated.
pub async fn record(
    db: &Db,
    scope: Scope,
    worker_id: Uuid,
    records: &[Record<'_>],
) -> Result<(Vec<Outcome>, Wake), PgError> {
    if records.is_empty() {
        return Ok((Vec::new(), Wake::default()));
    }
    let sql = "select outcomes, resumed, runs from kb.record_of_worker($1, $2, $3)";
    let values: Value = records.iter().map(Record::to_json).collect();
    let row = rls::query_one_scoped(&db.pool_pg, scope, sql, &[&worker_id, &values, &MAX_ATTEMPTS]).await?;
    let row = row.expect("kb.record_of_worker returns one row");
    let (outcomes, resumed): (Vec<String>, Vec<bool>) = (row.get(0), row.get(1));
    let runs: Vec<Option<Uuid>> = row.get(2);
    let mut wake = Wake::default();
    let found = records.iter().zip(outcomes).zip(resumed.into_iter().zip(runs));
    let outcomes = found
        .map(
            |((record, outcome), (resumed, run_id))| match (outcome.as_str(), &record.what) {
                ("missing", _) => Outcome::Missing,
                ("stale", _) => Outcome::Stale,
                ("unchecked", _) => Outcome::Unchecked,
                (outcome, What::Step(_)) => Outcome::Step(Recorded::of(Some(outcome))),
                (_, What::Output(_)) => {
                    let ended = EndedRemoteCall::of(outcome, resumed, run_id);
                    wake.merge(ended.wake);
                    Outcome::Ended(ended.status)
                }
            },
        )
        .collect();
    Ok((outcomes, wake))
}
