//! The end of a run, as the commands that end one describe it.

use serde_json::Value;
use uuid::Uuid;

use super::RunError;
use rejoin_types::events::DoneStatus;

/// How a run ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunEnd<'a> {
    pub status: DoneStatus,
    /// The answer, possibly partial.
    pub text: &'a str,
    pub error: Option<&'a RunError>,
    pub usage: &'a Value,
    pub final_message_id: Option<Uuid>,
}
