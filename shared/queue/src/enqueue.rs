//! Enqueues jobs. Joins the caller's transaction, so that a job exists exactly when its subject does. The caller sends
//! the wake-up after its commit.

use std::fmt::Write as _;

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::DEFAULT_QUEUE;

/// Default maximum number of attempts before a job is dead.
pub const DEFAULT_MAX_ATTEMPTS: i32 = 5;

/// A job to be enqueued.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub queue: String,
    pub kind: String,
    pub payload: Value,
    /// The fairness lane; the nil uuid is the system's.
    pub workspace_id: Uuid,
    /// Within a workspace, jobs with smaller numbers run first.
    pub priority: i16,
    /// Delay until it may run, in seconds.
    pub delay_s: f64,
    pub max_attempts: i32,
    /// At most one live job has this key.
    pub unique_key: Option<String>,
    /// Jobs with this key run one at a time, in order.
    pub concurrency_key: Option<String>,
    pub run_id: Option<Uuid>,
    /// The last attempt seen by `run_id`: 0 for a new run.
    pub attempt: i32,
}

impl NewJob {
    pub fn new(kind: impl Into<String>, payload: Value) -> Self {
        Self {
            queue: DEFAULT_QUEUE.to_owned(),
            kind: kind.into(),
            payload,
            workspace_id: Uuid::nil(),
            priority: 0,
            delay_s: 0.0,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            unique_key: None,
            concurrency_key: None,
            run_id: None,
            attempt: 0,
        }
    }
}

/// Enqueues a job and returns its id; if a live job already has the unique key, that job's id.
pub async fn enqueue(db: &mut PgConnection, job: &NewJob) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select queue.enqueue(p_kind => $1, p_payload => $2, p_queue => $3, p_project_id => $4, p_priority => $5,
                                p_run_at => now() + make_interval(secs => $6), p_max_attempts => $7, p_unique_key => $8,
                                p_concurrency_key => $9, p_run_id => $10, p_attempt => $11) as "id!""#,
        job.kind,
        job.payload,
        job.queue,
        job.workspace_id,
        i32::from(job.priority),
        job.delay_s,
        job.max_attempts,
        job.unique_key as _,
        job.concurrency_key as _,
        job.run_id as _,
        job.attempt,
    )
    .fetch_one(db)
    .await
}

/// Fewer jobs than this are inserted with one INSERT; COPY's round trips don't pay off for them.
const COPY_FROM: usize = 16;
/// Chunk size of a COPY, in bytes.
const COPY_CHUNK: usize = 128 * 1024;

/// Enqueues many jobs: those due immediately without keys and runs by COPY, the fastest way. Jobs with keys go through
/// [`enqueue`], one by one.
pub async fn enqueue_many(db: &mut PgConnection, jobs: &[NewJob]) -> Result<(), sqlx::Error> {
    let (plain, keyed): (Vec<&NewJob>, Vec<&NewJob>) = jobs
        .iter()
        .partition(|job| job.unique_key.is_none() && job.concurrency_key.is_none());
    for job in keyed {
        enqueue(db, job).await?;
    }
    let (due, others): (Vec<&NewJob>, Vec<&NewJob>) = plain
        .into_iter()
        .partition(|job| job.delay_s == 0.0 && job.run_id.is_none() && job.attempt == 0);
    if due.len() >= COPY_FROM {
        copy(db, &due).await?;
    } else {
        insert(db, &due).await?;
    }
    insert(db, &others).await
}

/// Encodes jobs in COPY's text format. The time defaults to the transaction's.
async fn copy(db: &mut PgConnection, jobs: &[&NewJob]) -> Result<(), sqlx::Error> {
    let mut sink = db
        .copy_in_raw("copy queue.jobs (queue, kind, payload, project_id, priority, max_attempts) from stdin")
        .await?;
    let mut chunk = String::with_capacity(COPY_CHUNK + 1024);
    for job in jobs {
        escape(&mut chunk, &job.queue);
        chunk.push('\t');
        escape(&mut chunk, &job.kind);
        chunk.push('\t');
        escape(&mut chunk, &job.payload.to_string());
        // Writing to a String can't fail.
        let _ = writeln!(chunk, "\t{}\t{}\t{}", job.workspace_id, job.priority, job.max_attempts);
        if chunk.len() >= COPY_CHUNK {
            sink.send(chunk.as_bytes()).await?;
            chunk.clear();
        }
    }
    sink.send(chunk.as_bytes()).await?;
    sink.finish().await?;
    Ok(())
}

/// Appends a text, escaping COPY's separators and escapes.
fn escape(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '\t', '\n', '\r']) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'\t' => "\\t",
            b'\n' => "\\n",
            b'\r' => "\\r",
            _ => "\\\\",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// Inserts in one statement.
async fn insert(db: &mut PgConnection, plain: &[&NewJob]) -> Result<(), sqlx::Error> {
    if plain.is_empty() {
        return Ok(());
    }
    let kinds: Vec<&str> = plain.iter().map(|job| job.kind.as_str()).collect();
    let payloads: Vec<Value> = plain.iter().map(|job| job.payload.clone()).collect();
    let queues: Vec<&str> = plain.iter().map(|job| job.queue.as_str()).collect();
    let workspaces: Vec<Uuid> = plain.iter().map(|job| job.workspace_id).collect();
    let priorities: Vec<i16> = plain.iter().map(|job| job.priority).collect();
    let delays: Vec<f64> = plain.iter().map(|job| job.delay_s).collect();
    let max_attempts: Vec<i32> = plain.iter().map(|job| job.max_attempts).collect();
    let runs: Vec<Option<Uuid>> = plain.iter().map(|job| job.run_id).collect();
    let attempts: Vec<i32> = plain.iter().map(|job| job.attempt).collect();
    sqlx::query!(
        "insert into queue.jobs (queue, kind, payload, project_id, priority, run_at, max_attempts, run_id, attempt)
         select q, k, p, pr, pri, now() + make_interval(secs => d), a + m, r, a
         from unnest($1::text[], $2::text[], $3::jsonb[], $4::uuid[], $5::smallint[], $6::float8[], $7::int[], $8::uuid[], $9::int[])
              t(q, k, p, pr, pri, d, m, r, a)",
        &queues as _,
        &kinds as _,
        &payloads,
        &workspaces,
        &priorities,
        &delays,
        &max_attempts,
        &runs as _,
        &attempts
    )
    .execute(db)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_copy_would_misread_is_escaped() {
        let mut out = String::new();
        escape(&mut out, "a\\n b\tc\nd\re ü");
        assert_eq!(out, "a\\\\n b\\tc\\nd\\re ü");
    }
}
