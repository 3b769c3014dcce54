//! The rules by which a product's clients turn frames into the text that a person sees. Called by `adapter` and `view`.
//!
//! "Exact after the product's own rules" means these rules. They are what its documentation or its client says, and no more.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::frames::Framing;

/// How a stream is read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRules {
    #[serde(default)]
    pub framing: Framing,
    #[serde(default)]
    pub cursor: Cursor,
    #[serde(default)]
    pub resume: Resume,
    /// A body that ends as HTTP says, without a frame that ends the turn, is the end.
    #[serde(default)]
    pub ends_with_body: bool,
    /// If the data of a frame is an array, each element counts as a frame.
    #[serde(default)]
    pub arrays: bool,
    /// Statuses of a read that mean: nothing follows. What the reader shows is then the stored answer, if `stored_at_end`.
    #[serde(default)]
    pub nothing_follows: Vec<u16>,
    #[serde(default)]
    pub stored_at_end: bool,
    /// A cursor beyond any stream.
    #[serde(default)]
    pub cursor_ahead: Option<String>,
    /// What a value of `end_from` means: `completed`, `cancelled` or `failed`.
    #[serde(default)]
    pub ends: BTreeMap<String, End>,
    pub rules: Vec<Rule>,
}

/// Where the cursor of a frame is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum Cursor {
    /// There is none.
    #[default]
    None,
    /// The `id` of server-sent events.
    SseId,
    /// The number of frames so far.
    Count,
    /// JSON pointers, of which the first one that leads somewhere counts.
    Json(Vec<String>),
}

impl TryFrom<String> for Cursor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "none" => Ok(Self::None),
            "sse-id" => Ok(Self::SseId),
            "count" => Ok(Self::Count),
            other => match other.strip_prefix("json:") {
                Some(pointers) => Ok(Self::Json(pointers.split('|').map(str::to_owned).collect())),
                None => Err(format!(
                    "unknown cursor {other:?}: none, sse-id, count or json:POINTER|POINTER"
                )),
            },
        }
    }
}

/// What a stream has that is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resume {
    /// What follows the cursor.
    #[default]
    Exact,
    /// The whole turn: its client begins the message again.
    Replay,
    /// Nothing: a lost stream can't be opened again.
    Never,
}

/// How a turn has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    Completed,
    Cancelled,
    Failed,
}

/// What frames of a kind do. All rules that match are applied, in order.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// The event's name.
    pub event: Option<String>,
    /// JSON pointers and the values that must be there. Text that is not JSON is a string at "".
    pub when: BTreeMap<String, Value>,
    /// JSON pointers and values that must not be there. "" is also what leads nowhere.
    pub unless: BTreeMap<String, Value>,
    /// Appends this text.
    pub text: Option<String>,
    /// The message or part that the text belongs to.
    pub key: Option<String>,
    /// The text replaces that of its key.
    pub replaces: bool,
    /// Takes back all text after this cursor.
    pub discard_after: Option<String>,
    /// Takes back the text of this key.
    pub discard_key: Option<String>,
    /// Takes back everything.
    pub clears: bool,
    /// Replaces everything by the answers in a list of messages.
    pub messages: Option<Messages>,
    /// Ends the turn.
    pub end: Option<End>,
    /// Ends the turn as `ends` says of this value.
    pub end_from: Option<String>,
    /// An error, at this pointer.
    pub error: Option<String>,
}

/// The answers in a list of messages: those after the user's last one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    pub at: String,
    pub role: String,
    pub users: Vec<String>,
    pub assistants: Vec<String>,
    pub id: String,
    pub text: String,
}

impl StreamRules {
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            self.rules
                .iter()
                .any(|rule| rule.text.is_some() || rule.messages.is_some()),
            "no rule of `stream` appends text"
        );
        ensure!(
            self.ends_with_body
                || self
                    .rules
                    .iter()
                    .any(|rule| rule.end.is_some() || rule.end_from.is_some()),
            "no rule of `stream` ends the turn; if its streams just end, set `ends_with_body`"
        );
        Ok(())
    }
}

impl Rule {
    /// Whether it applies to a frame.
    pub fn matches(&self, event: Option<&str>, data: &Value) -> bool {
        self.event.as_deref().is_none_or(|wanted| event == Some(wanted))
            && self.when.iter().all(|(pointer, wanted)| is_at(data, pointer, wanted))
            && !self.unless.iter().any(|(pointer, other)| is_at(data, pointer, other))
    }
}

/// Whether a value is at a pointer. An empty string stands for nothing at all: TOML has no null.
fn is_at(data: &Value, pointer: &str, wanted: &Value) -> bool {
    let found = data.pointer(pointer);
    found == Some(wanted) || (wanted == "" && found.is_none_or(Value::is_null))
}

/// The text at a pointer; numbers are text, too.
pub fn text_at(data: &Value, pointer: &str) -> Option<String> {
    match data.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_matches_events_and_values() {
        let rule = Rule {
            event: Some("messages".to_owned()),
            when: BTreeMap::from([("/0/type".to_owned(), json!("ai"))]),
            unless: BTreeMap::from([("/0/content".to_owned(), json!(""))]),
            ..Rule::default()
        };
        let said = json!([{"type": "ai", "content": "w"}, {}]);
        assert!(rule.matches(Some("messages"), &said));
        assert!(!rule.matches(Some("values"), &said));
        assert!(!rule.matches(Some("messages"), &json!([{"type": "ai", "content": ""}])));
        assert!(!rule.matches(Some("messages"), &json!([{"type": "human", "content": "w"}])));
        assert!(!rule.matches(None, &said));
    }

    #[test]
    fn cursors_are_named() {
        assert_eq!(Cursor::try_from("sse-id".to_owned()), Ok(Cursor::SseId));
        assert_eq!(
            Cursor::try_from("json:/n".to_owned()),
            Ok(Cursor::Json(vec!["/n".to_owned()]))
        );
        assert!(Cursor::try_from("nth".to_owned()).is_err());
        assert_eq!(text_at(&json!({"n": 7}), "/n").as_deref(), Some("7"));
    }
}
