//! `rejoin doctor --fleet`: whether the processes of an installation fit together, and what their PostgreSQL needs. Beside the checks of the
//! database and of the bus.
//!
//! - `processes` versions, settings, clocks and pools of processes, by their metrics
//! - `standbys`  the server: replication, the archive, dead rows

use anyhow::Result;
use rejoin_db::config::{BusKind, DatabaseArgs};
use rejoin_db::{Db, operators};
use rejoin_queue::stats::{self, WorkerStats};
use sqlx::{Connection as _, PgConnection};

use super::processes::{self, ProcessState, listed};
use super::{Check, Finding, answer_limit, good, lacking, standbys};

/// All findings. `addresses`: where processes serve their metrics.
pub(super) async fn findings(url: Option<&str>, addresses: &[String]) -> Vec<Finding> {
    let (states, mut findings) = processes::ask_all(addresses).await;
    let Some(url) = url else {
        // The check of the database reports that it is not set.
        findings.extend(processes::compare(&states, None));
        return findings;
    };
    let limit = answer_limit(url);
    match tokio::time::timeout(limit, ask_database(url, &states)).await {
        Ok(Ok(more)) => findings.extend(more),
        Ok(Err(error)) => {
            let found = format!("the fleet cannot be read from the database: {error:#}");
            findings.push(lacking(Check::Fleet, true, found, "rejoin doctor --only database"));
            findings.extend(processes::compare(&states, None));
        }
        Err(_) => {
            let found = format!("the database does not respond within {limit:?}");
            findings.push(lacking(Check::Fleet, true, found, "rejoin doctor --only database"));
            findings.extend(processes::compare(&states, None));
        }
    }
    findings.extend(listening(url).await);
    findings
}

async fn ask_database(url: &str, states: &[ProcessState]) -> Result<Vec<Finding>> {
    let mut connection = operators::connect(url, "rejoin-doctor").await?;
    let workers = stats::workers(&mut connection).await?;
    let ahead_s = clock_ahead_s(&mut connection).await?;
    let mut findings = processes::compare(states, Some(ahead_s));
    findings.extend(workers_of(&workers));
    let mut versions = processes::versions_of(states);
    let live = workers.iter().filter(|worker| worker.alive);
    versions.extend(live.map(|worker| (worker.version.clone(), name(worker))));
    findings.extend(processes::versions(&versions));
    findings.extend(pools(&mut connection, states).await?);
    findings.extend(standbys::findings(&mut connection).await?);
    connection.close().await?;
    Ok(findings)
}

fn name(worker: &WorkerStats) -> String {
    format!("the worker on {} (pid {})", worker.hostname, worker.pid)
}

fn workers_of(workers: &[WorkerStats]) -> Vec<Finding> {
    let names = |is: fn(&WorkerStats) -> bool| -> Vec<String> {
        workers.iter().filter(|worker| is(worker)).map(name).collect()
    };
    let (live, silent) = (names(|worker| worker.alive), names(|worker| !worker.alive));
    let mut findings = Vec::new();
    if live.is_empty() {
        let todo = "start one: rejoin worker. Messages are stored, and no run continues";
        findings.push(lacking(Check::Fleet, true, "no worker is live", todo));
    } else {
        let found = format!("workers that send heartbeats: {}", live.len());
        findings.push(good(Check::Fleet, found));
    }
    if !silent.is_empty() {
        let found = format!("without a heartbeat for 15 s: {}", listed(&silent));
        let todo = "see their logs; kill one that hangs: its runs continue elsewhere";
        findings.push(lacking(Check::Fleet, true, found, todo));
    }
    findings
}

/// Returns how far the database's clock is ahead of this machine's, in seconds.
async fn clock_ahead_s(connection: &mut PgConnection) -> Result<f64> {
    let began_s = processes::clock_s();
    let database_s: f64 = sqlx::query_scalar("select extract(epoch from clock_timestamp())::float8")
        .fetch_one(connection)
        .await?;
    Ok(database_s - f64::midpoint(began_s, processes::clock_s()))
}

/// Checks whether the pools of these processes fit into the database's connections.
async fn pools(connection: &mut PgConnection, states: &[ProcessState]) -> Result<Option<Finding>> {
    if states.is_empty() {
        return Ok(None);
    }
    let usable: i64 = sqlx::query_scalar(
        "select current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint",
    )
    .fetch_one(connection)
    .await?;
    let wanted: f64 = states.iter().map(ProcessState::connections).sum();
    let found = format!(
        "the pools of {} processes may open {wanted:.0} connections; the database allows {usable}",
        states.len()
    );
    Ok(Some(if wanted <= usable as f64 {
        good(Check::Fleet, found)
    } else {
        let todo = "raise max_connections, lower REJOIN_DB_CONNECTIONS and REJOIN_DB_HOT_CONNECTIONS of each process, or put a \
                    pooler between them (docs/operations/poolers.md)";
        lacking(Check::Fleet, true, found, todo)
    }))
}

/// Checks that notifications arrive, where processes would listen by the URL of all other connections: not through a pooler in transaction
/// mode. The check of the database tries another URL.
async fn listening(url: &str) -> Option<Finding> {
    let args = DatabaseArgs::of_environment(url);
    if args.bus != BusKind::Postgres || args.has_listen_url() {
        return None;
    }
    Some(match Db::inspect_listening(&args, "rejoin-doctor").await {
        Ok(()) => good(Check::Fleet, "notifications arrive at the connections of DATABASE_URL"),
        Err(unfit) => {
            let found = format!(
                "notifications do not arrive at the connections of DATABASE_URL: {:#}",
                anyhow::Error::new(unfit)
            );
            let todo = "is there a pooler in transaction mode? Set REJOIN_LISTEN_URL to PostgreSQL itself, or REJOIN_BUS=nats or poll \
                        (docs/operations/poolers.md)";
            lacking(Check::Fleet, true, found, todo)
        }
    })
}
