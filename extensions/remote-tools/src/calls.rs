//! The calls of a worker: claimed, renewed, reported about, handed out again. Ending one is a command: `rejoin_commands::EndRemoteCall`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use rejoin_commands::EndedRemoteCall;
use rejoin_db::rls::{self, Scope};
use rejoin_db::{Db, PgError};
use rejoin_runs::remote_calls::MAX_ATTEMPTS;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use tokio_postgres::types::ToSql;
use utoipa::ToSchema;
use uuid::Uuid;

/// The pause before a call is handed out again that its worker could not begin, in seconds; doubled with each attempt.
const RETRY_S: f64 = 1.0;
const RETRY_MAX_S: f64 = 60.0;

/// A call that is handed out
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandedOut {
    pub id: Uuid,
    /// Names this attempt in everything that the worker sends about the call
    pub attempt: i32,
    pub tool: String,
    pub version: String,
    /// The arguments, valid by the tool's schema
    pub input: Value,
    /// The same in all attempts
    pub idempotency_key: Uuid,
    /// Maximum duration of this attempt, in seconds
    pub timeout_s: i32,
    /// The run that waits for the result; null: an MCP client does
    pub run_id: Option<Uuid>,
    pub conversation_id: Option<Uuid>,
    /// The model's id of the call
    pub call_id: String,
    pub created_at: DateTime<Utc>,
    /// What an earlier attempt has stored last
    pub checkpoint: Option<Value>,
    /// Number of steps that earlier attempts have recorded
    pub steps: i64,
}

/// What a claim found.
#[derive(Debug)]
pub struct Claim {
    /// The number of the worker's registration.
    pub revision: i32,
    /// The queues that the worker's calls come from.
    pub queues: Vec<String>,
    /// On record as running.
    pub calls: Vec<HandedOut>,
}

/// For how long a claim counts.
#[derive(Debug, Clone, Copy)]
pub struct ClaimTimes {
    /// How long its worker counts as alive.
    pub alive: Duration,
    /// A claim that changes by less how long the worker counts as alive is not recorded.
    pub slack: Duration,
    /// The lease of the calls.
    pub lease: Duration,
}

/// Hands out up to `limit` calls to a worker, and records that it is there. None: it is not registered in this queue. One statement.
pub async fn claim(
    db: &Db,
    scope: Scope,
    queue: &str,
    worker_id: Uuid,
    times: ClaimTimes,
    limit: i32,
) -> Result<Option<Claim>, PgError> {
    let sql = "select revision, queues, calls::text
               from kb.poll_remote_calls($1, $2, make_interval(secs => $3), make_interval(secs => $4), make_interval(secs => $5), $6)";
    let ClaimTimes { alive, slack, lease } = times;
    let (alive_s, slack_s, lease_s) = (alive.as_secs_f64(), slack.as_secs_f64(), lease.as_secs_f64());
    let arguments: [&(dyn ToSql + Sync); 6] = [&queue, &worker_id, &alive_s, &slack_s, &lease_s, &limit];
    let row = rls::query_one_scoped(&db.pool_pg, scope, sql, &arguments).await?;
    Ok(row.map(|row| {
        let calls: Option<&str> = row.get(2);
        Claim {
            revision: row.get(0),
            queues: row.get(1),
            calls: calls.map_or_else(Vec::new, |calls| {
                serde_json::from_str(calls).expect("kb.poll_remote_calls returns calls as programs get them")
            }),
        }
    }))
}

/// What became of a completion.
#[derive(Debug)]
pub enum Completion {
    Ended(Box<EndedRemoteCall>),
    /// The output must be checked first; nothing was done.
    Unchecked,
    /// This worker's attempt does not have the call.
    Stale,
}

/// Completes a call whose output needs no check. None: there is no such call. One statement, which may be repeated.
pub async fn complete(
    db: &Db,
    scope: Scope,
    id: Uuid,
    (worker_id, attempt): (Uuid, i32),
    output: &Value,
) -> Result<Option<Completion>, PgError> {
    let sql = "select status, resumed, run_id from kb.complete_remote_call($1, $2, $3, $4)";
    let row = rls::query_one_scoped(&db.pool_pg, scope, sql, &[&id, &worker_id, &attempt, output]).await?;
    Ok(row.map(|row| match row.get::<_, Option<String>>(0) {
        None => Completion::Stale,
        Some(status) if status == "checked" => Completion::Unchecked,
        Some(status) => Completion::Ended(Box::new(EndedRemoteCall::of(status, row.get(1), row.get(2)))),
    }))
}

/// Renews the leases of calls (id, attempt). Returns for each whether it is `held`, `cancelled` or `lost`.
pub async fn renew(
    db: &mut PgConnection,
    worker_id: Uuid,
    calls: &[(Uuid, i32)],
    lease: Duration,
) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let (ids, attempts): (Vec<Uuid>, Vec<i32>) = calls.iter().copied().unzip();
    let states = sqlx::query!(
        r#"select id as "id!", state as "state!" from kb.renew_remote_calls($1, $2, $3, make_interval(secs => $4))"#,
        worker_id,
        &ids,
        &attempts,
        lease.as_secs_f64()
    )
    .fetch_all(db)
    .await?;
    Ok(states.into_iter().map(|row| (row.id, row.state)).collect())
}

/// Stores what a program reports about a call. False: the attempt does not have it.
pub async fn progress(
    db: &mut PgConnection,
    id: Uuid,
    attempt: i32,
    message: Option<&str>,
    checkpoint: Option<&Value>,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select kb.progress_remote_call($1, $2, $3, $4, $5) as "stored!""#,
        id,
        attempt,
        message as _,
        checkpoint as _,
        MAX_ATTEMPTS
    )
    .fetch_one(db)
    .await
}

/// Hands a call out again, after a pause that doubles with each try. False: the attempt does not have it.
pub async fn retry(
    db: &mut PgConnection,
    id: Uuid,
    attempt: i32,
    record: &Record,
    error: &str,
) -> Result<bool, sqlx::Error> {
    let after_s = (RETRY_S * 2_f64.powi((record.tries() - 1).clamp(0, 10))).min(RETRY_MAX_S);
    sqlx::query_scalar!(
        r#"select kb.retry_remote_call($1, $2, make_interval(secs => $3), $4) as "retried!""#,
        id,
        attempt,
        after_s,
        error
    )
    .fetch_one(db)
    .await
}

/// Makes a call available again that its worker did not get.
pub async fn give_back(db: &mut PgConnection, id: Uuid, attempt: i32) -> Result<(), sqlx::Error> {
    let given_back = sqlx::query_scalar!(
        r#"select kb.retry_remote_call($1, $2, interval '0', 'its worker did not wait for it') as "retried!""#,
        id,
        attempt
    );
    given_back.fetch_one(db).await.map(drop)
}

/// What is known of a call.
#[derive(Debug)]
pub struct Record {
    /// The run that waits for it.
    pub run_id: Option<Uuid>,
    /// The worker that has or had it.
    pub worker_id: Option<Uuid>,
    pub attempt: i32,
    /// How often it was handed back to wait.
    pub suspensions: i32,
    /// The JSON Schema of its output. None: any output.
    pub output_schema: Option<Value>,
    /// The group of workers that may serve it.
    pub group: String,
    pub tool: String,
    /// The model's id of the call.
    pub call_id: String,
    /// The queue of its job.
    pub queue: String,
    /// It executes the turn of an agent: what its run's events have besides their type, as JSON.
    pub answers: Option<String>,
    /// A step of an agent's turn has written text or emitted an event, and has not ended.
    pub is_writing: bool,
}

impl Record {
    /// Number of its attempts without those that handed it back to wait.
    pub fn tries(&self) -> i32 {
        self.attempt - self.suspensions
    }
}

/// Returns what is known of a call. None: there is no such call.
pub async fn get(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<Record>, sqlx::Error> {
    sqlx::query_as!(
        Record,
        r#"select run_id, worker_id, attempt, suspensions, output_schema, queue as "group", tool, call_id,
                  kb.remote_queue(project_id, queue, tool, version) as "queue!", answers, writing_step is not null as "is_writing!"
           from kb.remote_calls where id = $1"#,
        id
    )
    .fetch_optional(db)
    .await
}

/// A call that no worker takes.
#[derive(Debug)]
pub struct Untaken {
    pub id: Uuid,
    /// A worker that was lost had it.
    pub was_lost: bool,
}

/// Returns calls that have been without a worker for these many seconds: since they were added, since their last worker got them, or since
/// what they waited for has happened.
pub async fn untaken(db: impl PgExecutor<'_>, seconds: f64, limit: i64) -> Result<Vec<Untaken>, sqlx::Error> {
    sqlx::query_as!(
        Untaken,
        r#"select c.id, c.status = 'running' as "was_lost!" from kb.remote_calls c join queue.jobs j on j.id = c.job_id
         where c.ended_at is null and j.state = 'available'
           and greatest(c.handed_out_at, c.created_at, j.run_at) < now() - make_interval(secs => $1)
           and not cells.is_held(c.project_id)
         order by c.created_at limit $2"#,
        seconds,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns calls that no run waits for, because theirs has ended.
pub async fn orphaned(db: impl PgExecutor<'_>, limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select c.id from kb.remote_calls c join kb.agent_runs r on r.id = c.run_id
         where c.ended_at is null and r.state not in ('queued', 'running', 'waiting') and not cells.is_held(c.project_id)
         limit $1",
        limit
    )
    .fetch_all(db)
    .await
}

/// Removes calls of MCP clients that ended these many seconds ago. Those of runs go with their runs.
pub async fn sweep(db: impl PgExecutor<'_>, seconds: f64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from kb.remote_calls where run_id is null and ended_at < now() - make_interval(secs => $1)",
        seconds
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns those of these queues that have a job that is due.
pub async fn with_calls(db: impl PgExecutor<'_>, queues: &[String]) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select q.name as "name!" from unnest($1::text[]) q(name)
           where exists (select from queue.jobs j
                         where j.queue = q.name and j.state = 'available' and not j.held and j.run_at <= now())"#,
        queues
    )
    .fetch_all(db)
    .await
}
