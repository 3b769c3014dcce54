//! Limits and errors of the results that data source tools return to models.

use rejoin_tools::ToolError;

use crate::source::SourceError;

/// Default number of rows shown to a model.
pub(crate) const ROWS: u32 = 100;
/// Maximum size of an answer that a model is shown, in bytes.
pub(crate) const ANSWER_MAX_BYTES: usize = 128 * 1024;

pub(crate) fn internal(error: sqlx::Error) -> ToolError {
    ToolError::Internal {
        attempted: "reading the project's data sources".to_owned(),
        source: error.into(),
    }
}

/// Returns a source's error as an answer to the model.
pub(crate) fn to_model(error: SourceError) -> ToolError {
    ToolError::RespondToModel(error.to_string())
}
