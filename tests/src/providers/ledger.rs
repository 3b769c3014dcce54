//! What the stand-in said before and must find again in later requests: signatures, ids of tool calls, items of Responses. Real providers
//! put all of this into the signature itself, by cryptography.

use std::collections::HashMap;

use serde_json::Value;

/// What was signed with one signature.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Signed {
    /// A thinking block of Anthropic, with what it was shown, and the conversation before it, where it is bound to one.
    Thinking { text: String, before: Option<u64> },
    /// A function call of Gemini.
    Call { name: String, arguments: Value },
    /// A part of Gemini that is not a call.
    Part,
    /// A reasoning item of Responses.
    Reasoning { id: String },
}

/// A tool call that was made.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// The reasoning that it came with.
    pub(super) reasoning: Option<String>,
    /// The same as OpenRouter gives it.
    pub(super) details: Vec<Value>,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By the signature, and the model that signed.
    signed: HashMap<String, (String, Signed)>,
    /// By the id that the provider gave.
    calls: HashMap<String, Made>,
    /// Items of Responses, by id: the reasoning that they came with.
    items: HashMap<String, Option<String>>,
    /// Responses that were stored, by id: input and output.
    responses: HashMap<String, Vec<Value>>,
    /// Reasoning items that were stored, by id.
    stored: HashMap<String, String>,
    count: u64,
}

impl Ledger {
    /// A number that was not given before.
    pub(super) fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub(super) fn sign(&mut self, signature: String, model: &str, what: Signed) {
        self.signed.insert(signature, (model.to_owned(), what));
    }

    /// The model that signed, and what.
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

    /// The reasoning that an item came with; None where the item is unknown.
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
