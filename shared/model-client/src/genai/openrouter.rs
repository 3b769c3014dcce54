//! OpenRouter's additions to OpenAI's Chat Completions: the objects `reasoning` and `cache_control`, and blocks of reasoning that must be
//! sent back (<https://openrouter.ai/docs/guides/best-practices/reasoning-tokens>). genai sends such blocks back but does not collect
//! them from a stream: that is done here, from the stream's frames.

use std::sync::{Arc, Mutex, PoisonError};

use ::genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef, ReasoningEffort as Effort};
use serde_json::{Map, Value, json};

/// The fields of a block that arrive in pieces.
const IN_PIECES: [&str; 3] = ["text", "summary", "data"];

/// Returns the request's fields that genai does not have. None: no such field is needed.
pub(super) fn fields(effort: Option<&Effort>, caches: bool) -> Option<Value> {
    let mut fields = Map::new();
    let level = effort.and_then(|effort| match effort {
        Effort::Zero => Some("none"),
        Effort::Minimal => Some("minimal"),
        Effort::Low => Some("low"),
        Effort::Medium => Some("medium"),
        Effort::High => Some("high"),
        // OpenRouter's highest level.
        Effort::XHigh | Effort::Max => Some("xhigh"),
        Effort::Budget(_) => None,
    });
    if let Some(level) = level {
        fields.insert("reasoning".to_owned(), json!({ "effort": level }));
    }
    if caches {
        fields.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// The blocks of reasoning of one answer that have arrived.
#[derive(Clone, Default)]
pub(super) struct Blocks(Arc<Mutex<Vec<Value>>>);

impl Blocks {
    pub(super) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ChatFrameSink for Blocks {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        if !frame.data.contains("reasoning_details") {
            return;
        }
        let Ok(chunk) = serde_json::from_str::<Value>(frame.data) else {
            return;
        };
        let pieces = chunk.pointer("/choices/0/delta/reasoning_details");
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in pieces.and_then(Value::as_array).into_iter().flatten() {
            add(&mut blocks, piece);
        }
    }
}

/// A piece continues the last block if it has the same type and index; otherwise it starts a block.
fn add(blocks: &mut Vec<Value>, piece: &Value) {
    let same = |last: &&mut Value| last["type"] == piece["type"] && last["index"] == piece["index"];
    let (Some(last), Some(members)) = (blocks.last_mut().filter(same), piece.as_object()) else {
        blocks.push(piece.clone());
        return;
    };
    for (name, value) in members {
        match (last[name.as_str()].as_str(), value.as_str()) {
            (Some(before), Some(more)) if IN_PIECES.contains(&name.as_str()) => {
                last[name.as_str()] = json!(format!("{before}{more}"));
            }
            _ if value.is_null() => {}
            _ => last[name.as_str()] = value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_one_block_are_put_together() {
        let mut blocks = Vec::new();
        for piece in [
            json!({"type": "reasoning.text", "text": "Let me ", "index": 0}),
            json!({"type": "reasoning.text", "text": "look.", "index": 0, "signature": null}),
            json!({"type": "reasoning.text", "signature": "c2ln", "index": 0}),
            json!({"type": "reasoning.encrypted", "data": "x", "index": 1}),
            json!({"type": "reasoning.encrypted", "data": "y", "index": 2}),
        ] {
            add(&mut blocks, &piece);
        }
        assert_eq!(
            blocks,
            [
                json!({"type": "reasoning.text", "text": "Let me look.", "signature": "c2ln", "index": 0}),
                json!({"type": "reasoning.encrypted", "data": "x", "index": 1}),
                json!({"type": "reasoning.encrypted", "data": "y", "index": 2}),
            ]
        );
    }

    #[test]
    fn an_effort_is_an_object() {
        assert_eq!(fields(None, false), None);
        assert_eq!(
            fields(Some(&Effort::Max), true),
            Some(json!({"reasoning": {"effort": "xhigh"}, "cache_control": {"type": "ephemeral"}}))
        );
    }
}
