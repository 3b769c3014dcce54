//! Breakpoints of the prompt cache, and the prompt in pieces at which it can end.

use serde_json::{Value, json};

use super::errors::INVALID;
use crate::account::Prompt;
use crate::plan::{bad_request, list};
use crate::refusal::Refusal;

/// <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>, "You can define up to 4 cache breakpoints".
const BREAKPOINTS_MAX: usize = 4;

/// Returns the blocks of the request in caching order: tools, system, messages.
fn blocks(body: &Value) -> impl Iterator<Item = &Value> {
    let messages = list(body, "messages")
        .iter()
        .flat_map(|message| list(message, "content"));
    list(body, "tools").iter().chain(list(body, "system")).chain(messages)
}

/// <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>: four breakpoints at most; not on empty texts; those of an hour
/// before those of five minutes.
pub(super) fn check_caching(body: &Value) -> Result<(), Refusal> {
    let marked: Vec<&Value> = blocks(body)
        .flat_map(|block| std::iter::once(block).chain(list(block, "content")))
        .filter(|block| !block["cache_control"].is_null())
        .collect();
    let count = marked.len() + usize::from(!body["cache_control"].is_null());
    if count > BREAKPOINTS_MAX {
        return Err(bad_request(
            INVALID,
            format!("A maximum of {BREAKPOINTS_MAX} blocks with cache_control may be provided. Found {count}."),
        ));
    }
    if marked
        .iter()
        .any(|block| block["type"] == "text" && block["text"] == "")
    {
        return Err(bad_request(
            INVALID,
            "cache_control cannot be set for empty text blocks",
        ));
    }
    let mut short = false;
    for block in marked {
        let hour = block["cache_control"]["ttl"] == "1h";
        if hour && short {
            return Err(bad_request(
                INVALID,
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are \
                 processed in the following order: `tools`, `system`, `messages`.",
            ));
        }
        short |= !hour;
    }
    Ok(())
}

/// Removes breakpoints, and converts texts to lists of blocks.
pub(super) fn plain(value: &Value) -> Value {
    match value {
        Value::String(text) => json!([{"type": "text", "text": text}]),
        Value::Array(blocks) => Value::Array(blocks.iter().map(bare).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.clone(),
    }
}

fn bare(block: &Value) -> Value {
    let mut block = block.clone();
    if let Some(members) = block.as_object_mut() {
        members.remove("cache_control");
        if let Some(inner) = members.get("content").cloned() {
            members.insert("content".to_owned(), plain(&inner));
        }
    }
    block
}

pub(super) fn prompt(body: &Value) -> Prompt {
    let mut prompt = Prompt::default();
    let marked = |block: &Value| {
        !block["cache_control"].is_null()
            || list(block, "content")
                .iter()
                .any(|inner| !inner["cache_control"].is_null())
    };
    for tool in list(body, "tools") {
        prompt.push(bare(tool).to_string(), marked(tool));
    }
    let push = |prompt: &mut Prompt, role: &str, content: &Value| {
        for (given, block) in list_or_text(content).iter().zip(list_or_text(&plain(content))) {
            prompt.push(format!("{role}{block}"), marked(given));
        }
    };
    push(&mut prompt, "system", &body["system"]);
    for message in list(body, "messages") {
        push(
            &mut prompt,
            message["role"].as_str().unwrap_or_default(),
            &message["content"],
        );
    }
    if !body["cache_control"].is_null() {
        // "Automatic caching": a breakpoint at the last block.
        prompt.end_breakpoint();
    }
    prompt
}

fn list_or_text(content: &Value) -> Vec<Value> {
    match content {
        Value::Array(blocks) => blocks.clone(),
        Value::String(_) => vec![content.clone()],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}
