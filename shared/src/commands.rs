//! Verbs: each changes several nouns in ONE transaction, `command.apply(&mut tx)`. The caller commits, and then sends the
//! wake-ups that the outcome names.
//!
//! - `post_message`   a user's message, its run and its job           (API)
//! - `trigger_run`    a run without a conversation                    (API)
//! - `cancel_run`     asks a run to stop, or ends one not yet begun   (API)
//! - `delete_conversation`                                            (API)
//! - `start_run`      an attempt begins: `meta`, or `reset`           (worker)
//! - `record_step`    a model's answer and the calls it asked for     (worker)
//! - `record_tool`    a call is about to act; a call is over          (worker)
//! - `finish_run`     the answer, the run's end, `done`, the job      (worker)
//!
//! Order of locks, against deadlocks: the job (KEY SHARE, as a fence), the log, the run, then whatever else; a command without
//! a fence takes the log first.

pub mod cancel_run;
pub mod delete_conversation;
pub mod finish_run;
pub mod post_message;
pub mod record_step;
pub mod record_tool;
pub mod start_run;
pub mod trigger_run;

pub use cancel_run::CancelRun;
pub use delete_conversation::DeleteConversation;
pub use finish_run::{FinishRun, RunError};
pub use post_message::{OnBusy, PostError, PostMessage, Posted};
pub use record_step::{AskedCall, RecordStep};
pub use record_tool::{ToolEnded, ToolStarted};
pub use start_run::{StartRun, Started};
pub use trigger_run::TriggerRun;

/// Why a worker's command changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum FencedError {
    /// The lease was lost: another attempt owns the run, or it has ended. Stop, and write nothing.
    #[error("the lease of the run was lost")]
    LeaseLost,
    #[error("{attempted} failed")]
    Database {
        attempted: &'static str,
        #[source]
        source: sqlx::Error,
    },
}

impl FencedError {
    fn database(attempted: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| FencedError::Database { attempted, source }
    }
}

/// How times look on the wire: RFC 3339 in UTC, with microseconds.
fn wire_time(at: chrono::DateTime<chrono::Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}
