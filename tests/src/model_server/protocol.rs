//! OpenAI's Chat Completions protocol, as served and validated by the scripted server.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::reply::Reply;

pub(super) const DONE: &str = "data: [DONE]\n\n";
/// Number of parts in which a tool call's arguments are sent.
const ARGUMENT_PIECES: usize = 3;

/// Returns the last user message; empty if there is none.
pub fn last_user_message(request: &Value) -> String {
    messages(request)
        .iter()
        .rev()
        .find(|message| message["role"] == "user")
        .map(|message| text_of(&message["content"]))
        .unwrap_or_default()
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn messages(request: &Value) -> &[Value] {
    request["messages"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns one SSE frame with a delta, or with the finish reason.
pub(super) fn chunk(request: &Value, number: u64, delta: Value, finish: Option<&str>) -> String {
    frame(&json!({
        "id": format!("chatcmpl-{number}"),
        "object": "chat.completion.chunk",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }))
}

/// Returns the frame sent before the end marker for `stream_options.include_usage`.
pub(super) fn usage_chunk(reply: &Reply, request: &Value, number: u64) -> Option<String> {
    let wanted = request["stream_options"]["include_usage"] == json!(true);
    wanted.then(|| {
        frame(&json!({
            "id": format!("chatcmpl-{number}"),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": request["model"],
            "choices": [],
            "usage": usage(reply, request),
        }))
    })
}

/// Returns the whole answer, for requests that do not stream.
pub(super) fn completion(reply: &Reply, request: &Value, number: u64) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.words.concat()});
    if !reply.tools.is_empty() {
        let calls: Vec<Value> = reply
            .tools
            .iter()
            .enumerate()
            .map(|(index, (name, arguments))| {
                json!({"id": call_id(number, index), "type": "function", "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        message["tool_calls"] = Value::Array(calls);
    }
    json!({
        "id": format!("chatcmpl-{number}"),
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason()}],
        "usage": usage(reply, request),
    })
}

/// Returns the deltas of tool calls: id and name of each, then the arguments in parts, interleaved for parallel calls.
pub(super) fn tool_deltas(tools: &[(String, String)], number: u64) -> Vec<Value> {
    let delta = |index: usize, call: Value| {
        let mut call = call;
        call["index"] = json!(index);
        json!({"tool_calls": [call]})
    };
    let mut deltas: Vec<Value> = tools
        .iter()
        .enumerate()
        .map(|(index, (name, _))| {
            let call =
                json!({"id": call_id(number, index), "type": "function", "function": {"name": name, "arguments": ""}});
            delta(index, call)
        })
        .collect();
    let pieces: Vec<Vec<String>> = tools.iter().map(|(_, arguments)| split(arguments)).collect();
    for round in 0..ARGUMENT_PIECES {
        for (index, pieces) in pieces.iter().enumerate() {
            if let Some(piece) = pieces.get(round) {
                deltas.push(delta(index, json!({"function": {"arguments": piece}})));
            }
        }
    }
    deltas
}

fn call_id(number: u64, index: usize) -> String {
    format!("call_{number}_{index}")
}

fn split(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(ARGUMENT_PIECES).max(1);
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}

fn usage(reply: &Reply, request: &Value) -> Value {
    let (prompt, completion) = reply.counted.unwrap_or_else(|| {
        let words = |message: &Value| text_of(&message["content"]).split_whitespace().count() as u64;
        let prompt = messages(request).iter().map(words).sum();
        (prompt, (reply.words.len() + reply.tools.len()) as u64)
    });
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

fn frame(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Returns what a strict provider rejects in this request.
pub(super) fn violations(request: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if request["model"].as_str().is_none_or(str::is_empty) {
        found.push("there is no model".to_owned());
    }
    let messages = messages(request);
    match messages.last().map(|message| &message["role"]) {
        None => found.push("there are no messages".to_owned()),
        Some(role) if role == "user" || role == "tool" => {}
        Some(role) => found.push(format!("the last message is of role {role}")),
    }
    for tool in request["tools"].as_array().into_iter().flatten() {
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            found.push(format!("`{name}` is not a tool's name"));
        }
        if tool["function"]["parameters"]["type"] != "object" {
            found.push(format!("the parameters of `{name}` are not an object"));
        }
    }
    let mut known: HashSet<&str> = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (position, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" {
            unanswered(&mut found, &mut open, position);
        }
        match role {
            "system" | "developer" if position > 0 => {
                found.push(format!("message {position} is a late system message"))
            }
            "system" | "developer" => {}
            "user" if text_of(&message["content"]).is_empty() => {
                found.push(format!("user message {position} is empty"))
            }
            "user" => {}
            "assistant" => {
                let calls = message["tool_calls"].as_array().map_or(&[] as &[Value], Vec::as_slice);
                if calls.is_empty() && text_of(&message["content"]).is_empty() {
                    found.push(format!("assistant message {position} says and calls nothing"));
                }
                for call in calls {
                    let id = call["id"].as_str().unwrap_or_default();
                    if id.is_empty() || !known.insert(id) {
                        found.push(format!(
                            "the id `{id}` of a tool call in message {position} is empty or repeated"
                        ));
                    }
                    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                    if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                        found.push(format!(
                            "the arguments of `{id}` are not an object in a string: {arguments}"
                        ));
                    }
                    open.push(id);
                }
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                match open.iter().position(|open| *open == id) {
                    Some(index) => {
                        open.swap_remove(index);
                    }
                    None => found.push(format!(
                        "message {position} answers `{id}`, which is not an open tool call"
                    )),
                }
            }
            other => found.push(format!("message {position} has the role `{other}`")),
        }
    }
    unanswered(&mut found, &mut open, messages.len());
    found
}

fn unanswered(found: &mut Vec<String>, open: &mut Vec<&str>, position: usize) {
    found.extend(
        open.drain(..)
            .map(|id| format!("the tool call `{id}` has no answer before message {position}")),
    );
}
