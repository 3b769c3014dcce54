//! Checks each new connection before use. A pooler may silently drop startup options; the process would then work as
//! its login role, perhaps the tables' owner, who bypasses row-level security.
//!
//! The role is checked and not set here: behind a pooler, a setting of one session may leak into another. The same question finds out whether
//! the server accepts writes, where that is required.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::{AssertSqlSafe, PgConnection, Row};
use tokio_postgres::SimpleQueryMessage;
use tracing::{debug, error, warn};

use super::Role;
use crate::config::{DatabaseArgs, Pooler};
use crate::startup::LOOK_UPS;

/// The reason why a connection is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    #[error(
        "connections use the role {is} instead of {wanted}, so row-level security would not be enforced: a pooler \
        between this process and PostgreSQL drops startup options. Connect directly, or give the process its own \
        login with the role: create role LOGIN login; grant {wanted} to LOGIN; alter role LOGIN set role = {wanted} \
        (docs/operations/poolers.md)"
    )]
    Role { wanted: &'static str, is: String },
    #[error(
        "connections have synchronous_commit = {is}, so a crash of the server could lose events that readers have \
        already received: a pooler between this process and PostgreSQL drops startup options. Connect directly, or: \
        alter role LOGIN set synchronous_commit = on"
    )]
    Commit { is: String },
    #[error(
        "the database server only reads: it is a standby, or default_transaction_read_only is on. Name the server that accepts writes \
        in the database URL, or all servers: postgres://user@host1,host2/database (docs/operations/connections.md)"
    )]
    ReadOnly,
}

/// What connections without the requested timeouts are reported with. At worst, they are slower.
const NO_TIMEOUTS: &str = "connections do not have the requested timeouts: a pooler drops startup options; alter role LOGIN set \
    statement_timeout = …, and lock_timeout";
/// The same for the hot paths, which need planner settings, too.
const NO_LOOK_UPS: &str = "connections of the hot paths do not have the requested timeouts or planner settings, so statements may become \
    slow: give them a login with these settings by REJOIN_DB_HOT_URL (docs/operations/poolers.md)";

/// The connection check and its latest result. Shared by all connections of a process.
#[derive(Debug, Clone)]
pub struct Session {
    role: Role,
    /// A query of one row.
    question: Arc<str>,
    /// What is logged if the settings that do not matter for safety are others.
    warning: &'static str,
    /// Whether another server is looked for if this one only reads.
    is_followed: bool,
    refusal: Arc<Mutex<Option<String>>>,
    warned: Arc<AtomicBool>,
}

impl Session {
    /// The check of a process's connections, to servers that must accept writes or need not.
    pub(crate) fn new(args: &DatabaseArgs, role: Role, must_write: bool, is_followed: bool) -> Self {
        let milliseconds = |name: &str| format!("extract(epoch from current_setting('{name}')::interval) * 1000");
        let settings = format!(
            "{} = {} and {} = {}",
            milliseconds("statement_timeout"),
            args.db_statement_timeout_ms,
            milliseconds("lock_timeout"),
            args.db_lock_timeout_ms
        );
        Self {
            role,
            question: question(&settings, must_write),
            warning: NO_TIMEOUTS,
            is_followed,
            refusal: Arc::default(),
            warned: Arc::default(),
        }
    }

    /// The same for connections of the hot paths.
    pub(crate) fn of_hot_paths(&self, args: &DatabaseArgs, must_write: bool) -> Self {
        let hot = Self::new(args, self.role, must_write, self.is_followed);
        let mut check = Self {
            refusal: self.refusal.clone(),
            ..hot
        };
        if args.db_pooler == Pooler::Transaction {
            let planner = LOOK_UPS.map(|(name, value)| format!("current_setting('{name}') = '{value}'"));
            check.question = question(&planner.join(" and "), must_write);
            check.warning = NO_LOOK_UPS;
        } else {
            check.warned = self.warned.clone();
        }
        check
    }

    /// The same for connections with other timeouts.
    pub(crate) fn without_timeouts(&self, must_write: bool) -> Self {
        Self {
            question: question("true", must_write),
            ..self.clone()
        }
    }

    /// The reason why the newest connection was rejected. None: it was accepted.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks a connection of sqlx.
    pub async fn check(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let row = sqlx::raw_sql(AssertSqlSafe(self.question.to_string()))
            .fetch_one(connection)
            .await?;
        let judged = self.judge(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        judged.map_err(|refusal| sqlx::Error::Configuration(refusal.into()))
    }

    /// Checks a connection of tokio-postgres. The error is readable by operators.
    pub async fn check_pg(&self, client: &tokio_postgres::Client) -> Result<(), CheckError> {
        let rows = client.simple_query(&self.question).await?;
        let row = rows.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let column = |at| row.and_then(|row| row.get(at)).unwrap_or_default();
        Ok(self.judge(column(0), column(1), column(2), column(3))?)
    }

    fn judge(&self, user: &str, synchronous_commit: &str, settings: &str, read_only: &str) -> Result<(), Unsafe> {
        let verdict = if read_only == "on" {
            Err(Unsafe::ReadOnly)
        } else {
            judge(self.role, user, synchronous_commit)
        };
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let now = verdict.as_ref().err().map(ToString::to_string);
        if let Some(reason) = &now
            && refusal.is_none()
        {
            if verdict == Err(Unsafe::ReadOnly) && self.is_followed {
                debug!(reason, "a database connection is not used");
            } else {
                error!(reason, "a database connection has unsafe settings and is not used");
            }
        }
        *refusal = now;
        if verdict.is_ok() && settings != "true" && !self.warned.swap(true, Ordering::Relaxed) {
            warn!("{}", self.warning);
        }
        verdict
    }
}

/// The query of a check: role, commits, whether other settings are as requested, and whether the server refuses writes, if that matters.
fn question(settings: &str, must_write: bool) -> Arc<str> {
    let read_only = if must_write {
        "current_setting('transaction_read_only')"
    } else {
        "'unknown'::text"
    };
    format!("select current_user::text, current_setting('synchronous_commit'), ({settings})::text, {read_only}").into()
}

/// A connection could not be checked, or must not be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    #[error("checking a new connection failed")]
    Postgres(#[from] tokio_postgres::Error),
}

fn judge(role: Role, user: &str, synchronous_commit: &str) -> Result<(), Unsafe> {
    match role.name() {
        Some(wanted) if wanted != user => Err(Unsafe::Role {
            wanted,
            is: user.to_owned(),
        }),
        Some(_) | None if !matches!(synchronous_commit, "on" | "remote_apply") => Err(Unsafe::Commit {
            is: synchronous_commit.to_owned(),
        }),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_only_reads_is_refused_if_writes_are_needed() {
        let args = DatabaseArgs::new("postgres://h/db");
        let session = Session::new(&args, Role::Login, true, true);
        assert!(session.question.contains("transaction_read_only"));
        assert_eq!(session.judge("rejoin", "on", "true", "on"), Err(Unsafe::ReadOnly));
        assert!(session.refusal().unwrap().contains("only reads"));
        assert_eq!(session.judge("rejoin", "on", "true", "off"), Ok(()));
        assert_eq!(session.refusal(), None);
        assert!(
            !Session::new(&args, Role::Login, false, false)
                .question
                .contains("read_only")
        );
    }

    #[test]
    fn a_connection_needs_its_role_and_synchronous_commits() {
        assert_eq!(judge(Role::App, "rejoin_app", "on"), Ok(()));
        assert_eq!(judge(Role::Worker, "rejoin_worker", "remote_apply"), Ok(()));
        assert_eq!(judge(Role::Login, "anybody", "on"), Ok(()));
        let is = "rejoin".to_owned();
        let wanted = "rejoin_app";
        assert_eq!(judge(Role::App, "rejoin", "on"), Err(Unsafe::Role { wanted, is }));
        for is in ["off", "local", "remote_write"] {
            let is = is.to_owned();
            assert_eq!(
                judge(Role::Login, "rejoin", &is),
                Err(Unsafe::Commit { is: is.clone() })
            );
        }
    }
}
