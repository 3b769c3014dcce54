//! Old events leave: bounded deletes from the old end of logs, oldest first. What is gone moves `oldest_seq` on, so that a
//! cursor behind it is answered 410. Conversations keep their messages; only the replay of their events ends.

use sqlx::PgPool;
use uuid::Uuid;

/// Logs that one call trims.
const LOGS: i64 = 100;

/// Removes events older than `keep_s` seconds from logs whose runs have all ended. Returns how many.
pub async fn trim(db: &PgPool, keep_s: f64) -> Result<u64, sqlx::Error> {
    let logs: Vec<(Uuid, i64)> = sqlx::query!(
        r#"select l.log_id, e.seq as "up_to!"
           from stream.logs l
           cross join lateral (
               -- the newest event that is too old
               select seq from stream.events
               where log_id = l.log_id and created_at < now() - make_interval(secs => $1)
               order by seq desc limit 1) e
           where l.last_seq >= l.oldest_seq
             and exists (select from stream.events f
                         where f.log_id = l.log_id and f.seq = l.oldest_seq and f.created_at < now() - make_interval(secs => $1))
             and not exists (select from kb.agent_runs r
                             where r.log_id = l.log_id and r.state in ('queued', 'running', 'waiting'))
           limit $2"#,
        keep_s,
        LOGS
    )
    .fetch_all(db)
    .await?
    .into_iter()
    .map(|row| (row.log_id, row.up_to))
    .collect();
    let mut removed = 0;
    for (log_id, up_to) in logs {
        removed += trim_log(db, log_id, up_to).await?;
    }
    Ok(removed)
}

/// Removes a log's events up to and including `up_to`.
pub async fn trim_log(db: &PgPool, log_id: Uuid, up_to: i64) -> Result<u64, sqlx::Error> {
    let mut tx = db.begin().await?;
    sqlx::query!(
        "update stream.logs set oldest_seq = greatest(oldest_seq, $2::bigint + 1) where log_id = $1",
        log_id,
        up_to
    )
    .execute(&mut *tx)
    .await?;
    let done = sqlx::query!(
        "delete from stream.events where log_id = $1 and seq <= $2",
        log_id,
        up_to
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(done.rows_affected())
}
