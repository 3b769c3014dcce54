//! A model's reasoning in the form that its provider expects back: signed, encrypted, or verbatim.
//!
//! `genai` collects it with an answer; the step stores it with the assistant's message, and the next step sends it back
//! unchanged. Without it Gemini rejects calls made by its model, Anthropic calls with thinking, and OpenAI's Responses
//! API loses its reasoning. Invariant: it is sent only to the model that produced it and, where the provider ties it to
//! instructions and tools, only with the same ones.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use rejoin_shared::text::storable_json;

/// More than this is not kept; models think 64,000 tokens at most, a fifth of this [bytes].
const MAX_BYTES: usize = 2 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The model that made it, `provider:model`.
    pub model: String,
    /// In the order in which they came.
    pub parts: Vec<ReasoningPart>,
    /// Digest of the instructions and tools that the model had, where its provider ties the reasoning to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReasoningPart {
    /// A signature, or reasoning that only the provider can read.
    Signed {
        signature: String,
        /// What it signs, where the provider wants that back as well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The id of the tool call that it came with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// Reasoning that nobody signed.
    Text { text: String },
    /// A block in the provider's own form.
    Block { data: Value },
}

impl Reasoning {
    /// None: there is nothing to send back, or too much to keep.
    pub fn of(model: String, parts: Vec<ReasoningPart>) -> Option<Self> {
        if parts.is_empty() {
            return None;
        }
        let bytes: usize = parts.iter().map(ReasoningPart::bytes).sum();
        if bytes > MAX_BYTES {
            tracing::warn!(%model, bytes, max = MAX_BYTES, "the model's reasoning is too long to be stored");
            return None;
        }
        Some(Self {
            model,
            parts,
            bound_to: None,
        })
    }

    /// Whether it may go back to a model that has these instructions and tools now.
    pub fn fits(&self, model: &str, bound_to: Option<&str>) -> bool {
        self.model == model && self.bound_to.as_deref().is_none_or(|bound| Some(bound) == bound_to)
    }

    /// Without what PostgreSQL can't store.
    pub fn storable(self) -> Option<Self> {
        let json = serde_json::to_value(self).ok()?;
        serde_json::from_value(storable_json(json)).ok()
    }
}

impl ReasoningPart {
    fn bytes(&self) -> usize {
        match self {
            Self::Signed { signature, text, .. } => signature.len() + text.as_deref().map_or(0, str::len),
            Self::Text { text } => text.len(),
            Self::Block { data } => data.to_string().len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn signed(signature: &str) -> ReasoningPart {
        ReasoningPart::Signed {
            signature: signature.to_owned(),
            text: None,
            call: None,
        }
    }

    #[test]
    fn it_is_stored_and_read_as_it_was() {
        let parts = vec![
            ReasoningPart::Signed {
                signature: "c2ln".to_owned(),
                text: Some("why".to_owned()),
                call: Some("call_1".to_owned()),
            },
            ReasoningPart::Text { text: "hm".to_owned() },
            ReasoningPart::Block {
                data: json!({"type": "redacted_thinking", "data": "x"}),
            },
        ];
        let reasoning = Reasoning::of("anthropic:claude-opus-5-5".to_owned(), parts).unwrap();
        let json = serde_json::to_value(&reasoning).unwrap();
        assert_eq!(serde_json::from_value::<Reasoning>(json).unwrap(), reasoning);
        assert_eq!(reasoning.clone().storable(), Some(reasoning));
    }

    #[test]
    fn nothing_and_too_much_are_not_kept() {
        assert_eq!(Reasoning::of("a:b".to_owned(), vec![]), None);
        assert!(Reasoning::of("a:b".to_owned(), vec![signed(&"s".repeat(MAX_BYTES))]).is_some());
        assert_eq!(
            Reasoning::of("a:b".to_owned(), vec![signed(&"s".repeat(MAX_BYTES + 1))]),
            None
        );
    }
}
