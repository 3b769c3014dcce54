//! Completes claims: outcomes are values, written in batches, each fenced by its attempt.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use rejoin_db::PgError;
use rejoin_db::rls::ConnGuard;
use sqlx::PgConnection;

/// The delay before the first retry, in seconds; doubled with each attempt.
const RETRY_BASE_S: f64 = 1.0;
/// The maximum delay before a retry, in seconds.
const RETRY_CAP_S: f64 = 300.0;
/// The maximum delay that an outcome may ask for, in seconds: 366 days. PostgreSQL refuses times that are far enough away.
const DELAY_MAX_S: f64 = 366.0 * 86_400.0;

/// The outcome of a claimed job.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Complete,
    /// Failed, but may succeed later: available again after a backoff that grows with the attempts; dead after the
    /// last.
    Retry {
        error: String,
        after: Option<Duration>,
    },
    /// Postponed: available again after this time, without counting as a failure.
    Snooze {
        after: Duration,
    },
    /// Released by a stopping worker: available again immediately, without counting as a failure.
    Release,
    /// Dead: kept for `rejoin queue retry`.
    Fail {
        error: String,
    },
    Cancel,
}

/// An outcome with its job and attempt.
#[derive(Debug, Clone)]
pub struct Settlement {
    pub job_id: i64,
    pub attempt: i32,
    pub max_attempts: i32,
    pub outcome: Outcome,
}

/// The delay of a failed job before attempt `attempt + 1`.
pub fn backoff_s(attempt: i32) -> f64 {
    let exponent = (attempt - 1).clamp(0, 20);
    (RETRY_BASE_S * 2_f64.powi(exponent)).min(RETRY_CAP_S)
}

/// An error's text as PostgreSQL stores it: without NUL characters, which it refuses with the whole batch.
fn storable(error: &str) -> Cow<'_, str> {
    if error.contains('\0') {
        error.replace('\0', "\u{FFFD}").into()
    } else {
        error.into()
    }
}

/// Columns of the ended jobs, in order of id.
#[derive(Default)]
struct EndedColumns<'a> {
    ids: Vec<i64>,
    attempts: Vec<i32>,
    errors: Vec<Option<Cow<'a, str>>>,
}

/// Columns of the jobs that become available again.
#[derive(Default)]
struct RetriedColumns<'a> {
    ids: Vec<i64>,
    attempts: Vec<i32>,
    delays_s: Vec<f64>,
    /// Extra attempts granted because this one does not count.
    uncounted: Vec<i32>,
    errors: Vec<Option<Cow<'a, str>>>,
}

/// The result of settling a batch.
#[derive(Debug, Default)]
pub struct Settled {
    /// The jobs that were still held.
    pub ids: Vec<i64>,
    /// Further jobs may have become available: other workers should be woken.
    pub makes_work: bool,
}

/// Settles a batch. Settlements of lost leases have no effect.
pub async fn settle(pool: &Pool, batch: &[Settlement], keep_completed: bool) -> Result<Settled, PgError> {
    // By final state; sorted, as `queue.finish` expects it.
    let mut ended: BTreeMap<&'static str, EndedColumns> = BTreeMap::new();
    let mut retried = RetriedColumns::default();
    let mut sorted: Vec<&Settlement> = batch.iter().collect();
    sorted.sort_unstable_by_key(|settlement| settlement.job_id);
    for s in sorted {
        let mut end = |state: &'static str, error| {
            let ended = ended.entry(state).or_default();
            ended.ids.push(s.job_id);
            ended.attempts.push(s.attempt);
            ended.errors.push(error);
        };
        // Extra attempts granted because this one does not count.
        let (delay_s, uncounted, error) = match &s.outcome {
            Outcome::Complete => {
                end("completed", None);
                continue;
            }
            Outcome::Cancel => {
                end("cancelled", None);
                continue;
            }
            Outcome::Fail { error } => {
                end("failed", Some(storable(error)));
                continue;
            }
            Outcome::Retry { error, .. } if s.attempt >= s.max_attempts => {
                end("failed", Some(storable(error)));
                continue;
            }
            Outcome::Retry { error, after } => (
                after.map_or_else(|| backoff_s(s.attempt), |after| after.as_secs_f64()),
                0,
                Some(storable(error)),
            ),
            Outcome::Snooze { after } => (after.as_secs_f64(), 1, None),
            Outcome::Release => (0.0, 1, None),
        };
        retried.ids.push(s.job_id);
        retried.attempts.push(s.attempt);
        retried.delays_s.push(delay_s.min(DELAY_MAX_S));
        retried.uncounted.push(uncounted);
        retried.errors.push(error);
    }
    let conn = ConnGuard::from(pool).await?;
    let settled = write(conn.client(), &ended, &retried, keep_completed).await;
    conn.settle(settled)
}

async fn write(
    client: &Object,
    ended: &BTreeMap<&'static str, EndedColumns<'_>>,
    retried: &RetriedColumns<'_>,
    keep_completed: bool,
) -> Result<Settled, PgError> {
    let mut settled = Settled::default();
    for (state, of_state) in ended {
        let statement = client
            .prepare_cached("select id, let_go from queue.finish($1, $2, $3, $4, $5)")
            .await?;
        let errors = of_state.errors.iter().any(Option::is_some).then_some(&of_state.errors);
        let rows = client
            .query(
                &statement,
                &[&of_state.ids, &of_state.attempts, state, &errors, &keep_completed],
            )
            .await?;
        settled.ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        settled.makes_work |= rows.first().is_some_and(|row| row.get::<_, i32>(1) > 0);
    }
    if !retried.ids.is_empty() {
        let statement = client.prepare_cached(MAKE_AVAILABLE).await?;
        let rows = client
            .query(
                &statement,
                &[
                    &retried.ids,
                    &retried.attempts,
                    &retried.delays_s,
                    &retried.uncounted,
                    &retried.errors,
                ],
            )
            .await?;
        settled.ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        settled.makes_work = true;
    }
    Ok(settled)
}

/// Makes jobs that are still held available again.
const MAKE_AVAILABLE: &str = "
update queue.jobs j
set state = 'available', lease_until = null, worker_id = null,
    run_at = now() + make_interval(secs => t.delay_s),
    max_attempts = j.max_attempts + t.free,
    last_error = coalesce(t.error, j.last_error)
from unnest($1::bigint[], $2::int[], $3::float8[], $4::int[], $5::text[]) t(id, attempt, delay_s, free, error)
where j.id = t.id and j.attempt = t.attempt and j.state = 'running'
returning j.id";

/// Ends one job within the caller's transaction (which has fenced it). None: the caller no longer held it. Some:
/// whether the next job of its key was released.
pub async fn settle_one(
    db: &mut PgConnection,
    job_id: i64,
    attempt: i32,
    state: &str,
    error: Option<&str>,
) -> Result<Option<bool>, sqlx::Error> {
    let error = error.map(storable);
    sqlx::query_scalar!(
        r#"select let_go > 0 as "let_go!" from queue.finish(array[$1::bigint], array[$2::int], $3::text, array[$4::text])"#,
        job_id,
        attempt,
        state,
        error.as_deref()
    )
    .fetch_optional(db)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_cap() {
        assert_eq!(backoff_s(1), 1.0);
        assert_eq!(backoff_s(2), 2.0);
        assert_eq!(backoff_s(5), 16.0);
        assert_eq!(backoff_s(100), 300.0);
        assert_eq!(backoff_s(-3), 1.0);
    }
}
