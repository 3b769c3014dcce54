//! Compaction: packs the deltas of runs that ended some time ago into few rows (`rows`), which PostgreSQL compresses.
//! Readers see no difference at any time: the events stay the same, only their rows change, in one transaction.
//!
//! Called periodically by every worker; each call is one bounded transaction.

use sqlx::PgPool;
use uuid::Uuid;

use super::rows::MAX_BYTES;
use super::upkeep::{self, EndedRun, Task};

/// Maximum number of events rewritten in one transaction, unless a single run has more.
const EVENTS: i64 = 20_000;

/// The result of one call of [`compact`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The number of runs examined. 0: there is nothing to do.
    pub runs: usize,
    /// The number of rows before packing.
    pub rows_before: i64,
    /// The number of packed rows.
    pub rows_after: i64,
}

/// Compacts the next runs that ended more than `after_s` seconds ago.
pub async fn compact(db: &PgPool, after_s: f64) -> Result<Compacted, sqlx::Error> {
    let mut tx = rejoin_db::begin(db).await?;
    let Some(runs) = upkeep::next(&mut tx, Task::Compaction, after_s).await? else {
        return Ok(Compacted::default());
    };
    let mut events = 0;
    let batch: Vec<&EndedRun> = runs
        .iter()
        .enumerate()
        .take_while(|(nth, run)| {
            events += run.done_seq - run.first_seq;
            *nth == 0 || events <= EVENTS
        })
        .map(|(_, run)| run)
        .collect();
    let Some(last) = batch.last() else {
        return Ok(Compacted::default());
    };
    let of = |column: fn(&EndedRun) -> Uuid| batch.iter().map(|run| column(run)).collect::<Vec<Uuid>>();
    let seqs = |column: fn(&EndedRun) -> i64| batch.iter().map(|run| column(run)).collect::<Vec<i64>>();
    let counts = sqlx::query!(
        r#"with run as (
               select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[]) r(id, log_id, first_seq, done_seq)),
           -- a log that is being deleted is left alone, and appends go on
           log as materialized (
               select l.log_id from stream.logs l where l.log_id = any($2) order by l.log_id for key share),
           -- the rows of deltas; what other programs wrote with line ends in it stays as it is
           piece as materialized (
               select e.log_id, e.run_id, e.type, e.data, e.created_at, e.seq, coalesce(e.first_seq, e.seq) as first_seq
               from run r join log using (log_id)
               cross join lateral (
                   select * from stream.events e
                   where e.log_id = r.log_id and e.seq > r.first_seq and e.seq <= r.done_seq and e.run_id = r.id
                     and e.type in ('token', 'reasoning') and (e.first_seq is not null or strpos(e.data, e'\n') = 0)) e),
           -- neighbours of one kind are an island
           shore as (
               select *, first_seq is distinct from 1 + lag(seq) over (partition by log_id, run_id, type order by seq) as begins
               from piece),
           island as (
               select *, count(*) filter (where begins) over (partition by log_id, run_id, type order by seq) as nth
               from shore),
           -- which is cut into rows
           cut as (
               select *, sum(octet_length(data) + 1) over (partition by log_id, run_id, type, nth order by seq) / $5 as part
               from island),
           packed as materialized (
               select log_id, min(first_seq) as first_seq, max(seq) as seq, max(created_at) as created_at, count(*) as rows,
                      string_agg(data, e'\n' order by seq) as data
               from cut group by log_id, run_id, type, nth, part having count(*) > 1),
           gone as (
               delete from stream.events e using packed p
               where e.log_id = p.log_id and e.seq >= p.first_seq and e.seq < p.seq),
           -- the last row of each takes them in
           kept as (
               update stream.events e set first_seq = p.first_seq, data = p.data, created_at = p.created_at from packed p
               where e.log_id = p.log_id and e.seq = p.seq)
           select coalesce(sum(rows), 0)::bigint as "before!", count(*) as "after!" from packed"#,
        &of(|run| run.id),
        &of(|run| run.log_id),
        &seqs(|run| run.first_seq),
        &seqs(|run| run.done_seq),
        i64::try_from(MAX_BYTES).unwrap_or(i64::MAX) as _,
    )
    .fetch_one(&mut *tx)
    .await?;
    upkeep::done_with(&mut tx, Task::Compaction, last).await?;
    tx.commit().await?;
    Ok(Compacted {
        runs: batch.len(),
        rows_before: counts.before,
        rows_after: counts.after,
    })
}
