//! What a request asks the model for: the script of the user's last message, the step that is next, and the tools that may be called.

use serde_json::Value;

use crate::script::Script;

/// A request, whatever its protocol.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Question {
    pub script: Option<Script>,
    /// Answers since the user's last message.
    pub step: usize,
    /// The names of tools that may be called.
    pub tools: Vec<String>,
    pub results: Vec<String>,
}

/// OpenAI's Chat Completions.
pub(super) fn of_chat(request: &Value) -> Question {
    let messages = list(&request["messages"]);
    let begin = last(messages, |message| message["role"] == "user");
    let after = &messages[begin.map_or(0, |at| at + 1)..];
    let of_role = |role: &'static str| after.iter().filter(move |message| message["role"] == role);
    Question {
        script: begin.and_then(|at| Script::of(&text(&messages[at]["content"]))),
        step: of_role("assistant").count(),
        tools: names(&request["tools"], "/function/name"),
        results: of_role("tool").map(|message| text(&message["content"])).collect(),
    }
}

/// OpenAI's Responses.
pub(super) fn of_responses(request: &Value) -> Question {
    let tools = names(&request["tools"], "/name");
    if let Some(input) = request["input"].as_str() {
        return Question {
            script: Script::of(input),
            tools,
            ..Question::default()
        };
    }
    let items = list(&request["input"]);
    let begin = last(items, |item| item["role"] == "user");
    let after = &items[begin.map_or(0, |at| at + 1)..];
    let outputs = after.iter().filter(|item| item["type"] == "function_call_output");
    let results: Vec<String> = outputs.map(|item| text(&item["output"])).collect();
    Question {
        script: begin.and_then(|at| Script::of(&text(&items[at]["content"]))),
        // An answer has one call at most.
        step: results.len(),
        tools,
        results,
    }
}

/// Anthropic's Messages.
pub(super) fn of_messages(request: &Value) -> Question {
    let messages = list(&request["messages"]);
    let is_question = |message: &Value| {
        let is_text = |part: &Value| part["type"] == "text";
        message["role"] == "user" && (message["content"].is_string() || list(&message["content"]).iter().any(is_text))
    };
    let begin = last(messages, is_question);
    let after = &messages[begin.map_or(0, |at| at + 1)..];
    let parts = after.iter().flat_map(|message| list(&message["content"]));
    Question {
        script: begin.and_then(|at| Script::of(&text(&messages[at]["content"]))),
        step: after.iter().filter(|message| message["role"] == "assistant").count(),
        tools: names(&request["tools"], "/name"),
        results: parts
            .filter(|part| part["type"] == "tool_result")
            .map(|part| text(&part["content"]))
            .collect(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

fn last(list: &[Value], is_wanted: impl Fn(&Value) -> bool) -> Option<usize> {
    list.iter().rposition(is_wanted)
}

/// Text, or the texts of a list of parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The names of tools that are offered.
fn names(tools: &Value, pointer: &str) -> Vec<String> {
    let names = list(tools).iter().filter_map(|tool| tool.pointer(pointer)?.as_str());
    names.map(str::to_owned).collect()
}
