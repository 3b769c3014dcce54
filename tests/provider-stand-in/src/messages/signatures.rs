//! Thinking sent back: complete, unchanged, and in place.

use std::hash::{DefaultHasher, Hash, Hasher};

use base64::Engine;
use serde_json::{Value, json};

use super::errors::INVALID;
use super::families::is_bound;
use super::parameters::Thinking;
use super::prompt::plain;
use crate::ledger::{Ledger, Signed};
use crate::models::Named;
use crate::plan::{bad_request, list};
use crate::refusal::Refusal;

/// <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>, "Preserving thinking blocks": with a budget, the assistant's
/// last message with calls begins with its thinking; blocks come back as they were given, with their signature. With adaptive thinking a
/// missing block is no error, but what the model thought is lost (adaptive-thinking, "Validation changes").
pub(super) fn check_signatures(
    named: &Named<'_>,
    body: &Value,
    thinking: Thinking,
    ledger: &Ledger,
    losses: &mut Vec<String>,
) -> Result<(), Refusal> {
    let messages = list(body, "messages");
    for (index, message) in messages.iter().enumerate() {
        for (position, block) in list(message, "content").iter().enumerate() {
            if block["type"] != "thinking" {
                continue;
            }
            let invalid = |more: &str| {
                bad_request(
                    INVALID,
                    format!("messages.{index}.content.{position}: Invalid `signature` in `thinking` block{more}"),
                )
            };
            let signature = block["signature"].as_str().unwrap_or_default();
            let Some((model, Signed::Thinking { text, before })) = ledger.signed(signature) else {
                return Err(invalid(""));
            };
            if block["thinking"] != json!(text) {
                return Err(invalid(""));
            }
            if model != named.name {
                losses.push(format!(
                    "message {index} has a thinking block of {model}, which {} does not read",
                    named.name
                ));
            } else if is_bound(named) && before.is_some_and(|before| before != conversation(body, index)) {
                return Err(invalid(
                    ". The block is bound to a different conversation. Remove the block.",
                ));
            }
        }
    }
    if thinking == Thinking::Off {
        return Ok(());
    }
    // The current turn: everything after the last user message without a result.
    let begins = messages
        .iter()
        .rposition(|message| {
            message["role"] == "user"
                && !list(message, "content")
                    .iter()
                    .any(|block| block["type"] == "tool_result")
        })
        .unwrap_or(0);
    let with_calls = |message: &Value| {
        message["role"] == "assistant" && list(message, "content").iter().any(|block| block["type"] == "tool_use")
    };
    let thinks = |message: &Value| {
        let first = list(message, "content").first();
        first.is_some_and(|block| matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking")))
    };
    let last = messages
        .iter()
        .enumerate()
        .skip(begins)
        .rfind(|(_, message)| with_calls(message));
    if let Some((index, message)) = last
        && thinking == Thinking::Manual
        && !thinks(message)
    {
        let found = list(message, "content")
            .first()
            .and_then(|block| block["type"].as_str())
            .unwrap_or("text");
        return Err(bad_request(
            INVALID,
            format!(
                "messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When \
                 `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set \
                 of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid \
                 this requirement, disable `thinking`. Please consult our documentation at \
                 https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
            ),
        ));
    }
    for (index, message) in messages
        .iter()
        .enumerate()
        .skip(begins)
        .filter(|(_, message)| with_calls(message))
    {
        let came_with = list(message, "content")
            .iter()
            .filter_map(|block| ledger.made(block["id"].as_str()?)?.reasoning.as_ref())
            .next();
        if came_with.is_some() && !thinks(message) {
            losses.push(format!(
                "message {index} calls a tool without the thinking that the call came with"
            ));
        }
    }
    Ok(())
}

/// Hashes everything to which thinking in the message at `end` is bound: instructions, tools, earlier messages; not the
/// breakpoints.
pub(super) fn conversation(body: &Value, end: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    for part in [&body["system"], &body["tools"]] {
        plain(part).to_string().hash(&mut hasher);
    }
    for message in list(body, "messages").iter().take(end) {
        message["role"].as_str().hash(&mut hasher);
        plain(&message["content"]).to_string().hash(&mut hasher);
    }
    hasher.finish()
}

/// A signature, in base64.
pub(crate) fn signature(number: u64, model: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(format!("thinking-signature {model} {number}"))
}
