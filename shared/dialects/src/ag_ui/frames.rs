//! Events for the client, as JSON texts, in order.

use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Default)]
pub struct Frames(Vec<String>);

/// A piece of a text or of reasoning. Most events are such, so it is written without the tree that the others are built as.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Piece<'a> {
    pub r#type: &'static str,
    pub message_id: &'a str,
    pub delta: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_run_id: Option<&'a str>,
}

impl Frames {
    pub fn push(&mut self, event: Value) {
        self.0.push(event.to_string());
    }

    pub fn push_piece(&mut self, piece: &Piece<'_>) {
        self.0
            .push(serde_json::to_string(piece).expect("a piece is plain data"));
    }

    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl Extend<Value> for Frames {
    fn extend<Events: IntoIterator<Item = Value>>(&mut self, events: Events) {
        self.0.extend(events.into_iter().map(|event| event.to_string()));
    }
}
