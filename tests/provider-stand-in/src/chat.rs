//! OpenAI's Chat Completions, `POST /v1/chat/completions`.
//! <https://developers.openai.com/api/reference/resources/chat/subresources/completions/methods/create>

mod fields;

use self::fields::REQUEST;
pub(super) use self::fields::{CACHE_OPTIONS, EFFORT, TIER};
use super::account::Prompt;
use super::answer::{Answer, argument_parts};
use super::fields::{Kind, check as check_fields};
use super::models::Named;
use super::openai::{self, INVALID};
use super::plan::{Plan, Request, bad_request, list, text_of};
use super::refusal::Refusal;
use super::turn::Stop;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::collections::HashSet;

/// Maximum length of a tool call's id, in characters.
const CALL_ID_MAX_CHARACTERS: usize = 40;

/// From this version on Chat Completions accepts function tools only without reasoning.
/// <https://developers.openai.com/api/docs/guides/latest-model>: tools with reasoning belong to the Responses API; the
/// error of the API says the same.
const TOOLS_WITHOUT_REASONING_SINCE: (u32, u32) = (5, 4);

pub(super) fn check(request: &Request) -> Result<Plan, Refusal> {
    openai::key(request)?;
    let body = &request.body;
    check_fields_of(body)?;
    let name = openai::name(request);
    let named = openai::model(request, name)?;
    // The pages of such models name the Responses API alone.
    if named.model.responses_only {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            INVALID,
            "This model is only supported in v1/responses and not in v1/chat/completions.",
        )
        .param("model"));
    }
    let given = body["reasoning_effort"].as_str();
    openai::check_effort(&named, given, "reasoning_effort")?;
    let effort = openai::effort(&named, given);
    openai::check_sampling(&named, body, effort)?;
    check_limits(&named, body)?;
    if !body["stream_options"].is_null() && body["stream"] != true {
        // The reference, on `stream_options`: "Only set this when you set stream: true".
        return Err(bad_request(
            INVALID,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        )
        .param("stream_options"));
    }
    openai::check_tools(body, ".function", |tool| tool.get("function"))?;
    if !list(body, "tools").is_empty() && effort != "none" && named.version() >= TOOLS_WITHOUT_REASONING_SINCE {
        return Err(bad_request(
            INVALID,
            format!(
                "Function tools with reasoning_effort are not supported for {name} in /v1/chat/completions. To use function \
                 tools, use /v1/responses or set reasoning_effort to 'none'."
            ),
        )
        .param("reasoning_effort"));
    }
    let names: Vec<&str> = list(body, "tools")
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str())
        .collect();
    openai::check_choice(body, body["tool_choice"]["function"]["name"].as_str(), &names)?;
    if let Some(format) = body["response_format"].get("json_schema") {
        openai::check_format(&format["name"], &format["strict"], &format["schema"], "response_format")?;
    }
    openai::check_cache_options(&named, body)?;
    check_messages(&named, list(body, "messages"))?;
    let (caching, ends) = openai::caching(&named, body);
    Ok(Plan {
        model: name.to_owned(),
        stream: body["stream"] == true,
        reasons: effort != "none" && named.reasons(),
        shown: false,
        signs: false,
        bound: None,
        store: false,
        prompt: prompt(body, ends),
        caching,
        opening: opening(list(body, "messages")),
        losses: losses(body),
    })
}

pub(super) fn check_fields_of(body: &Value) -> Result<(), Refusal> {
    check_fields(&Kind::Object(REQUEST), body).map_err(openai::problem)
}

/// <https://developers.openai.com/api/docs/guides/reasoning>, "Allocating space for reasoning", and the reference on `max_tokens`: "This
/// value is now deprecated in favor of max_completion_tokens, and is not compatible with o-series models".
fn check_limits(named: &Named<'_>, body: &Value) -> Result<(), Refusal> {
    if named.reasons() && !body["max_tokens"].is_null() {
        return Err(bad_request(
            INVALID,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        )
        .param("max_tokens")
        .code("unsupported_parameter"));
    }
    openai::check_limit(named, &body["max_tokens"], "max_tokens")?;
    openai::check_limit(named, &body["max_completion_tokens"], "max_completion_tokens")
}

/// <https://developers.openai.com/api/docs/guides/function-calling>, "Handling function calls": each call is answered by a `tool` message
/// with its id, right after.
pub(super) fn check_messages(named: &Named<'_>, messages: &[Value]) -> Result<(), Refusal> {
    if messages.is_empty() {
        return Err(bad_request(
            INVALID,
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        )
        .param("messages")
        .code("empty_array"));
    }
    let mut open: Vec<&str> = Vec::new();
    let mut asked_at = 0;
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" {
            all_answered(&open, asked_at)?;
            open.clear();
        }
        check_content(named, message, index)?;
        match role {
            "assistant" => {
                asked_at = index;
                for (position, call) in list(message, "tool_calls").iter().enumerate() {
                    let id = call["id"].as_str().unwrap_or_default();
                    let path = format!("messages[{index}].tool_calls[{position}]");
                    openai::check_id(id, &format!("{path}.id"), CALL_ID_MAX_CHARACTERS)?;
                    let name = call["function"]["name"].as_str().unwrap_or_default();
                    openai::check_name(name, &format!("{path}.function.name"), 64)?;
                    open.push(id);
                }
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                openai::check_id(id, &format!("messages[{index}].tool_call_id"), CALL_ID_MAX_CHARACTERS)?;
                let Some(position) = open.iter().position(|open| *open == id) else {
                    return Err(bad_request(
                        INVALID,
                        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                         'tool_calls'.",
                    )
                    .param(format!("messages.[{index}].role")));
                };
                open.remove(position);
            }
            _ => {}
        }
    }
    all_answered(&open, asked_at)
}

fn all_answered(open: &[&str], index: usize) -> Result<(), Refusal> {
    if open.is_empty() {
        return Ok(());
    }
    Err(bad_request(
        INVALID,
        format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The \
             following tool_call_ids did not have response messages: {}",
            open.join(", ")
        ),
    )
    .param(format!("messages.[{index}].role")))
}

/// The reference: an assistant message has content unless it calls tools; a list of parts has at least one; media are for models that take
/// them.
fn check_content(named: &Named<'_>, message: &Value, index: usize) -> Result<(), Refusal> {
    let content = &message["content"];
    if content.is_null() && list(message, "tool_calls").is_empty() && message["refusal"].is_null() {
        return Err(
            bad_request(INVALID, "Invalid value for 'content': expected a string, got null.")
                .param(format!("messages.[{index}].content")),
        );
    }
    if content.as_array().is_some_and(Vec::is_empty) {
        let path = format!("messages[{index}].content");
        return Err(bad_request(
            INVALID,
            format!(
                "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
            ),
        )
        .param(path)
        .code("empty_array"));
    }
    for (position, part) in list(message, "content").iter().enumerate() {
        let kind = part["type"].as_str().unwrap_or_default();
        openai::check_medium(named, kind, &format!("messages[{index}].content[{position}].type"))?;
    }
    let ids: Vec<&str> = list(message, "tool_calls")
        .iter()
        .filter_map(|call| call["id"].as_str())
        .collect();
    let distinct: HashSet<&str> = ids.iter().copied().collect();
    if distinct.len() < ids.len() {
        return Err(bad_request(INVALID, "Duplicate tool_call ids in an assistant message.")
            .param(format!("messages.[{index}].tool_calls")));
    }
    Ok(())
}

pub(super) fn prompt(body: &Value, ends: bool) -> Prompt {
    let mut prompt = Prompt::default();
    for tool in list(body, "tools") {
        prompt.push(tool.to_string(), false);
    }
    for message in list(body, "messages") {
        let marked = list(message, "content")
            .iter()
            .any(|part| !part["prompt_cache_breakpoint"].is_null());
        let mut bare = message.clone();
        for part in bare["content"].as_array_mut().into_iter().flatten() {
            if let Some(part) = part.as_object_mut() {
                part.remove("prompt_cache_breakpoint");
            }
        }
        prompt.push(bare.to_string(), marked);
    }
    if ends {
        prompt.end_breakpoint();
    }
    prompt
}

pub(super) fn opening(messages: &[Value]) -> String {
    let mut text = String::new();
    for message in messages {
        text.push_str(&text_of(&message["content"]));
        text.push('\n');
        if message["role"] == "user" {
            break;
        }
    }
    text
}

/// <https://developers.openai.com/api/docs/guides/prompt-caching>: in explicit mode without a breakpoint nothing is cached.
fn losses(body: &Value) -> Vec<String> {
    let explicit = body["prompt_cache_options"]["mode"] == "explicit";
    if explicit && !body["messages"].to_string().contains("prompt_cache_breakpoint") {
        return vec!["the mode of the prompt cache is explicit, and no part is marked: nothing is cached".to_owned()];
    }
    Vec::new()
}

/// The events of the stream.
/// <https://developers.openai.com/api/reference/resources/chat/subresources/completions/streaming-events>
pub(super) fn frames(answer: &Answer, body: &Value) -> Vec<String> {
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": id(answer),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": answer.model,
            "service_tier": "default",
            "system_fingerprint": null,
            "choices": choices,
        });
        if body["stream_options"]["include_usage"] == true {
            chunk["usage"] = usage;
        }
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value| {
        chunk(
            json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]),
            Value::Null,
        )
    };
    let content = if answer.text.is_empty() { Value::Null } else { json!("") };
    let mut frames = vec![delta(json!({"role": "assistant", "content": content, "refusal": null}))];
    frames.extend(answer.words().into_iter().map(|word| delta(json!({"content": word}))));
    for (index, call) in answer.calls.iter().enumerate() {
        frames.push(delta(json!({"tool_calls": [{
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }]})));
        for part in argument_parts(&call.arguments) {
            frames.push(delta(
                json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]}),
            ));
        }
    }
    frames.push(chunk(
        json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish(answer)}]),
        Value::Null,
    ));
    if body["stream_options"]["include_usage"] == true {
        frames.push(chunk(json!([]), usage(answer)));
    }
    frames.push("data: [DONE]\n\n".to_owned());
    frames
}

/// A fixed creation time: tests compare whole answers.
pub(super) const CREATED: u64 = 1_790_000_000;

fn id(answer: &Answer) -> String {
    format!("chatcmpl-{:024}", answer.number)
}

pub(super) fn whole(answer: &Answer) -> Value {
    let calls: Vec<Value> = answer
        .calls
        .iter()
        .map(|call| {
            json!({
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments.to_string()},
            })
        })
        .collect();
    let content = if answer.text.is_empty() {
        Value::Null
    } else {
        json!(answer.text)
    };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    json!({
        "id": id(answer),
        "object": "chat.completion",
        "created": CREATED,
        "model": answer.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish(answer)}],
        "usage": usage(answer),
        "service_tier": "default",
        "system_fingerprint": null,
    })
}

fn finish(answer: &Answer) -> &'static str {
    match answer.stop {
        Some(Stop::Length) => "length",
        Some(Stop::Filtered) => "content_filter",
        None if answer.calls.is_empty() => "stop",
        None => "tool_calls",
    }
}

fn usage(answer: &Answer) -> Value {
    let tokens = answer.tokens;
    json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cached,
            "cache_write_tokens": tokens.cache_write,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": answer.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}
