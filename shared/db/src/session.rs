//! Checks each new connection before use. A pooler may silently drop startup options; the process would then work as
//! its login role, perhaps the tables' owner, who bypasses row-level security.
//!
//! The role is checked and not set here: behind a pooler, a setting of one session may leak into another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::{AssertSqlSafe, PgConnection, Row};
use tokio_postgres::SimpleQueryMessage;
use tracing::{error, warn};

use super::Role;
use crate::config::DatabaseArgs;

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
}

/// The connection check and its latest result. Shared by all connections of a process.
#[derive(Debug, Clone)]
pub struct Session {
    role: Role,
    /// A query of one row.
    question: Arc<str>,
    refusal: Arc<Mutex<Option<String>>>,
    warned: Arc<AtomicBool>,
}

impl Session {
    pub fn new(args: &DatabaseArgs, role: Role) -> Self {
        let milliseconds = |name: &str| format!("extract(epoch from current_setting('{name}')::interval) * 1000");
        let question = format!(
            "select current_user::text, current_setting('synchronous_commit'), ({} = {} and {} = {})::text",
            milliseconds("statement_timeout"),
            args.db_statement_timeout_ms,
            milliseconds("lock_timeout"),
            args.db_lock_timeout_ms
        );
        Self {
            role,
            question: question.into(),
            refusal: Arc::default(),
            warned: Arc::default(),
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
        let judged = self.judge(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
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
        Ok(self.judge(column(0), column(1), column(2))?)
    }

    fn judge(&self, user: &str, synchronous_commit: &str, timeouts: &str) -> Result<(), Unsafe> {
        let verdict = judge(self.role, user, synchronous_commit);
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let now = verdict.as_ref().err().map(ToString::to_string);
        if let Some(reason) = &now
            && refusal.is_none()
        {
            error!(reason, "a database connection has unsafe settings and is not used");
        }
        *refusal = now;
        // At worst, it is slower.
        if verdict.is_ok() && timeouts != "true" && !self.warned.swap(true, Ordering::Relaxed) {
            warn!(
                "connections do not have the requested timeouts: a pooler drops startup options; alter role LOGIN set \
                statement_timeout = …, and lock_timeout"
            );
        }
        verdict
    }
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
