//! The server's actions while it sends a scripted answer: frames, pauses, and the scripted failure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::protocol;
use super::reply::{Reply, Trouble};

/// The server's next action while answering.
pub(super) enum Action {
    Send(String),
    Wait(Duration),
    Gate(Arc<Notify>),
    Hang,
    Cut,
}

impl Reply {
    /// Returns the actions that answer a request, in order.
    pub(super) fn actions(&self, request: &Value, number: u64) -> VecDeque<Action> {
        let frame = |delta: Value| protocol::chunk(request, number, delta, None);
        let mut contents: Vec<String> = Vec::new();
        if !self.reasoning.is_empty() {
            contents.push(frame(json!({"reasoning_content": self.reasoning})));
        }
        contents.extend(self.words.iter().map(|word| frame(json!({"content": word}))));
        contents.extend(protocol::tool_deltas(&self.tools, number).into_iter().map(frame));
        let mut end = vec![protocol::chunk(request, number, json!({}), Some(self.finish_reason()))];
        end.extend(protocol::usage_chunk(self, request, number));
        end.push(protocol::DONE.to_owned());

        let mut actions = VecDeque::new();
        if !self.delay.is_zero() {
            actions.push_back(Action::Wait(self.delay));
        }
        actions.push_back(Action::Send(frame(json!({"role": "assistant", "content": ""}))));
        let middle = contents.len() / 2;
        for (position, content) in contents.into_iter().enumerate() {
            if position == middle && self.trouble == Trouble::Malformed {
                actions.push_back(Action::Send(
                    "data: {\"choices\":[{\"delta\":{\"content\":\"x\n\n".to_owned(),
                ));
            }
            if position == middle
                && let Some(gate) = &self.gate
            {
                actions.push_back(Action::Gate(gate.clone()));
            }
            actions.push_back(Action::Send(content));
            if !self.pace.is_zero() {
                actions.push_back(Action::Wait(self.pace));
            }
        }
        match self.trouble {
            Trouble::Cut => actions.push_back(Action::Cut),
            Trouble::Hang => actions.push_back(Action::Hang),
            Trouble::EndEarly => {}
            Trouble::None | Trouble::Malformed | Trouble::Status { .. } => {
                actions.extend(end.into_iter().map(Action::Send));
            }
        }
        actions
    }
}
