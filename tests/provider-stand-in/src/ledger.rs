//! The fake's earlier outputs that later requests must contain: signatures, ids of tool calls, items of Responses. Real
//! providers encode these in cryptographic signatures.

use std::collections::HashMap;

use serde_json::Value;

/// The signed content of a signature.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Signed {
    /// A thinking block of Anthropic, with its visible text, and the conversation before it, if bound to one.
    Thinking { text: String, before: Option<u64> },
    /// A function call of Gemini.
    Call { name: String, arguments: Value },
    /// A Gemini part other than a call.
    Part,
    /// A reasoning item of Responses.
    Reasoning { id: String },
}

/// A tool call that was issued.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// The reasoning issued with it.
    pub(super) reasoning: Option<String>,
    /// The same as OpenRouter gives it.
    pub(super) details: Vec<Value>,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By signature, with the signing model.
    signed: HashMap<String, (String, Signed)>,
    /// By the provider's id.
    calls: HashMap<String, Made>,
    /// Items of Responses, by id, with their reasoning.
    items: HashMap<String, Option<String>>,
    /// Stored responses, by id: input and output.
    responses: HashMap<String, Vec<Value>>,
    /// Stored reasoning items, by id.
    stored: HashMap<String, String>,
    count: u64,
}

impl Ledger {
    /// Returns a new number.
    pub(super) fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub(super) fn sign(&mut self, signature: String, model: &str, what: Signed) {
        self.signed.insert(signature, (model.to_owned(), what));
    }

    /// Returns the signing model, and the signed content.
    pub(super) fn signed(&self, signature: &str) -> Option<(&str, &Signed)> {
        self.signed.get(signature).map(|(model, what)| (model.as_str(), what))
    }

    pub(super) fn call(&mut self, id: &str, made: Made) {
        self.calls.insert(id.to_owned(), made);
    }

    pub(super) fn made(&self, id: &str) -> Option<&Made> {
        self.calls.get(id)
    }

    pub(super) fn item(&mut self, id: &str, reasoning: Option<String>) {
        self.items.insert(id.to_owned(), reasoning);
    }

    /// Returns an item's reasoning; None if the item is unknown.
    pub(super) fn reasoning_of(&self, id: &str) -> Option<&Option<String>> {
        self.items.get(id)
    }

    pub(super) fn store(&mut self, response: &str, items: Vec<Value>) {
        for item in &items {
            if let (Some("reasoning"), Some(id)) = (item["type"].as_str(), item["id"].as_str()) {
                self.stored.insert(id.to_owned(), response.to_owned());
            }
        }
        self.responses.insert(response.to_owned(), items);
    }

    pub(super) fn is_stored(&self, item: &str) -> bool {
        self.stored.contains_key(item)
    }

    pub(super) fn response(&self, id: &str) -> Option<&[Value]> {
        self.responses.get(id).map(Vec::as_slice)
    }
}
