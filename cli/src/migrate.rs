//! `rejoin migrate`: migrates the schema up or down, and shows its state. The migrations are built into the binary.
//!
//! `rejoin dev` and the tests call [`up`] and [`down`] directly. Invariant: one migrator at a time (an advisory lock of
//! the database), and an applied migration never changes (checksums). A database from before the first release is refused
//! ([`UNRELEASED`]).

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Utc};
use clap::Subcommand;
use rejoin_db::config::{DatabaseArgs, Pooler};
use rejoin_db::operators;
use serde::Serialize;
use sqlx::{
    Connection, PgConnection, Row,
    migrate::{Migrate, Migrator},
};
use tokio::time::{Instant, sleep};

use crate::{exit::Exit, global::Global, out::Out};

pub static MIGRATOR: Migrator = sqlx::migrate!("../migrations");

/// Apply, revert or show the migrations of the database schema.
///
/// Run `up` once per release, before its API and workers start. A release only adds to the schema, so that processes of
/// the old release keep working.
///
/// Examples:
///   rejoin migrate status
///   rejoin migrate up --database-url postgres://rejoin@db.internal/rejoin
///   rejoin migrate down --steps 2
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Apply pending migrations.
    Up {
        /// How long to wait for a database that does not respond yet, in seconds; 0: do not wait.
        #[arg(long, env = "REJOIN_MIGRATE_WAIT_S", default_value_t = 60)]
        wait_s: u64,
    },
    /// Revert the newest migrations. Data stored by them is lost.
    Down {
        /// Number of migrations to revert.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "all")]
        steps: u16,
        /// Revert all migrations, which leaves an empty database.
        #[arg(long)]
        all: bool,
    },
    /// Show each migration and whether it is applied. Changes nothing.
    Status,
}

/// A migration's state, here and in the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    pub version: i64,
    pub name: String,
    pub state: State,
    pub applied_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Applied,
    Pending,
    /// Applied with different content than this binary's.
    Changed,
    /// Applied by a newer binary.
    Newer,
    /// Applied by a version from before the first release, whose migrations were others.
    BeforeRelease,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Applied => "applied",
            State::Pending => "pending",
            State::Changed => "CHANGED since it was applied",
            State::Newer => "newer than this binary",
            State::BeforeRelease => "from before the first release",
        }
    }
}

/// Why a database is refused that was made by a version from before the first release, and what to do about it.
pub const UNRELEASED: &str = "this database was made by a version from before the first release; this version cannot \
    use or migrate it, and has changed nothing. Use a new database: create an empty one, set DATABASE_URL to its \
    address and run `rejoin migrate up` (for `rejoin dev`: another --data-dir). To keep the data, copy it into the new \
    database as docs/operations/recovery.md says, or export the graph with the version that made it (`rejoin graph \
    export`) and import it here";

/// # Errors
/// No database was given, it can't be reached, or a migration fails.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let url = global.need_database_url()?;
    let changed = match args.action {
        Action::Up { wait_s } => up_when_ready(url, Duration::from_secs(wait_s), out).await?,
        Action::Down { all: true, .. } => down(url, usize::MAX).await?,
        Action::Down { steps, .. } => down(url, usize::from(steps)).await?,
        Action::Status => return show(&status(url).await?, out),
    };
    if out.is_json() {
        out.json(&serde_json::json!({ "changed": changed }))?;
    } else if changed.is_empty() {
        out.line("nothing to do")?;
    } else {
        for version in changed {
            out.line(&format!(
                "{} {}",
                named(version),
                if matches!(args.action, Action::Up { .. }) {
                    "applied"
                } else {
                    "reverted"
                }
            ))?;
        }
    }
    Ok(Exit::Done)
}

/// Retry interval while a database is not up yet, and number of retries between messages.
const RETRY: Duration = Duration::from_millis(500);
const TELL_EVERY: u32 = 20;

/// [`up`], once the database responds.
///
/// # Errors
/// It does not respond within `wait`, or a migration fails.
async fn up_when_ready(url: &str, wait: Duration, out: Out) -> Result<Vec<i64>> {
    let give_up = Instant::now() + wait;
    let mut tries = 0_u32;
    loop {
        let error = match up(url).await {
            Ok(changed) => return Ok(changed),
            Err(error) => error,
        };
        let passes = Exit::may_pass(&error);
        if !passes || Instant::now() + RETRY > give_up {
            return Err(error);
        }
        if tries.is_multiple_of(TELL_EVERY) {
            out.note(&format!(
                "the database does not respond yet; retrying for {} s: {error:#}",
                wait.as_secs()
            ));
        }
        tries += 1;
        sleep(RETRY).await;
    }
}

fn show(lines: &[Line], out: Out) -> Result<Exit> {
    if out.is_json() {
        out.json(&lines)?;
    } else {
        let rows: Vec<[String; 3]> = lines
            .iter()
            .map(|line| {
                let at = line.applied_at.map(|at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string());
                [
                    format!("{:04} {}", line.version, line.name),
                    line.state.word().to_owned(),
                    at.unwrap_or_default(),
                ]
            })
            .collect();
        out.table(["MIGRATION", "STATE", "AT"], &rows)?;
    }
    Ok(Exit::Done)
}

/// Applies missing migrations; returns their versions.
///
/// # Errors
/// The database can't be reached, a migration fails (without effect), or an applied one has changed.
pub async fn up(url: &str) -> Result<Vec<i64>> {
    refuse_pooler(url)?;
    let mut connection = connect(url).await?;
    refuse_unreleased(&mut connection).await?;
    let before = applied(&mut connection).await?;
    MIGRATOR
        .run(&mut connection)
        .await
        .context("migrating the schema failed")?;
    let after = applied(&mut connection).await?;
    let extensions = rejoin_registry::extensions(rejoin_registry::Settings::default());
    rejoin_extension::migration::migrate(&mut connection, &extensions)
        .await
        .context("creating the tables of extensions failed")?;
    connection.close().await?;
    Ok(after.into_iter().filter(|version| !before.contains(version)).collect())
}

/// Reverts the newest `steps` migrations; returns their versions, newest first.
///
/// # Errors
/// The database can't be reached, a migration can't be reverted, or it is unknown to this binary.
pub async fn down(url: &str, steps: usize) -> Result<Vec<i64>> {
    refuse_pooler(url)?;
    let mut connection = connect(url).await?;
    refuse_unreleased(&mut connection).await?;
    let mut newest_first = applied(&mut connection).await?;
    newest_first.reverse();
    let target = newest_first.get(steps).copied().unwrap_or(0);
    newest_first.truncate(steps);
    for version in &newest_first {
        ensure!(
            MIGRATOR.version_exists(*version),
            "migration {version:04} was applied by a newer binary; only that binary can revert it"
        );
    }
    if !newest_first.is_empty() {
        MIGRATOR
            .undo(&mut connection, target)
            .await
            .context("reverting migrations failed")?;
    }
    connection.close().await?;
    Ok(newest_first)
}

/// Returns every migration known to this binary or the database, oldest first.
///
/// # Errors
/// The database can't be reached.
pub async fn status(url: &str) -> Result<Vec<Line>> {
    let mut connection = connect(url).await?;
    let mut lines: Vec<Line> = MIGRATOR
        .iter()
        .filter(|migration| migration.migration_type.is_up_migration())
        .map(|migration| Line {
            version: migration.version,
            name: migration.description.replace(' ', "_"),
            state: State::Pending,
            applied_at: None,
        })
        .collect();
    if has_table(&mut connection).await? {
        let unreleased = is_unreleased(&mut connection).await?;
        let rows =
            sqlx::query("select version, description, checksum, installed_on from _sqlx_migrations order by version")
                .fetch_all(&mut connection)
                .await
                .context("reading the applied migrations failed")?;
        for row in rows {
            let version: i64 = row.try_get("version")?;
            let checksum: Vec<u8> = row.try_get("checksum")?;
            let applied_at = Some(row.try_get("installed_on")?);
            let ours = MIGRATOR
                .iter()
                .find(|ours| ours.version == version && ours.migration_type.is_up_migration());
            match (lines.iter_mut().find(|line| line.version == version), ours) {
                (Some(line), Some(ours)) => {
                    line.applied_at = applied_at;
                    line.state = if *ours.checksum == *checksum {
                        State::Applied
                    } else if unreleased {
                        State::BeforeRelease
                    } else {
                        State::Changed
                    };
                }
                _ => {
                    let name: String = row.try_get("description")?;
                    lines.push(Line {
                        version,
                        name: name.replace(' ', "_"),
                        state: if unreleased { State::BeforeRelease } else { State::Newer },
                        applied_at,
                    });
                }
            }
        }
    }
    connection.close().await?;
    Ok(lines)
}

/// Returns the applied versions, oldest first.
async fn applied(connection: &mut PgConnection) -> Result<Vec<i64>> {
    if !has_table(connection).await? {
        return Ok(Vec::new());
    }
    let applied = connection
        .list_applied_migrations("_sqlx_migrations")
        .await
        .context("reading the applied migrations failed")?;
    Ok(applied.into_iter().map(|migration| migration.version).collect())
}

/// Refuses a database that was made by a version from before the first release.
///
/// # Errors
/// It is one ([`UNRELEASED`]), or it can't be reached.
async fn refuse_unreleased(connection: &mut PgConnection) -> Result<()> {
    if is_unreleased(connection).await? {
        return Err(Exit::Failed.because(UNRELEASED).into());
    }
    Ok(())
}

/// Whether a version from before the first release made this database: a migration with one of our numbers was applied
/// under another name. Released migrations keep their names.
async fn is_unreleased(connection: &mut PgConnection) -> Result<bool> {
    if !has_table(connection).await? {
        return Ok(false);
    }
    let applied: Vec<(i64, String)> = sqlx::query_as("select version, description from _sqlx_migrations")
        .fetch_all(connection)
        .await
        .context("reading the applied migrations failed")?;
    Ok(MIGRATOR.iter().any(|ours| {
        applied
            .iter()
            .any(|(version, name)| *version == ours.version && *name != ours.description)
    }))
}

/// A database that was never migrated has no table, and checking must not create it.
async fn has_table(connection: &mut PgConnection) -> Result<bool> {
    Ok(sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(connection)
        .await?)
}

async fn connect(url: &str) -> Result<PgConnection> {
    Ok(operators::connect(url, "rejoin-migrate").await?)
}

/// Refuses to migrate through a pooler in transaction mode: the lock of a migration belongs to a session.
///
/// # Errors
/// The settings name one.
fn refuse_pooler(url: &str) -> Result<()> {
    let through = DatabaseArgs::of_environment(url).db_pooler;
    ensure!(
        through == Pooler::None,
        "migrations need a direct connection: set DATABASE_URL to a URL of PostgreSQL itself, and REJOIN_DB_POOLER=none"
    );
    Ok(())
}

fn named(version: i64) -> String {
    let name = MIGRATOR.iter().find(|migration| migration.version == version);
    format!(
        "{version:04} {}",
        name.map_or_else(String::new, |migration| migration.description.replace(' ', "_"))
    )
}

#[cfg(test)]
mod tests;
