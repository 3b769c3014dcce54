//! The states of a task.

use serde_json::{Value, json};

/// The state of a task, as far as a run of ours has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    Submitted,
    Working,
    /// The run waits for a person, or was paused by a limit.
    InputRequired,
    Completed,
    Failed,
    Canceled,
}

impl TaskState {
    const ALL: [Self; 6] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
    ];

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "TASK_STATE_SUBMITTED",
            Self::Working => "TASK_STATE_WORKING",
            Self::InputRequired => "TASK_STATE_INPUT_REQUIRED",
            Self::Completed => "TASK_STATE_COMPLETED",
            Self::Failed => "TASK_STATE_FAILED",
            Self::Canceled => "TASK_STATE_CANCELED",
        }
    }

    /// Reads a name on the wire. None: a run of ours has no such state.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether the task accepts no further messages.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Submitted | Self::Working | Self::InputRequired => false,
            Self::Completed | Self::Failed | Self::Canceled => true,
        }
    }

    /// The state of a stored run. `has_started`: a worker has begun it; `is_asking`: a person is asked.
    pub fn of_run(state: &str, has_started: bool, is_asking: bool) -> Self {
        match state {
            "queued" if !has_started => Self::Submitted,
            "waiting" if is_asking => Self::InputRequired,
            "paused" => Self::InputRequired,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Canceled,
            _ => Self::Working,
        }
    }

    /// A task's status.
    pub(super) fn status(self, message: Option<&Value>) -> Value {
        let mut status = json!({ "state": self.as_str() });
        if let Some(message) = message {
            status["message"] = message.clone();
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for state in TaskState::ALL {
            assert_eq!(TaskState::parse(state.as_str()), Some(state));
        }
        assert_eq!(TaskState::parse("TASK_STATE_REJECTED"), None);
    }

    #[test]
    fn a_stored_run_has_a_state() {
        for (state, has_started, is_asking, task) in [
            ("queued", false, false, TaskState::Submitted),
            ("queued", true, false, TaskState::Working),
            ("running", true, false, TaskState::Working),
            ("waiting", true, false, TaskState::Working),
            ("waiting", true, true, TaskState::InputRequired),
            ("paused", true, false, TaskState::InputRequired),
            ("cancelled", false, false, TaskState::Canceled),
        ] {
            assert_eq!(TaskState::of_run(state, has_started, is_asking), task, "{state}");
        }
    }
}
