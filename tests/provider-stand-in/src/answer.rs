//! A turn with ids, signatures and tokens, to be encoded by the protocols.

use rejoin_models::Tokens;
use serde_json::Value;

use super::account::tokens_of;
use super::turn::{Stop, Turn};

/// Tokens of unspecified reasoning in a turn.
const QUIET_REASONING_TOKENS: u64 = 32;
/// Number of parts in which a call's arguments are streamed.
const ARGUMENT_PARTS: usize = 3;

pub(super) struct Answer {
    /// Unique per server.
    pub(super) number: u64,
    /// As named by the request.
    pub(super) model: String,
    /// None: the model did not reason.
    pub(super) reasoning: Option<Reasoning>,
    pub(super) text: String,
    /// The text's signature, if the protocol signs texts.
    pub(super) text_signature: Option<String>,
    pub(super) calls: Vec<Call>,
    pub(super) stop: Option<Stop>,
    pub(super) tokens: Tokens,
    pub(super) reasoning_tokens: u64,
}

pub(super) struct Reasoning {
    pub(super) id: String,
    /// The part visible to the request.
    pub(super) shown: String,
    pub(super) signature: Option<String>,
}

pub(super) struct Call {
    pub(super) id: String,
    /// The id of its item (Responses).
    pub(super) item: String,
    pub(super) name: String,
    pub(super) arguments: Value,
    pub(super) signature: Option<String>,
}

impl Answer {
    /// Counts the tokens of the answer.
    pub(super) fn count(&mut self, turn: &Turn, prompt: Tokens) {
        let said = tokens_of(&self.text)
            + self
                .calls
                .iter()
                .map(|call| tokens_of(&call.name) + tokens_of(&call.arguments.to_string()))
                .sum::<u64>();
        self.reasoning_tokens = match &self.reasoning {
            None => 0,
            Some(_) => turn
                .reasoning_tokens
                .unwrap_or_else(|| tokens_of(&turn.reasoning).max(QUIET_REASONING_TOKENS)),
        };
        self.tokens = Tokens {
            output: turn.output_tokens.unwrap_or(said + self.reasoning_tokens).max(1),
            ..prompt
        };
    }

    /// Returns the words of the text, each with its trailing space.
    pub(super) fn words(&self) -> Vec<String> {
        pieces(&self.text)
    }
}

/// Returns the words of a text, each with its trailing space.
pub(super) fn pieces(text: &str) -> Vec<String> {
    text.split_inclusive(' ').map(str::to_owned).collect()
}

/// Returns the arguments of a call in streamed parts.
pub(super) fn argument_parts(arguments: &Value) -> Vec<String> {
    let text = arguments.to_string();
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(ARGUMENT_PARTS).max(1);
    characters.chunks(size).map(|part| part.iter().collect()).collect()
}
