//! Errors of the drivers: which are transient, and the outcome of a commit without an answer.

use std::time::Duration;

use crate::{connection_loss, password};

/// Interval between lookups of a transaction's outcome, and their maximum number.
const OUTCOME_RETRY: Duration = Duration::from_millis(100);
const OUTCOME_TRIES: u32 = 100;

/// Waits until a transaction whose COMMIT was not answered is no longer in progress: the broken connection's server
/// process may not have noticed yet. The caller must determine whether it took effect from the data it would have left,
/// not from its id: after a crash, unflushed ids are reused. An error: the server could not be asked, or is still busy.
pub async fn wait_until_decided(db: &sqlx::PgPool, xid: &str) -> Result<(), sqlx::Error> {
    let mut undecided = sqlx::Error::Protocol(format!("transaction {xid} is still in progress"));
    for _ in 0..OUTCOME_TRIES {
        let asked = sqlx::query_scalar!("select pg_xact_status($1::text::xid8)", xid)
            .fetch_one(db)
            .await;
        match asked {
            Ok(Some(status)) if status == "in progress" => {}
            Ok(_) => return Ok(()),
            // "That id is in the future": it was lost in a crash, so that nothing is in progress.
            Err(error) if error.as_database_error().and_then(|e| e.code()).as_deref() == Some("22023") => return Ok(()),
            Err(error) if is_transient(&error) => undecided = error,
            Err(error) => return Err(error),
        }
        tokio::time::sleep(OUTCOME_RETRY).await;
    }
    Err(undecided)
}

/// Returns whether the same transaction may be retried: the connection broke, the server reported a deadlock or
/// serialization failure, or it is starting or stopping, or has become a standby. The latter is noted: other connections to it are
/// replaced.
pub fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(database) => database.code().is_some_and(|code| is_transient_code(&code)),
        _ => false,
    }
}

/// Returns whether the connection was lost, so that the server does nothing more for it: its server process has ended, and may have said so.
pub(crate) fn is_connection_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(database) => database
            .code()
            .is_some_and(|code| code.starts_with("08") || matches!(&*code, "57P01" | "57P02")),
        _ => false,
    }
}

/// A statement of the hot paths failed.
#[derive(Debug, thiserror::Error)]
pub enum PgError {
    #[error("no connection to the database")]
    Pool(#[from] deadpool_postgres::PoolError),
    #[error("a statement failed")]
    Statement(#[source] tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(code) = error.code() {
            connection_loss::note(code.code());
        }
        PgError::Statement(error)
    }
}

impl PgError {
    /// Whether the same statement may be tried again.
    pub fn is_transient(&self) -> bool {
        match self {
            PgError::Pool(_) => true,
            PgError::Statement(error) => is_transient_pg(error),
        }
    }
}

/// The same for tokio-postgres.
pub fn is_transient_pg(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => is_transient_code(code.code()),
        None => true,
    }
}

/// Returns whether the same work fails each time: the database rejects the values themselves (class 22, 54) or a
/// constraint that time does not change.
pub fn is_final(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|refusal| refusal.code());
    // A referenced row (23503) may have been deleted meanwhile: the next attempt sees that.
    code.is_some_and(|code| {
        code.starts_with("22") || code.starts_with("54") || matches!(&*code, "23502" | "23505" | "23514")
    })
}

/// Returns whether the work may succeed later, by SQLSTATE: connection failures, rollbacks, lack of resources, shutdown
/// and start, a database that accepts no connections, a server that is a standby, an idle transaction timeout; a refused login, if its
/// password may change.
fn is_transient_code(code: &str) -> bool {
    connection_loss::note(code);
    if matches!(code, "28P01" | "28000") {
        return password::may_change();
    }
    ["08", "40", "53"].iter().any(|class| code.starts_with(class))
        || matches!(
            code,
            "57P01" | "57P02" | "57P03" | "57P05" | "55P03" | "57014" | "55000" | "25006" | "25P03"
        )
}
