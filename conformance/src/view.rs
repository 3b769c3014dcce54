//! What one reader shows: the text after the product's own rules, and the text as it came. Called by `reader`; read by `judge`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::frames::Frame;
use crate::stream_rules::{Cursor, End, Messages, Resume, Rule, StreamRules, text_at};

/// A piece of text.
#[derive(Debug, Clone)]
struct Piece {
    /// The cursor of its frame, if that is a number.
    number: Option<u64>,
    key: String,
    text: String,
}

/// The state of a reader.
#[derive(Debug, Clone, Default)]
pub struct View {
    pieces: Vec<Piece>,
    /// All text that has arrived, whatever was taken back.
    pub raw: String,
    /// Where a next connection goes on.
    pub cursor: Option<String>,
    /// Frames with a cursor, in the order of arrival.
    pub cursors: Vec<String>,
    count: usize,
    pub ended: Option<End>,
    /// Frames that end the turn.
    pub terminals: usize,
    /// Frames with text after the end.
    pub late: usize,
    pub errors: Vec<String>,
    /// Values that requests of this reader use.
    pub captured: BTreeMap<String, String>,
    /// Shown in place of the pieces: what the product has stored.
    pub stored: Option<String>,
}

impl View {
    /// The text that a person sees.
    pub fn text(&self) -> String {
        match &self.stored {
            Some(text) => text.clone(),
            None => self.pieces.iter().map(|piece| piece.text.as_str()).collect(),
        }
    }

    /// A new connection begins; `from` is the cursor that it was asked for.
    pub fn reconnect(&mut self, rules: &StreamRules, from: Option<&str>) {
        if rules.resume == Resume::Replay || from.is_none() {
            self.pieces.clear();
            self.count = 0;
            self.terminals = 0;
        }
    }

    /// Applies a frame. Returns whether it had text.
    pub fn apply(&mut self, frame: &Frame, rules: &StreamRules, captures: &BTreeMap<String, String>) -> bool {
        let data: Value = serde_json::from_str(&frame.data).unwrap_or_else(|_| Value::String(frame.data.clone()));
        let had = self.raw.len();
        match data {
            Value::Array(elements) if rules.arrays => {
                for element in &elements {
                    self.apply_one(frame, element, rules, captures);
                }
            }
            data => self.apply_one(frame, &data, rules, captures),
        }
        self.raw.len() > had
    }

    fn apply_one(&mut self, frame: &Frame, data: &Value, rules: &StreamRules, captures: &BTreeMap<String, String>) {
        for (name, pointer) in captures {
            if let Some(value) = text_at(data, pointer)
                && !self.captured.contains_key(name)
            {
                self.captured.insert(name.clone(), value);
            }
        }
        let cursor = match &rules.cursor {
            Cursor::None => None,
            Cursor::SseId => frame.id.clone(),
            Cursor::Count => {
                self.count += 1;
                Some(self.count.to_string())
            }
            Cursor::Json(pointers) => pointers.iter().find_map(|pointer| text_at(data, pointer)),
        };
        let number = cursor.as_deref().and_then(|cursor| cursor.parse().ok());
        for rule in rules
            .rules
            .iter()
            .filter(|rule| rule.matches(frame.event.as_deref(), data))
        {
            self.obey(rule, data, number, rules);
        }
        if let Some(cursor) = cursor {
            self.cursors.push(cursor.clone());
            self.cursor = Some(cursor);
        }
    }

    fn obey(&mut self, rule: &Rule, data: &Value, number: Option<u64>, rules: &StreamRules) {
        let at = |pointer: &Option<String>| pointer.as_deref().and_then(|pointer| text_at(data, pointer));
        if rule.clears {
            self.pieces.clear();
        }
        if let Some(after) = at(&rule.discard_after).and_then(|after| after.parse::<u64>().ok()) {
            self.pieces
                .retain(|piece| piece.number.is_none_or(|number| number <= after));
        }
        if let Some(key) = at(&rule.discard_key) {
            self.pieces.retain(|piece| piece.key != key);
        }
        if let Some(messages) = &rule.messages {
            self.show(messages, data, number);
        }
        if let Some(text) = at(&rule.text) {
            let key = at(&rule.key).unwrap_or_default();
            self.say(Piece { number, key, text }, rule.replaces);
        }
        if let Some(error) = at(&rule.error) {
            self.errors.push(error);
        }
        let end = rule
            .end
            .or_else(|| at(&rule.end_from).map(|value| meaning(&value, rules)));
        if let Some(end) = end {
            self.ended = self.ended.or(Some(end));
            self.terminals += 1;
        }
    }

    fn say(&mut self, piece: Piece, replaces: bool) {
        if self.ended.is_some() && !piece.text.is_empty() {
            self.late += 1;
        }
        if !replaces {
            self.raw.push_str(&piece.text);
            self.pieces.push(piece);
            return;
        }
        match self.pieces.iter().position(|other| other.key == piece.key) {
            Some(at) => {
                let key = piece.key.clone();
                self.pieces[at] = piece;
                let mut index = 0;
                self.pieces.retain(|other| {
                    index += 1;
                    index - 1 <= at || other.key != key
                });
            }
            None => {
                self.raw.push_str(&piece.text);
                self.pieces.push(piece);
            }
        }
    }

    /// Replaces everything by a list of messages.
    fn show(&mut self, messages: &Messages, data: &Value, number: Option<u64>) {
        let Some(list) = data.pointer(&messages.at).and_then(Value::as_array) else {
            return;
        };
        let role = |message: &Value| text_at(message, &messages.role).unwrap_or_default();
        let begin = list.iter().rposition(|message| messages.users.contains(&role(message)));
        let answers = list[begin.map_or(0, |at| at + 1)..].iter();
        let pieces: Vec<Piece> = answers
            .filter(|message| messages.assistants.contains(&role(message)))
            .filter_map(|message| {
                Some(Piece {
                    number,
                    key: text_at(message, &messages.id).unwrap_or_default(),
                    text: text_at(message, &messages.text)?,
                })
            })
            .collect();
        self.pieces = pieces;
    }
}

/// What a value means: by the adapter's table, or by its own name.
fn meaning(value: &str, rules: &StreamRules) -> End {
    rules.ends.get(value).copied().unwrap_or(match value {
        "completed" | "success" | "done" => End::Completed,
        "cancelled" | "canceled" | "interrupted" | "aborted" => End::Cancelled,
        _ => End::Failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> StreamRules {
        toml::from_str(text).unwrap()
    }

    fn frame(id: &str, data: &str) -> Frame {
        Frame {
            id: (!id.is_empty()).then(|| id.to_owned()),
            data: data.to_owned(),
            event: None,
        }
    }

    fn shown(rules: &StreamRules, frames: &[Frame]) -> View {
        let mut view = View::default();
        for frame in frames {
            view.apply(frame, rules, &BTreeMap::new());
        }
        view
    }

    #[test]
    fn a_reset_takes_text_back() {
        let rules = rules(
            r#"
            cursor = "sse-id"
            [[rules]]
            when = { "/type" = "token" }
            text = "/token"
            [[rules]]
            when = { "/type" = "reset" }
            discard_after = "/discardAfter"
            [[rules]]
            when = { "/type" = "done" }
            end_from = "/status"
            "#,
        );
        let view = shown(
            &rules,
            &[
                frame("3", r#"{"type":"token","token":"a"}"#),
                frame("4", r#"{"type":"token","token":"b"}"#),
                frame("5", r#"{"type":"reset","discardAfter":3}"#),
                frame("6", r#"{"type":"token","token":"c"}"#),
                frame("7", r#"{"type":"done","status":"completed"}"#),
                frame("", r#"{"type":"open"}"#),
            ],
        );
        assert_eq!((view.text().as_str(), view.raw.as_str()), ("ac", "abc"));
        assert_eq!((view.ended, view.terminals, view.late), (Some(End::Completed), 1, 0));
        assert_eq!(view.cursor.as_deref(), Some("7"));
    }

    #[test]
    fn keys_and_lists_of_messages_replace_text() {
        let rules = rules(
            r#"
            ends_with_body = true
            [[rules]]
            when = { "/t" = "delta" }
            text = "/x"
            key = "/k"
            [[rules]]
            when = { "/t" = "whole" }
            text = "/x"
            key = "/k"
            replaces = true
            [[rules]]
            messages = { at = "/m", role = "/r", users = ["u"], assistants = ["a"], id = "/i", text = "/x" }
            "#,
        );
        let deltas = [
            frame("", r#"{"t":"delta","k":"1","x":"a"}"#),
            frame("", r#"{"t":"delta","k":"1","x":"b"}"#),
            frame("", r#"{"t":"delta","k":"2","x":"c"}"#),
        ];
        let mut view = shown(&rules, &deltas);
        assert_eq!(view.text(), "abc");
        view.apply(&frame("", r#"{"t":"whole","k":"1","x":"A"}"#), &rules, &BTreeMap::new());
        assert_eq!(view.text(), "Ac");
        let list = r#"{"m":[{"r":"a","i":"0","x":"old"},{"r":"u","i":"1","x":"q"},{"r":"a","i":"2","x":"new"}]}"#;
        view.apply(&frame("", list), &rules, &BTreeMap::new());
        assert_eq!(view.text(), "new");
    }

    #[test]
    fn an_end_that_is_followed_by_text_is_noticed() {
        let rules = rules(
            "[[rules]]\nwhen = { \"\" = \"[DONE]\" }\nend = \"completed\"\n[[rules]]\nunless = { \"/x\" = \"\" }\ntext = \"/x\"",
        );
        let view = shown(
            &rules,
            &[frame("", "[DONE]"), frame("", r#"{"x":"late"}"#), frame("", "[DONE]")],
        );
        assert_eq!((view.terminals, view.late), (2, 1));
    }
}
