//! Checks what API and worker processes need: roles bound by row-level security, wake-ups, enough connections, and a live worker.
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use rejoin_db::config::{BusKind, DatabaseArgs};
use rejoin_db::{Db, Role, Unfit, operators};
use rejoin_queue::lease;
use sqlx::{PgConnection, Row};

use super::{Check, Finding, answer_limit, good, lacking};

/// Number of missed heartbeats after which a worker is unhealthy.
const MISSED_BEATS: u64 = 3;

/// How a process of the fleet would be set up here.
#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    database: DatabaseArgs,
    #[arg(long, env = "REJOIN_HEARTBEAT_MS", default_value_t = lease::HEARTBEAT.as_millis() as u64)]
    heartbeat_ms: u64,
}

impl Settings {
    fn of(url: &str) -> Self {
        Self::try_parse_from(["rejoin", "--database-url", url]).unwrap_or_else(|_| Self {
            database: DatabaseArgs::new(url),
            heartbeat_ms: lease::HEARTBEAT.as_millis() as u64,
        })
    }
}

/// Checks whether API and workers would work behind row-level security.
pub(super) async fn row_security(connection: &mut PgConnection, url: &str) -> Result<Vec<Finding>> {
    let args = Settings::of(url).database;
    let mut findings: Vec<Finding> = Vec::new();
    for (role, name, whose) in [
        (Role::App, "rejoin_app", "API processes"),
        (Role::Worker, "rejoin_worker", "workers"),
    ] {
        let may: Option<bool> =
            sqlx::query_scalar("select pg_has_role(session_user, oid, 'member') from pg_roles where rolname = $1")
                .bind(name)
                .fetch_optional(&mut *connection)
                .await?;
        if may == Some(false) {
            let found = format!("the login of DATABASE_URL does not have the role {name}; {whose} cannot use it");
            findings.push(lacking(
                Check::Database,
                false,
                found,
                format!("fine if {whose} use another login"),
            ));
            continue;
        }
        let finding = match Db::inspect(&args, "rejoin-doctor", role).await {
            Ok(()) => good(
                Check::Database,
                format!("{whose} run as {name}, with row-level security"),
            ),
            Err(Unfit::RowSecurity(lack)) => lacking(Check::Database, true, lack.to_string(), lack.advice()),
            Err(
                unfit @ (Unfit::Url(_)
                | Unfit::Settings(_)
                | Unfit::Connect(_)
                | Unfit::Listen(_)
                | Unfit::Session(_)
                | Unfit::Role { .. }),
            ) => {
                let found = format!("{whose} cannot run: {:#}", anyhow::Error::new(unfit));
                lacking(
                    Check::Database,
                    true,
                    found,
                    "see docs/operations/connections.md, docs/operations/poolers.md and docs/operations/recovery.md",
                )
            }
        };
        // A fault of both is reported once.
        if !findings.iter().any(|earlier| earlier.found == finding.found) {
            findings.push(finding);
        }
    }
    Ok(findings)
}

/// Checks the connection that listens for wake-ups, if it has another URL than the others.
pub(super) async fn listening(url: &str) -> Option<Finding> {
    let args = Settings::of(url).database;
    if !args.has_listen_url() {
        return None;
    }
    Some(match Db::inspect_listening(&args, "rejoin-doctor").await {
        Ok(()) => good(
            Check::Database,
            "notifications arrive at the connection of REJOIN_LISTEN_URL",
        ),
        Err(unfit) => {
            let found = format!(
                "the connection of REJOIN_LISTEN_URL is not usable: {:#}",
                anyhow::Error::new(unfit)
            );
            let todo = "it must lead to PostgreSQL itself, without a pooler: see docs/operations/poolers.md";
            lacking(Check::Database, true, found, todo)
        }
    })
}

/// Checks whether all processes could use their maximum of connections.
pub(super) async fn connections(connection: &mut PgConnection) -> Result<Option<Finding>> {
    let args = Settings::of("postgres://").database;
    let for_listen = i64::from(args.bus == BusKind::Postgres);
    let each = i64::from(args.db_connections) + i64::try_from(args.db_hot_connections).unwrap_or(i64::MAX) + for_listen;
    let row = sqlx::query(
        "select current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint,
                (select count(*) from pg_stat_activity where application_name in ('rejoin-api', 'rejoin-api-listen')),
                (select count(*) from pg_stat_activity where application_name in ('rejoin-worker', 'rejoin-worker-listen')),
                (select count(*) from queue.workers where seen_at > now() - make_interval(secs => 60))",
    )
    .fetch_one(connection)
    .await?;
    let (usable, of_apis, of_workers, known): (i64, i64, i64, i64) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    let at_least = |connections: i64| (connections + each - 1) / each;
    Ok(fits(usable, at_least(of_apis) + known.max(at_least(of_workers)), each))
}

fn fits(usable: i64, processes: i64, each: i64) -> Option<Finding> {
    let wanted = processes * each;
    (wanted > usable).then(|| {
        let found = format!(
            "{processes} processes of the fleet may open {wanted} connections ({each} each), but the database allows \
            {usable}"
        );
        let todo = "raise max_connections, or lower REJOIN_DB_CONNECTIONS and REJOIN_DB_HOT_CONNECTIONS of each process \
                    (docs/reference/configuration.md)";
        lacking(Check::Database, false, found, todo)
    })
}

/// Checks whether a worker of this machine sends heartbeats.
pub(super) async fn worker(url: Option<&str>, host: Option<&str>) -> Finding {
    let check = Check::Worker;
    let Some(url) = url else {
        return lacking(
            check,
            true,
            "DATABASE_URL is not set, so workers cannot be checked",
            "export DATABASE_URL=…",
        );
    };
    let here = rejoin_worker::services::hostname();
    let host = host.unwrap_or(&here);
    let asked = async {
        let mut connection = operators::connect(url, "rejoin-doctor").await?;
        let seen = sqlx::query_scalar::<_, f64>(
            "select extract(epoch from now() - seen_at)::float8 from queue.workers where hostname = $1 order by 1 limit 1",
        )
        .bind(host)
        .fetch_optional(&mut connection)
        .await?;
        anyhow::Ok(seen)
    };
    let limit = Duration::from_millis(Settings::of(url).heartbeat_ms * MISSED_BEATS);
    let todo = "check its log; kill a worker that hangs: its runs continue elsewhere";
    let limit_of_answer = answer_limit(url);
    match tokio::time::timeout(limit_of_answer, asked).await {
        Err(_) => lacking(
            check,
            true,
            format!("the database does not respond within {limit_of_answer:?}"),
            "rejoin doctor",
        ),
        Ok(Err(error)) => lacking(
            check,
            true,
            format!("looking up workers failed: {error:#}"),
            "rejoin doctor",
        ),
        Ok(Ok(None)) => lacking(
            check,
            true,
            format!("there is no worker on {host}"),
            "start one: rejoin worker",
        ),
        Ok(Ok(Some(ago_s))) if ago_s > limit.as_secs_f64() => {
            let found = format!("the last heartbeat of the worker on {host} was {ago_s:.0} s ago");
            lacking(check, true, found, todo)
        }
        Ok(Ok(Some(ago_s))) => good(check, format!("a worker on {host} sent a heartbeat {ago_s:.0} s ago")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_database_connections_are_an_error_with_both_numbers() {
        assert!(fits(97, 5, 17).is_none());
        let result = fits(97, 6, 17).unwrap();
        assert!(
            result.found.contains("6 processes")
                && result.found.contains("102 connections")
                && result.found.contains("allows 97")
        );
    }
}
