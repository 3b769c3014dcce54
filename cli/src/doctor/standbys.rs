//! The PostgreSQL server as an operator of a fleet watches it: standbys and their lag, replication slots, the archive, and tables that vacuum does not
//! keep up with. Called by `whole_fleet`.

use anyhow::Result;
use sqlx::{PgConnection, Row};

use super::processes::listed;
use super::{Check, Finding, good, lacking};

/// Lag of a standby from which it is reported: in seconds, and in bytes.
const LAG_S: f64 = 10.0;
const LAG_BYTES: i64 = 64 * 1024 * 1024;
/// Number of dead rows of a table from which they are reported, if they are also more than this part of its live ones.
const DEAD_ROWS: i64 = 50_000;
const DEAD_SHARE: f64 = 0.5;
/// Maximum number of tables in one finding.
const TABLES: i64 = 5;
const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;

/// All findings about the server.
pub(super) async fn findings(connection: &mut PgConnection) -> Result<Vec<Finding>> {
    let mut findings = standbys(connection).await?;
    findings.extend(slots(connection).await?);
    findings.extend(archive(connection).await?);
    findings.extend(dead_rows(connection).await?);
    Ok(findings)
}

async fn standbys(connection: &mut PgConnection) -> Result<Vec<Finding>> {
    let rows = sqlx::query(
        "select coalesce(nullif(application_name, ''), 'no name'), state, sync_state, extract(epoch from replay_lag)::float8,
                pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint
         from pg_stat_replication order by 1",
    )
    .fetch_all(connection)
    .await?;
    if rows.is_empty() {
        let todo = "fine for a server that others keep safe; otherwise see docs/operations/ha.md: without a standby, a lost \
                    server means to restore a backup";
        return Ok(vec![lacking(Check::Fleet, false, "no standby is connected", todo)]);
    }
    let (mut findings, mut synchronous, mut late) = (Vec::new(), 0, Vec::new());
    for row in &rows {
        let name: String = row.try_get(0)?;
        let (state, sync): (Option<String>, Option<String>) = (row.try_get(1)?, row.try_get(2)?);
        let Some(state) = state else {
            let found = "standbys are connected, but this login may not see their state";
            findings.push(lacking(Check::Fleet, false, found, "grant pg_monitor to …"));
            return Ok(findings);
        };
        if sync.is_some_and(|sync| sync == "sync" || sync == "quorum") {
            synchronous += 1;
        }
        let (lag_s, lag_bytes): (Option<f64>, Option<i64>) = (row.try_get(3)?, row.try_get(4)?);
        let (lag_s, lag_bytes) = (lag_s.unwrap_or_default(), lag_bytes.unwrap_or_default());
        if state != "streaming" || lag_s > LAG_S || lag_bytes > LAG_BYTES {
            late.push(format!(
                "{name} ({state}, {lag_s:.0} s, {:.0} MiB)",
                lag_bytes as f64 / BYTES_PER_MIB
            ));
        }
    }
    if late.is_empty() {
        let found = format!("standbys: {}, synchronous ones among them: {synchronous}", rows.len());
        findings.push(good(Check::Fleet, found));
    } else {
        let found = format!("standbys are behind: {}", listed(&late));
        let todo = "a failover to one of them waits, or loses what it lacks; look at its disk and network";
        findings.push(lacking(Check::Fleet, false, found, todo));
    }
    if synchronous == 0 {
        let found = "no standby is synchronous: a failover may lose acknowledged commits";
        findings.push(lacking(Check::Fleet, false, found, "see docs/operations/ha.md"));
    }
    Ok(findings)
}

/// Replication slots that nothing reads: they keep the write-ahead log, and may block vacuum.
async fn slots(connection: &mut PgConnection) -> Result<Option<Finding>> {
    let rows = sqlx::query(
        "select slot_name::text, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint
         from pg_replication_slots where not active order by 2 desc nulls last",
    )
    .fetch_all(connection)
    .await?;
    let mut unused = Vec::new();
    for row in &rows {
        let (name, kept): (String, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        unused.push(format!(
            "{name} ({:.0} MiB)",
            kept.unwrap_or_default() as f64 / BYTES_PER_MIB
        ));
    }
    Ok((!unused.is_empty()).then(|| {
        let found = format!(
            "replication slots without a reader keep the write-ahead log: {}",
            listed(&unused)
        );
        let todo = "start their standbys, or select pg_drop_replication_slot(…): otherwise the disk fills, and vacuum may be blocked";
        lacking(Check::Fleet, false, found, todo)
    }))
}

async fn archive(connection: &mut PgConnection) -> Result<Option<Finding>> {
    let row = sqlx::query(
        "select last_failed_wal, extract(epoch from now() - last_failed_time)::float8
         from pg_stat_archiver
         where current_setting('archive_mode') <> 'off' and last_failed_time > coalesce(last_archived_time, '-infinity')",
    )
    .fetch_optional(connection)
    .await?;
    row.map(|row| {
        let (segment, ago_s): (Option<String>, Option<f64>) = (row.try_get(0)?, row.try_get(1)?);
        let found = format!(
            "archiving the write-ahead log fails: {} {:.0} s ago",
            segment.unwrap_or_default(),
            ago_s.unwrap_or_default()
        );
        let todo = "see the server's log for what archive_command prints; until it works, the disk fills, and no backup reaches the \
                    present (docs/operations/backup.md)";
        Ok(lacking(Check::Fleet, true, found, todo))
    })
    .transpose()
}

async fn dead_rows(connection: &mut PgConnection) -> Result<Option<Finding>> {
    let rows = sqlx::query(
        "select format('%s.%s', schemaname, relname), n_dead_tup, n_live_tup
         from pg_stat_user_tables
         where schemaname in ('kb', 'queue', 'stream', 'audit') and n_dead_tup > $1 and n_dead_tup > n_live_tup * $2
         order by n_dead_tup desc limit $3",
    )
    .bind(DEAD_ROWS)
    .bind(DEAD_SHARE)
    .bind(TABLES)
    .fetch_all(connection)
    .await?;
    let mut tables = Vec::new();
    for row in &rows {
        let (table, dead, live): (String, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        tables.push(format!("{table} ({dead} dead, {live} live)"));
    }
    Ok((!tables.is_empty()).then(|| {
        let found = format!("vacuum does not keep up: {}", listed(&tables));
        let todo = "is a transaction open for long, or a replication slot unused? Otherwise raise autovacuum_max_workers and \
                    autovacuum_vacuum_cost_limit";
        lacking(Check::Fleet, false, found, todo)
    }))
}
