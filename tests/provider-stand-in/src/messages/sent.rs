//! Output: a message, and the events of a stream. <https://platform.claude.com/docs/en/build-with-claude/streaming>

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::errors::error_body;
use crate::answer::{Answer, argument_parts, pieces};
use crate::refusal::Refusal;
use crate::turn::Stop;

fn event(name: &str, data: Value) -> String {
    let mut data = data;
    data["type"] = json!(name);
    format!("event: {name}\ndata: {data}\n\n")
}

/// The events of the stream. <https://platform.claude.com/docs/en/build-with-claude/streaming>
pub(crate) fn frames(answer: &Answer) -> Vec<String> {
    let mut message = message(answer, json!([]));
    message["stop_reason"] = Value::Null;
    message["usage"]["output_tokens"] = json!(1);
    let mut frames = vec![
        event("message_start", json!({"message": message})),
        event("ping", json!({})),
    ];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        frames.push(event(
            "content_block_start",
            json!({"index": index, "content_block": start}),
        ));
        for delta in deltas {
            frames.push(event("content_block_delta", json!({"index": index, "delta": delta})));
        }
        frames.push(event("content_block_stop", json!({"index": index})));
        index += 1;
    };
    if let Some(reasoning) = &answer.reasoning {
        let mut deltas: Vec<Value> = pieces(&reasoning.shown)
            .into_iter()
            .map(|word| json!({"type": "thinking_delta", "thinking": word}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": reasoning.signature}));
        block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
    }
    if !answer.text.is_empty() {
        let deltas = answer
            .words()
            .into_iter()
            .map(|word| json!({"type": "text_delta", "text": word}));
        block(json!({"type": "text", "text": ""}), deltas.collect());
    }
    for call in &answer.calls {
        let deltas = argument_parts(&call.arguments)
            .into_iter()
            .map(|part| json!({"type": "input_json_delta", "partial_json": part}));
        block(
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}),
            deltas.collect(),
        );
    }
    frames.push(event(
        "message_delta",
        json!({"delta": {"stop_reason": stop(answer), "stop_sequence": null}, "usage": usage(answer)}),
    ));
    frames.push(event("message_stop", json!({})));
    frames
}

/// An error in the middle of a stream; the same page, "Error events".
pub(crate) fn error_event(number: u64) -> String {
    let refusal = Refusal::new(StatusCode::OK, "overloaded_error", "Overloaded");
    event("error", error_body(&refusal, number))
}

pub(crate) fn whole(answer: &Answer) -> Value {
    let mut content: Vec<Value> = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        content.push(json!({"type": "thinking", "thinking": reasoning.shown, "signature": reasoning.signature}));
    }
    if !answer.text.is_empty() {
        content.push(json!({"type": "text", "text": answer.text}));
    }
    for call in &answer.calls {
        content.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}));
    }
    message(answer, Value::Array(content))
}

fn message(answer: &Answer, content: Value) -> Value {
    json!({
        "id": format!("msg_{:022}", answer.number),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop(answer),
        "stop_sequence": null,
        "usage": usage(answer),
    })
}

fn stop(answer: &Answer) -> &'static str {
    match answer.stop {
        Some(Stop::Length) => "max_tokens",
        Some(Stop::Filtered) => "refusal",
        None if answer.calls.is_empty() => "end_turn",
        None => "tool_use",
    }
}

/// <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>, "Tracking cache performance": `input_tokens` are those after the
/// last breakpoint.
fn usage(answer: &Answer) -> Value {
    let tokens = answer.tokens;
    json!({
        "input_tokens": tokens.input - tokens.cached - tokens.cache_write,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": tokens.output,
        "output_tokens_details": {"thinking_tokens": answer.reasoning_tokens},
        "service_tier": "standard",
    })
}
