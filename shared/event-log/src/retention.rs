//! Retention of events: bounded deletes from the old end of logs, in the order in which their runs ended. A deletion
//! advances `oldest_seq`, so that a cursor before it gets status 410. Conversations keep their messages; only the
//! replay of their events ends. Archived events go in the same order: a trigger removes their parts when the log's beginning moves past them.
//!
//! Called periodically by every worker; each call is one bounded transaction.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::upkeep::{self, Task};

/// Maximum number of rows removed in one transaction: appends to the log wait that long.
const ROWS: i64 = 2_000;

/// The result of one call of [`trim`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// The number of removed events.
    pub events: i64,
    /// Whether there may be more to remove.
    pub more: bool,
}

/// Removes the events of runs that ended more than `keep_s` seconds ago, and all earlier events of their logs. Events
/// of an active run stay, and so does everything after its first one.
pub async fn trim(db: &PgPool, keep_s: f64) -> Result<Trimmed, sqlx::Error> {
    let mut tx = rejoin_db::begin(db).await?;
    let Some(runs) = upkeep::next(&mut tx, Task::Retention, keep_s).await? else {
        return Ok(Trimmed::default());
    };
    let logs: Vec<Uuid> = runs.iter().map(|run| run.log_id).collect();
    let archived = sqlx::query_scalar!(
        "select log_id from stream.logs where log_id = any($1) and archived_seq >= oldest_seq",
        &logs
    )
    .fetch_all(&mut *tx)
    .await?;
    let (mut events, mut left, mut done) = (0, ROWS, None);
    for run in &runs {
        let live = sqlx::query_scalar!(
            "select min(first_seq) from kb.agent_runs where log_id = $1 and state in ('queued', 'running', 'waiting')",
            run.log_id
        )
        .fetch_one(&mut *tx)
        .await?;
        let up_to = run.done_seq.min(live.unwrap_or(i64::MAX));
        if archived.contains(&run.log_id) {
            events += remove_archived(&mut tx, run.log_id, up_to).await?;
        }
        let removed = remove(&mut tx, run.log_id, up_to, left).await?;
        events += removed.events;
        left -= removed.rows;
        if left <= 0 {
            break;
        }
        done = Some(run);
    }
    if let Some(run) = done {
        upkeep::done_with(&mut tx, Task::Retention, run).await?;
    }
    tx.commit().await?;
    Ok(Trimmed {
        events,
        more: !runs.is_empty(),
    })
}

/// Removes a log's events up to and including `up_to` from the table, and returns their number. A packed row that extends beyond it
/// stays.
pub async fn trim_log(db: &PgPool, log_id: Uuid, up_to: i64) -> Result<i64, sqlx::Error> {
    let mut tx = rejoin_db::begin(db).await?;
    sqlx::query!("select only_row from stream.upkeep for update")
        .fetch_one(&mut *tx)
        .await?;
    let removed = remove(&mut tx, log_id, up_to, i64::MAX).await?;
    tx.commit().await?;
    Ok(removed.events)
}

/// Removes the archived parts of which all events have numbers up to `up_to`, and returns the number of their events.
async fn remove_archived(db: &mut PgConnection, log_id: Uuid, up_to: i64) -> Result<i64, sqlx::Error> {
    let moved = sqlx::query_scalar!(
        r#"with log as (
               select log_id, oldest_seq from stream.logs where log_id = $1 for update),
           last as (
               select max(a.last_seq) as seq from stream.archives a join log using (log_id) where a.last_seq <= $2),
           moved as (
               update stream.logs l set oldest_seq = last.seq + 1 from last, log
               where l.log_id = log.log_id and last.seq >= log.oldest_seq
               returning l.oldest_seq - log.oldest_seq as events)
           select events as "events!" from moved"#,
        log_id,
        up_to
    )
    .fetch_optional(db)
    .await?;
    Ok(moved.unwrap_or_default())
}

struct Removed {
    events: i64,
    rows: i64,
}

/// Removes at most `rows` rows. Locks the log's row first, as appending does.
async fn remove(db: &mut PgConnection, log_id: Uuid, up_to: i64, rows: i64) -> Result<Removed, sqlx::Error> {
    let removed = sqlx::query!(
        r#"with log as (
               select log_id, oldest_seq from stream.logs where log_id = $1 for update),
           last as (
               select max(seq) as seq from (
                   select e.seq from stream.events e join log using (log_id) where e.seq <= $2 order by e.seq limit $3) e),
           gone as (
               delete from stream.events e using last where e.log_id = $1 and e.seq <= last.seq
               returning e.seq - coalesce(e.first_seq, e.seq) + 1 as events),
           moved as (
               update stream.logs l set oldest_seq = greatest(l.oldest_seq, last.seq + 1) from last
               where l.log_id = $1 and last.seq is not null)
           select coalesce(sum(events), 0)::bigint as "events!", count(*) as "rows!" from gone"#,
        log_id,
        up_to,
        rows
    )
    .fetch_one(db)
    .await?;
    Ok(Removed {
        events: removed.events,
        rows: removed.rows,
    })
}
