//! What a client's receiver is sent: a `StreamResponse` with the task as it was at a number of its log; or, if its events are no longer stored,
//! with its state alone. Called by the job that sends notifications.

use serde_json::{Value, json};

use super::fold::{Context, TaskFold};
use super::state::TaskState;

/// The media type of a notification.
pub const MEDIA_TYPE: &str = "application/a2a+json";
/// The header with the token of the config.
pub const TOKEN_HEADER: &str = "x-a2a-notification-token";

/// A task that is folded for a notification.
#[derive(Debug)]
pub struct Notification(TaskFold);

impl Notification {
    /// The task before its first event.
    pub fn new(about: Context) -> Self {
        Self(TaskFold::new(about))
    }

    /// Takes the next event that readers of the run see.
    pub fn take(&mut self, seq: i64, event: &Value) {
        self.0.apply(seq, event);
    }

    /// The task after these events, whose state it entered at this time, in RFC 3339.
    pub fn task(&self, timestamp: &str) -> Value {
        let mut task = self.0.task(None);
        task["status"]["timestamp"] = timestamp.into();
        json!({ "task": task })
    }
}

/// The same without the task's content.
pub fn state_alone(about: &Context, state: TaskState, timestamp: &str) -> Value {
    json!({"statusUpdate": {
        "taskId": about.task_id, "contextId": about.context_id,
        "status": {"state": state.as_str(), "timestamp": timestamp},
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> Context {
        Context {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            origin: String::new(),
        }
    }

    fn folded(events: &[Value]) -> Value {
        let mut notification = Notification::new(about());
        for (seq, event) in (1..).zip(events) {
            notification.take(seq, event);
        }
        notification.task("2026-11-25T16:43:38.120493Z")
    }

    #[test]
    fn a_task_is_shown_as_it_was_at_each_of_its_states() {
        let events = [
            json!({"type": "message", "message": {"id": "m", "role": "user", "content": "paint"}}),
            json!({"type": "meta", "agent": "painter"}),
            json!({"type": "token", "token": "Well."}),
            json!({"type": "question", "questionId": "q", "question": "Which colour?"}),
            json!({"type": "agent_state", "state": "waiting_on_user"}),
            json!({"type": "question_answered", "questionId": "q"}),
            json!({"type": "done", "status": "paused"}),
            json!({"type": "message", "message": {"id": "n", "role": "user", "content": "go on"}}),
            json!({"type": "done", "status": "completed"}),
        ];
        let state = |through: usize| folded(&events[..through])["task"]["status"]["state"].clone();
        assert_eq!(state(5), "TASK_STATE_INPUT_REQUIRED");
        assert_eq!(state(7), "TASK_STATE_INPUT_REQUIRED");
        assert_eq!(state(9), "TASK_STATE_COMPLETED");
        let asked = folded(&events[..5]);
        assert_eq!(asked["task"]["status"]["message"]["parts"][0]["text"], "Which colour?");
        assert_eq!(asked["task"]["status"]["timestamp"], "2026-11-25T16:43:38.120493Z");
        assert_eq!(asked["task"]["artifacts"][0]["parts"][0]["text"], "Well.");
    }

    #[test]
    fn a_state_alone_is_a_status_update() {
        let update = state_alone(&about(), TaskState::Failed, "2026-11-25T16:43:38.120493Z");
        assert_eq!(
            update,
            json!({"statusUpdate": {
                "taskId": "t", "contextId": "c",
                "status": {"state": "TASK_STATE_FAILED", "timestamp": "2026-11-25T16:43:38.120493Z"},
            }})
        );
    }
}
