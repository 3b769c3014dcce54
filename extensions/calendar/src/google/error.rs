//! The error of a synchronization with Google Calendar.

use rejoin_secrets::SecretError;

use super::client::GoogleError;
use super::links::FenceError;

/// The reason why a sync stopped early.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    #[error(transparent)]
    Google(#[from] GoogleError),
    #[error(transparent)]
    Token(#[from] SecretError),
    #[error("the workers have no master keys; set REJOIN_SECRET_KEYS_FILE")]
    NoKeys,
    #[error("another job has taken over")]
    Over,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl From<FenceError> for SyncError {
    fn from(error: FenceError) -> Self {
        match error {
            FenceError::Over => SyncError::Over,
            FenceError::Database(error) => SyncError::Database(error),
        }
    }
}
