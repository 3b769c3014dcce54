//! Epochs of the database: a new one begins when PostgreSQL begins a new timeline, by a failover or at the end of a point-in-time recovery. Logs
//! may then lack events that readers have, and have others with the same numbers. Called by readers' servers.
//!
//! A project that moves to another database takes its epochs along.
//!
//! Invariant: what is not known to be the same is taken for different. A reader then gets a snapshot that it did not need.

use deadpool_postgres::Pool;
use rejoin_db::PgError;
use rejoin_db::rls::ConnGuard;
use uuid::Uuid;

/// Returns the current epoch.
pub async fn current(pool: &Pool) -> Result<Uuid, PgError> {
    let guard = ConnGuard::from(pool).await?;
    let client = guard.client();
    let statement = client.prepare_cached("select stream.epoch()").await?;
    let answer = client.query_one(&statement, &[]).await;
    Ok(guard.settle(answer)?.get(0))
}

/// Returns whether a log has the events that a reader got in `epoch`, up to the number `seq`, which the log has reached.
pub async fn has_same_past(pool: &Pool, log_id: Uuid, seq: i64, epoch: Uuid) -> Result<bool, PgError> {
    if seq == 0 {
        return Ok(true);
    }
    let guard = ConnGuard::from(pool).await?;
    let client = guard.client();
    let statement = client
        .prepare_cached(
            "with known as (
                 select o.nth, 'infinity'::timestamptz as common_until from stream.epochs o where o.epoch = $3
                 union all
                 -- of a database that the log's project has left
                 select b.nth, b.common_until from cells.brought_epoch($3) b
                 limit 1)
             select coalesce(
                 -- the row with that event has the time of its last one
                 (select e.created_at from stream.events e where e.log_id = $1 and e.seq >= $2 order by e.seq limit 1)
                     <= least(o.common_until, (select min(later.common_until) from stream.epochs later where later.nth > o.nth)),
                 -- nothing has begun since
                 o.common_until = 'infinity' and not exists (select from stream.epochs later where later.nth > o.nth))
             from known o",
        )
        .await?;
    let answer = client.query_opt(&statement, &[&log_id, &seq, &epoch]).await;
    // An epoch that is unknown here was lost itself.
    Ok(guard.settle(answer)?.is_some_and(|row| row.get(0)))
}

/// Returns, for each existing log of `logs`, the number up to which its events are those that it had in `epoch`, which has ended.
pub async fn common_ends(pool: &Pool, logs: &[Uuid], epoch: Uuid) -> Result<Vec<(Uuid, i64)>, PgError> {
    let guard = ConnGuard::from(pool).await?;
    let client = guard.client();
    // From the log's end back: past what was written since.
    let statement = client
        .prepare_cached(
            "with common as materialized (
                 select coalesce(min(later.common_until), '-infinity') as until
                 from stream.epochs o join stream.epochs later on later.nth > o.nth
                 where o.epoch = $2)
             select l.log_id,
                    coalesce((select e.seq from stream.events e
                              where e.log_id = l.log_id and e.seq >= l.oldest_seq and e.created_at <= common.until
                              order by e.seq desc limit 1), l.oldest_seq - 1)
             from unnest($1::uuid[]) w(log_id) join stream.logs l on l.log_id = w.log_id cross join common",
        )
        .await?;
    let answer = client.query(&statement, &[&logs, &epoch]).await;
    let rows = guard.settle(answer)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
