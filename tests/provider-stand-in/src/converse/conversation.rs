//! The conversation: roles, blocks, calls and their results.
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-call.html>

use serde_json::Value;

use super::INVALID;
use crate::plan::{bad_request, is_plain, list};
use crate::refusal::Refusal;

/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html>, on `toolUseId` and `name`.
const NAME_MAX_CHARACTERS: usize = 64;

fn invalid(message: impl Into<String>) -> Refusal {
    bad_request(INVALID, message)
}

/// Messages begin with the user's and alternate; no text is blank; documents have names of certain characters, and a text beside them
/// (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html>).
pub(super) fn check_blocks(body: &Value) -> Result<(), Refusal> {
    for (index, block) in list(body, "system").iter().enumerate() {
        if block["text"].as_str().is_some_and(|text| text.trim().is_empty()) {
            return Err(invalid(format!(
                "The text field in the SystemContentBlock object at system.{index} is blank. Add text to the text field, and try \
                 again."
            )));
        }
    }
    let messages = list(body, "messages");
    if messages.is_empty() || messages[0]["role"] != "user" {
        return Err(invalid(
            "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
        ));
    }
    for (index, message) in messages.iter().enumerate() {
        if index > 0 && messages[index - 1]["role"] == message["role"] {
            return Err(invalid(format!(
                "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user \
                 and assistant roles and try again. (messages.{index})"
            )));
        }
        let content = list(message, "content");
        if content.is_empty() {
            return Err(invalid(format!(
                "The content field in the Message object at messages.{index} is empty. Add a ContentBlock object to the content \
                 field and try again."
            )));
        }
        for (position, block) in content.iter().enumerate() {
            check_block(message, block, &format!("messages.{index}.content.{position}"))?;
        }
        let has_text = content.iter().any(|block| block["text"].is_string());
        if content.iter().any(|block| !block["document"].is_null()) && !has_text {
            return Err(invalid(
                "A document must be accompanied by a text block in the same message.",
            ));
        }
    }
    if messages[messages.len() - 1]["role"] != "user" {
        return Err(invalid(
            "The model does not support assistant message prefill. The conversation must end with a user message.",
        ));
    }
    Ok(())
}

fn check_block(message: &Value, block: &Value, at: &str) -> Result<(), Refusal> {
    let of_assistant = message["role"] == "assistant";
    let texts = block["text"].as_str().into_iter();
    let of_results = list(&block["toolResult"], "content");
    let texts = texts.chain(of_results.iter().filter_map(|part| part["text"].as_str()));
    if texts.into_iter().any(|text| text.trim().is_empty()) {
        return Err(invalid(format!(
            "The text field in the ContentBlock object at {at} is blank. Add text to the text field, and try again."
        )));
    }
    for (field, whose) in [
        ("toolUse", true),
        ("reasoningContent", true),
        ("toolResult", false),
        ("image", false),
        ("document", false),
    ] {
        if !block[field].is_null() && of_assistant != whose {
            return Err(invalid(format!(
                "The {field} block at {at} is not allowed in a message of the role {}.",
                message["role"]
            )));
        }
    }
    if let Some(name) = block["document"]["name"].as_str() {
        let allowed = |c: char| c.is_ascii_alphanumeric() || " -()[]".contains(c);
        if name.is_empty() || !name.chars().all(allowed) || name.contains("  ") {
            return Err(invalid(
                "The provided document name contains invalid characters. The document name can only contain alphanumeric characters, \
                 whitespace characters, hyphens, parentheses, and square brackets. The name can't contain more than one consecutive \
                 whitespace character.",
            ));
        }
    }
    Ok(())
}

/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html>: names, descriptions that are not empty,
/// schemas of objects. The tools are there as long as there are calls in the conversation.
pub(super) fn check_tools(body: &Value) -> Result<(), Refusal> {
    let tools = list(&body["toolConfig"], "tools");
    if !body["toolConfig"].is_null() && tools.is_empty() {
        return Err(invalid(
            "Value at 'toolConfig.tools' failed to satisfy constraint: Member must have length greater than or equal to 1",
        ));
    }
    let mut names: Vec<&str> = Vec::new();
    for tool in tools
        .iter()
        .map(|tool| &tool["toolSpec"])
        .filter(|tool| !tool.is_null())
    {
        let name = tool["name"].as_str().unwrap_or_default();
        if !is_plain(name, "") || name.len() > NAME_MAX_CHARACTERS {
            return Err(invalid(format!(
                "Value '{name}' at 'toolConfig.tools.1.member.toolSpec.name' failed to satisfy constraint: Member must satisfy \
                 regular expression pattern: [a-zA-Z0-9_-]+"
            )));
        }
        if names.contains(&name) {
            return Err(invalid(format!("The tool name '{name}' is specified more than once.")));
        }
        names.push(name);
        if tool["description"] == "" {
            return Err(invalid(
                "Value at 'toolConfig.tools.1.member.toolSpec.description' failed to satisfy constraint: Member must have length \
                 greater than or equal to 1",
            ));
        }
        if tool["inputSchema"]["json"]["type"] != "object" {
            return Err(invalid(
                "The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object.",
            ));
        }
    }
    let uses = |block: &Value| !block["toolUse"].is_null() || !block["toolResult"].is_null();
    let in_conversation = list(body, "messages")
        .iter()
        .any(|message| list(message, "content").iter().any(uses));
    if in_conversation && tools.is_empty() {
        return Err(invalid(
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        ));
    }
    Ok(())
}

fn ids<'a>(message: &'a Value, field: &str) -> Vec<&'a str> {
    list(message, "content")
        .iter()
        .filter_map(|block| block[field]["toolUseId"].as_str())
        .collect()
}

/// <https://docs.aws.amazon.com/bedrock/latest/userguide/tool-use.html>: each call is answered in the next message, and nothing else is.
pub(super) fn check_calls(body: &Value) -> Result<(), Refusal> {
    let messages = list(body, "messages");
    for (index, message) in messages.iter().enumerate() {
        let calls = ids(message, "toolUse");
        if let Some(id) = calls
            .iter()
            .find(|id| !is_plain(id, "") || id.len() > NAME_MAX_CHARACTERS)
        {
            return Err(invalid(format!(
                "Value '{id}' at 'messages.{index}.member.content.1.member.toolUse.toolUseId' failed to satisfy constraint: Member \
                 must satisfy regular expression pattern: [a-zA-Z0-9_-]+"
            )));
        }
        let results = messages
            .get(index + 1)
            .map(|next| ids(next, "toolResult"))
            .unwrap_or_default();
        let missing: Vec<&str> = calls.iter().copied().filter(|id| !results.contains(id)).collect();
        if !missing.is_empty() {
            return Err(invalid(format!(
                "Expected toolResult blocks at messages.{}.content for the following Ids: {}",
                index + 1,
                missing.join(", ")
            )));
        }
        let before = index.checked_sub(1).map(|before| ids(&messages[before], "toolUse"));
        let given = ids(message, "toolResult");
        if given.len() > before.map_or(0, |calls| calls.len()) {
            return Err(invalid(format!(
                "The number of toolResult blocks at messages.{index}.content exceeds the number of toolUse blocks of previous turn."
            )));
        }
    }
    Ok(())
}
