//! Errors that end an attempt, and the resulting outcome of its job.

use rejoin_commands::FencedError;

use crate::run::errors;

/// The reason why a run can't continue in this attempt.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    /// Stop, and write nothing.
    #[error("the lease was lost")]
    LeaseLost,
    /// An internal or database failure: another attempt may succeed.
    #[error("{0}")]
    Infrastructure(String),
    /// The database is unreachable or restarting: not the run's fault, and not counted as an attempt.
    #[error("{0}")]
    DatabaseAway(String),
    /// The database rejects what was to be stored, and always would.
    #[error("{0}")]
    Refused(String),
}

impl AttemptError {
    pub(super) fn of(attempted: &str, error: &sqlx::Error) -> Self {
        let text = format!("{attempted}: {error}");
        if rejoin_db::is_transient(error) {
            AttemptError::DatabaseAway(text)
        } else if rejoin_db::is_final(error) {
            AttemptError::Refused(errors::refusal(attempted, error))
        } else {
            AttemptError::Infrastructure(text)
        }
    }
}

impl From<sqlx::Error> for AttemptError {
    fn from(error: sqlx::Error) -> Self {
        AttemptError::of("the database", &error)
    }
}

impl From<FencedError> for AttemptError {
    fn from(error: FencedError) -> Self {
        match error {
            FencedError::LeaseLost => AttemptError::LeaseLost,
            FencedError::Database { attempted, source } => AttemptError::of(attempted, &source),
        }
    }
}

impl From<crate::run::LoadError> for AttemptError {
    fn from(error: crate::run::LoadError) -> Self {
        match error {
            crate::run::LoadError::Database(error) => AttemptError::of("reading the run's records", &error),
            crate::run::LoadError::Message(_) => AttemptError::Infrastructure(error.to_string()),
        }
    }
}
