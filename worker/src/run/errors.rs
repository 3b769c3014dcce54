//! Errors that end a run, worded for its user.

use rejoin_commands::RunError;
use rejoin_model_client::ModelError;
use rejoin_types::text::storable;

/// Returns a model's failure as the run's error.
pub(crate) fn of_model(error: &ModelError) -> RunError {
    RunError {
        code: error.code.to_owned(),
        message: storable(error.message.clone()),
        retryable: error.retryable,
    }
}

/// Returns the database's message of a rejection. (Its details may contain data, and are omitted.)
pub(crate) fn refusal(attempted: &str, error: &sqlx::Error) -> String {
    let reported = error
        .as_database_error()
        .map_or("it was rejected", |refusal| refusal.message());
    storable(format!(
        "{attempted} failed and would fail each time; the database reports {reported:?}"
    ))
}

/// Returns the end of a run whose records the database rejects.
pub(crate) fn refused_by_database(attempted: &str, error: &sqlx::Error) -> RunError {
    RunError {
        code: "refused_by_database".to_owned(),
        message: refusal(attempted, error),
        retryable: false,
    }
}
