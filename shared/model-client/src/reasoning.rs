//! A model's reasoning in the form that its provider expects back: signed, encrypted, or verbatim.
//!
//! `genai` collects it with an answer; the step stores it with the assistant's message, and the next step sends it back
//! unchanged. Without it Gemini rejects calls made by its model, Anthropic calls with thinking, and OpenAI's Responses
//! API loses its reasoning. Invariant: it is sent only to the model that produced it and, where the provider ties it to
//! instructions and tools, only with the same ones.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use rejoin_types::text::storable_json;

/// Maximum size stored, in bytes; models think 64,000 tokens at most, a fifth of this.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// The reasoning behind one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The model that produced it, `provider:model`.
    pub model: String,
    /// In order of arrival.
    pub parts: Vec<ReasoningPart>,
    /// Digest of the instructions and tools, if the provider ties the reasoning to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<String>,
}

/// A part of it, in one of the forms that providers use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReasoningPart {
    /// A signature, or encrypted reasoning.
    Signed {
        /// The signature, or the encrypted text.
        signature: String,
        /// The signed text, if the provider expects that back as well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The id of the tool call to which it belongs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// Unsigned reasoning.
    Text {
        /// The text as it was produced.
        text: String,
    },
    /// A block in the provider's own format.
    Block {
        /// The block, unchanged.
        data: Value,
    },
}

impl Reasoning {
    /// Collects the parts of an answer. None: there is nothing to send back, or it is too large.
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

    /// Returns whether it may be sent to a model with these instructions and tools.
    pub(crate) fn fits(&self, model: &str, bound_to: Option<&str>) -> bool {
        self.model == model && self.bound_to.as_deref().is_none_or(|bound| Some(bound) == bound_to)
    }

    /// Removes characters that PostgreSQL can't store.
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
