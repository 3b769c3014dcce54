//! The conversation: roles and blocks, calls and their results.

use rejoin_models::Ability;
use serde_json::Value;

use super::errors::INVALID;
use super::families::is_adaptive;
use super::parameters::Thinking;
use crate::models::Named;
use crate::plan::{bad_request, is_plain, list, text_of};
use crate::refusal::Refusal;

/// <https://platform.claude.com/docs/en/api/messages/create>, on `messages`; the last is the user's where the model takes no prefill
/// (<https://platform.claude.com/docs/en/about-claude/models/migration-guide>: since 4.6).
pub(super) fn check_messages(named: &Named<'_>, messages: &[Value], thinking: Thinking) -> Result<(), Refusal> {
    let Some((last, before)) = messages.split_last() else {
        return Err(bad_request(INVALID, "messages: at least one message is required"));
    };
    if messages.first().is_some_and(|message| message["role"] != "user") {
        return Err(bad_request(
            INVALID,
            "messages: first message must use the \"user\" role",
        ));
    }
    if last["role"] == "assistant" && (is_adaptive(named) || thinking != Thinking::Off) {
        return Err(bad_request(
            INVALID,
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ));
    }
    for (index, message) in messages.iter().enumerate() {
        let content = &message["content"];
        let empty = content == "" || content.as_array().is_some_and(Vec::is_empty);
        if empty && (index < before.len() || message["role"] == "user") {
            return Err(bad_request(
                INVALID,
                format!(
                    "messages.{index}: all messages must have non-empty content except for the optional final assistant message"
                ),
            ));
        }
        for (position, block) in list(message, "content").iter().enumerate() {
            check_block(named, message, block, &format!("messages.{index}.content.{position}"))?;
        }
        if message["role"] == "assistant"
            && list(message, "content")
                .last()
                .is_some_and(|block| matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking")))
        {
            return Err(bad_request(
                INVALID,
                format!("messages.{index}: The final block in an assistant message cannot be `thinking`."),
            ));
        }
    }
    Ok(())
}

fn check_block(named: &Named<'_>, message: &Value, block: &Value, path: &str) -> Result<(), Refusal> {
    let role = message["role"].as_str().unwrap_or_default();
    match block["type"].as_str().unwrap_or_default() {
        "text" => {
            let text = block["text"].as_str().unwrap_or_default();
            if text.is_empty() {
                return Err(bad_request(INVALID, "messages: text content blocks must be non-empty"));
            }
            if text.trim().is_empty() {
                return Err(bad_request(
                    INVALID,
                    "messages: text content blocks must contain non-whitespace text",
                ));
            }
        }
        "image" => {
            // <https://platform.claude.com/docs/en/build-with-claude/vision>, "Supported formats".
            let media = block["source"]["media_type"].as_str();
            let known = ["image/jpeg", "image/png", "image/gif", "image/webp"];
            if let Some(media) = media
                && !known.contains(&media)
            {
                return Err(bad_request(
                    INVALID,
                    format!(
                        "{path}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or \
                         'image/webp'"
                    ),
                ));
            }
            if !named.can(Ability::Images) {
                return Err(bad_request(
                    INVALID,
                    format!("{path}: image input is not supported by this model"),
                ));
            }
        }
        "document" => {
            // <https://platform.claude.com/docs/en/build-with-claude/pdf-support>.
            if block["source"]["type"] == "base64" && block["source"]["media_type"] != "application/pdf" {
                return Err(bad_request(
                    INVALID,
                    format!("{path}.document.source.base64.media_type: Input should be 'application/pdf'"),
                ));
            }
            if !named.can(Ability::Pdf) {
                return Err(bad_request(
                    INVALID,
                    format!("{path}: document input is not supported by this model"),
                ));
            }
        }
        "tool_use" => {
            if role != "assistant" {
                return Err(bad_request(
                    INVALID,
                    format!("{path}: `tool_use` blocks can only be in `assistant` messages"),
                ));
            }
            // <https://platform.claude.com/docs/en/api/messages/create>, on `tool_use.id`.
            if !is_plain(block["id"].as_str().unwrap_or_default(), "") {
                return Err(bad_request(
                    INVALID,
                    format!("{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
                ));
            }
            let name = block["name"].as_str().unwrap_or_default();
            if name.is_empty() || name.len() > 200 {
                return Err(bad_request(
                    INVALID,
                    format!("{path}.tool_use.name: String should have at least 1 and at most 200 characters"),
                ));
            }
        }
        "tool_result" => {
            if role != "user" {
                return Err(bad_request(
                    INVALID,
                    format!("{path}: `tool_result` blocks can only be in `user` messages"),
                ));
            }
            if !is_plain(block["tool_use_id"].as_str().unwrap_or_default(), "") {
                return Err(bad_request(
                    INVALID,
                    format!("{path}.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
                ));
            }
            // <https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls>, on `content`.
            let inner = list(block, "content").iter().filter_map(|part| part["type"].as_str());
            if let Some(kind) = inner
                .into_iter()
                .find(|kind| !["text", "image", "document", "search_result"].contains(kind))
            {
                return Err(bad_request(
                    INVALID,
                    format!("{path}.tool_result.content: unexpected block type '{kind}'"),
                ));
            }
            if block["is_error"] == true && text_of(&block["content"]).is_empty() {
                return Err(bad_request(
                    INVALID,
                    format!("{path}.tool_result: content cannot be empty if `is_error` is true"),
                ));
            }
        }
        "thinking" | "redacted_thinking" if role != "assistant" => {
            return Err(bad_request(
                INVALID,
                format!("{path}: thinking blocks can only be in `assistant` messages"),
            ));
        }
        _ => {}
    }
    Ok(())
}

/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls>: results follow their calls in the next message, before
/// anything else in it.
pub(super) fn check_calls(messages: &[Value]) -> Result<(), Refusal> {
    let mut ids: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let content = list(message, "content");
        let calls: Vec<&str> = content
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .filter_map(|block| block["id"].as_str())
            .collect();
        for call in &calls {
            if ids.contains(call) {
                return Err(bad_request(INVALID, "messages: `tool_use` ids must be unique"));
            }
            ids.push(call);
        }
        if !calls.is_empty() {
            let next = messages
                .get(index + 1)
                .map_or(&[] as &[Value], |next| list(next, "content"));
            let given: Vec<&str> = next
                .iter()
                .take_while(|block| block["type"] == "tool_result")
                .filter_map(|block| block["tool_use_id"].as_str())
                .collect();
            let missing: Vec<&str> = calls.iter().copied().filter(|call| !given.contains(call)).collect();
            if !missing.is_empty() {
                return Err(bad_request(
                    INVALID,
                    format!(
                        "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                         `tool_use` block must have a corresponding `tool_result` block in the next message.",
                        missing.join(", ")
                    ),
                ));
            }
        }
        let before = index
            .checked_sub(1)
            .and_then(|before| messages.get(before))
            .map_or(&[] as &[Value], |before| list(before, "content"));
        let mut given: Vec<&str> = Vec::new();
        for (position, block) in content.iter().enumerate() {
            let Some(id) = block["tool_use_id"].as_str().filter(|_| block["type"] == "tool_result") else {
                continue;
            };
            if !before.iter().any(|call| call["type"] == "tool_use" && call["id"] == id) {
                return Err(bad_request(
                    INVALID,
                    format!(
                        "messages.{index}.content.{position}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                         `tool_result` block must have a corresponding `tool_use` block in the previous message."
                    ),
                ));
            }
            if given.contains(&id) {
                return Err(bad_request(
                    INVALID,
                    format!(
                        "messages.{index}.content.{position}: each tool_use must have a single result. Found multiple \
                         `tool_result` blocks with id: {id}"
                    ),
                ));
            }
            given.push(id);
        }
    }
    Ok(())
}
