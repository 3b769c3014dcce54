//! A turn with ids, signatures and tokens, to be encoded by the protocols.

use rejoin_shared::models::Tokens;
use serde_json::Value;

use super::account::tokens_of;
use super::turn::{Stop, Turn};

/// Tokens of reasoning that a turn does not spell out.
const QUIET_REASONING_TOKENS: u64 = 32;
/// Parts that the arguments of a call are streamed in.
const ARGUMENT_PARTS: usize = 3;

pub(super) struct Answer {
    /// Distinguishes it from all others of this server.
    pub(super) number: u64,
    /// As the request named it.
    pub(super) model: String,
    /// None: the model did not reason.
    pub(super) reasoning: Option<Reasoning>,
    pub(super) text: String,
    /// Of the text, where the protocol signs texts.
    pub(super) text_signature: Option<String>,
    pub(super) calls: Vec<Call>,
    pub(super) stop: Option<Stop>,
    pub(super) tokens: Tokens,
    pub(super) reasoning_tokens: u64,
}

pub(super) struct Reasoning {
    pub(super) id: String,
    /// What the request may see of it.
    pub(super) shown: String,
    pub(super) signature: Option<String>,
}

pub(super) struct Call {
    pub(super) id: String,
    /// Of the item that carries it (Responses).
    pub(super) item: String,
    pub(super) name: String,
    pub(super) arguments: Value,
    pub(super) signature: Option<String>,
}

impl Answer {
    /// Fills in the tokens of the answer.
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

    /// The words of the text, each with the space after it.
    pub(super) fn words(&self) -> Vec<String> {
        pieces(&self.text)
    }
}

/// The words of a text, each with the space after it.
pub(super) fn pieces(text: &str) -> Vec<String> {
    text.split_inclusive(' ').map(str::to_owned).collect()
}

/// The arguments of a call as a stream has them.
pub(super) fn argument_parts(arguments: &Value) -> Vec<String> {
    let text = arguments.to_string();
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(ARGUMENT_PARTS).max(1);
    characters.chunks(size).map(|part| part.iter().collect()).collect()
}
