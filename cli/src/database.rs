//! The database and the project of `queue`, `keys`, `projects` and `graph`.
//!
//! Invariant: if the project is ambiguous, nothing is done.
use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use rejoin_db::operators;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{dev_instance, exit::Exit, global::Global};

/// One for the statement, one for concurrent work.
const CONNECTIONS: u32 = 2;
const CONNECT_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);
/// Maximum number of names listed in a message.
const LISTED: i64 = 20;

/// Connects to the given database, or to that of `rejoin dev` on this machine.
///
/// # Errors
/// None was given, or it can't be reached.
pub async fn connect(global: &Global) -> Result<PgPool> {
    connect_to(&dev_instance::database_url(global)?).await
}

/// # Errors
/// It can't be reached.
pub async fn connect_to(url: &str) -> Result<PgPool> {
    let pool = operators::pool(url, "rejoin-cli", CONNECTIONS, CONNECT_LIMIT).await;
    pool.context("connecting to the database failed (`rejoin doctor --only database` checks it)")
}

/// Returns the database's time, with which stored times are compared.
///
/// # Errors
/// It can't be queried.
pub async fn now(pool: &PgPool) -> Result<DateTime<Utc>> {
    sqlx::query_scalar("select now()")
        .fetch_one(pool)
        .await
        .context("reading the database's clock failed")
}

/// Returns the project with this name or id; without one, that of `rejoin dev`, or the only one.
///
/// # Errors
/// There is none, or it is ambiguous.
pub async fn project(pool: &PgPool, asked: Option<&str>) -> Result<Uuid> {
    let all: Vec<(Uuid, String)> = sqlx::query_as("select id, name from kb.projects order by created_at limit $1")
        .bind(LISTED)
        .fetch_all(pool)
        .await
        .context("reading the projects failed (`rejoin migrate status` shows whether the schema exists)")?;
    let listed = || {
        let names: Vec<String> = all.iter().map(|(id, name)| format!("{name} ({id})")).collect();
        if names.is_empty() {
            "there are no projects yet".to_owned()
        } else {
            format!("projects: {}", names.join(", "))
        }
    };
    if let Some(asked) = asked {
        let found: Vec<Uuid> = sqlx::query_scalar("select id from kb.projects where id::text = $1 or name = $1")
            .bind(asked)
            .fetch_all(pool)
            .await
            .context("looking up the project failed")?;
        return match found.as_slice() {
            [only] => Ok(*only),
            [] => Err(Exit::NotFound
                .because(format!("there is no project {asked:?}; {}", listed()))
                .into()),
            _ => anyhow::bail!("several projects are named {asked:?}; use an id; {}", listed()),
        };
    }
    let here = dev_instance::DevInstance::here().map(|current| current.workspace_id);
    match (all.as_slice(), here) {
        ([(only, _)], _) => Ok(*only),
        (all, Some(here)) if all.iter().any(|(id, _)| *id == here) => Ok(here),
        ([], _) => Err(Exit::NotFound
            .because(
                "there is no project yet; create one with `rejoin keys create --create --project NAME --user \
                HANDLE`",
            )
            .into()),
        _ => anyhow::bail!("no project given: pass --project NAME or ID; {}", listed()),
    }
}
