//! Events and errors. <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html>
//!
//! A frame is text here, the event's name and its JSON; `frames` writes it as bytes.

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use crate::answer::{Answer, argument_parts};
use crate::refusal::Refusal;
use crate::turn::Stop;

/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html>: the kind of an error is in a header.
pub(crate) fn name_error(response: &mut Response, refusal: &Refusal) {
    response
        .headers_mut()
        .insert("x-amzn-errortype", HeaderValue::from_static(refusal.kind));
}

pub(crate) fn error_body(refusal: &Refusal) -> Value {
    json!({"message": refusal.message})
}

/// <https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html>.
pub(crate) fn failure(status: StatusCode) -> Refusal {
    let (kind, message) = match status.as_u16() {
        429 => (
            "ThrottlingException",
            "Too many requests, please wait before trying again.",
        ),
        424 => (
            "ModelErrorException",
            "The request failed due to an error while processing the model.",
        ),
        503 => (
            "ServiceUnavailableException",
            "The service isn't currently available. Try again later.",
        ),
        _ => (
            "InternalServerException",
            "An internal server error occurred. Retry your request.",
        ),
    };
    Refusal::new(status, kind, message)
}

/// An exception in the middle of a stream.
pub(crate) fn error_event(refusal: &Refusal) -> String {
    format!("!serviceUnavailableException {}\n", error_body(refusal))
}

fn event(name: &str, payload: &Value) -> String {
    format!("{name} {payload}\n")
}

pub(crate) fn frames(answer: &Answer) -> Vec<String> {
    let mut frames = vec![event("messageStart", &json!({"role": "assistant"}))];
    let mut index = 0;
    let mut block = |start: Option<Value>, deltas: Vec<Value>| {
        let mut frames = Vec::new();
        if let Some(start) = start {
            frames.push(event(
                "contentBlockStart",
                &json!({"contentBlockIndex": index, "start": start}),
            ));
        }
        for delta in deltas {
            frames.push(event(
                "contentBlockDelta",
                &json!({"contentBlockIndex": index, "delta": delta}),
            ));
        }
        frames.push(event("contentBlockStop", &json!({"contentBlockIndex": index})));
        index += 1;
        frames
    };
    if let Some(reasoning) = &answer.reasoning {
        let mut deltas = Vec::new();
        if !reasoning.shown.is_empty() {
            deltas.push(json!({"reasoningContent": {"text": reasoning.shown}}));
        }
        if let Some(signature) = &reasoning.signature {
            deltas.push(json!({"reasoningContent": {"signature": signature}}));
        }
        frames.extend(block(None, deltas));
    }
    if !answer.text.is_empty() {
        let words = answer.words().into_iter().map(|word| json!({"text": word})).collect();
        frames.extend(block(None, words));
    }
    for call in &answer.calls {
        let parts = argument_parts(&call.arguments);
        frames.extend(block(
            Some(json!({"toolUse": {"toolUseId": call.id, "name": call.name}})),
            parts
                .into_iter()
                .map(|part| json!({"toolUse": {"input": part}}))
                .collect(),
        ));
    }
    frames.push(event("messageStop", &json!({"stopReason": stop(answer)})));
    frames.push(event(
        "metadata",
        &json!({"usage": usage(answer), "metrics": {"latencyMs": 100}}),
    ));
    frames
}

pub(crate) fn whole(answer: &Answer) -> Value {
    let mut content = Vec::new();
    if let Some(reasoning) = &answer.reasoning {
        let mut text = json!({"text": reasoning.shown});
        if let Some(signature) = &reasoning.signature {
            text["signature"] = json!(signature);
        }
        content.push(json!({"reasoningContent": {"reasoningText": text}}));
    }
    if !answer.text.is_empty() {
        content.push(json!({"text": answer.text}));
    }
    for call in &answer.calls {
        content.push(json!({"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}}));
    }
    json!({
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop(answer),
        "usage": usage(answer),
        "metrics": {"latencyMs": 100},
    })
}

fn stop(answer: &Answer) -> &'static str {
    match answer.stop {
        Some(Stop::Length) => "max_tokens",
        Some(Stop::Filtered) => "content_filtered",
        None if answer.calls.is_empty() => "end_turn",
        None => "tool_use",
    }
}

/// <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>: `inputTokens` are those that were neither read from the cache nor
/// written to it.
fn usage(answer: &Answer) -> Value {
    let tokens = answer.tokens;
    json!({
        "inputTokens": tokens.input.saturating_sub(tokens.cached + tokens.cache_write),
        "outputTokens": tokens.output,
        "totalTokens": tokens.input + tokens.output,
        "cacheReadInputTokens": tokens.cached,
        "cacheWriteInputTokens": tokens.cache_write,
    })
}
