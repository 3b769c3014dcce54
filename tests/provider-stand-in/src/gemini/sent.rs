//! Output: a response, and the chunks of a stream, each a complete response.

use serde_json::{Value, json};

use crate::answer::{Answer, pieces};
use crate::turn::Stop;

/// Returns the chunks of the stream, each a complete response.
pub(crate) fn frames(answer: &Answer) -> Vec<String> {
    let mut parts: Vec<Value> = Vec::new();
    if let Some(reasoning) = answer
        .reasoning
        .as_ref()
        .filter(|reasoning| !reasoning.shown.is_empty())
    {
        parts.extend(
            pieces(&reasoning.shown)
                .into_iter()
                .map(|word| json!({"text": word, "thought": true})),
        );
    }
    parts.extend(answer.words().into_iter().map(|word| json!({"text": word})));
    parts.extend(call_parts(answer));
    let mut chunks: Vec<Value> = parts
        .into_iter()
        .map(|part| chunk(answer, json!([part]), None))
        .collect();
    // The signature of a text comes with the last chunk, in a part with an empty text: "Signatures in non-functionCall parts".
    let end = match (&answer.text_signature, answer.calls.is_empty()) {
        (Some(signature), true) => json!([{"text": "", "thoughtSignature": signature}]),
        (None, _) | (_, false) => json!([{"text": ""}]),
    };
    chunks.push(chunk(answer, end, Some(finish(answer))));
    chunks
        .into_iter()
        .map(|chunk| format!("data: {chunk}\r\n\r\n"))
        .collect()
}

fn call_parts(answer: &Answer) -> Vec<Value> {
    answer
        .calls
        .iter()
        .map(|call| {
            let mut part = json!({"functionCall": {"name": call.name, "args": call.arguments}});
            // Vertex AI gives none.
            if !call.id.is_empty() {
                part["functionCall"]["id"] = json!(call.id);
            }
            if let Some(signature) = &call.signature {
                part["thoughtSignature"] = json!(signature);
            }
            part
        })
        .collect()
}

fn chunk(answer: &Answer, parts: Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": usage(answer),
        "modelVersion": answer.model,
        "responseId": format!("response-{}", answer.number),
    })
}

pub(crate) fn whole(answer: &Answer) -> Value {
    let mut parts: Vec<Value> = Vec::new();
    if let Some(reasoning) = answer
        .reasoning
        .as_ref()
        .filter(|reasoning| !reasoning.shown.is_empty())
    {
        parts.push(json!({"text": reasoning.shown, "thought": true}));
    }
    if !answer.text.is_empty() {
        let mut part = json!({"text": answer.text});
        if let (Some(signature), true) = (&answer.text_signature, answer.calls.is_empty()) {
            part["thoughtSignature"] = json!(signature);
        }
        parts.push(part);
    }
    parts.extend(call_parts(answer));
    chunk(answer, Value::Array(parts), Some(finish(answer)))
}

fn finish(answer: &Answer) -> &'static str {
    match answer.stop {
        Some(Stop::Length) => "MAX_TOKENS",
        Some(Stop::Filtered) => "SAFETY",
        None => "STOP",
    }
}

/// <https://ai.google.dev/api/generate-content#UsageMetadata>: the thoughts are beside the candidates, the cached part is in the prompt.
fn usage(answer: &Answer) -> Value {
    let tokens = answer.tokens;
    let mut usage = json!({
        "promptTokenCount": tokens.input,
        "candidatesTokenCount": tokens.output.saturating_sub(answer.reasoning_tokens),
        "totalTokenCount": tokens.input + tokens.output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.input}],
    });
    if answer.reasoning_tokens > 0 {
        usage["thoughtsTokenCount"] = json!(answer.reasoning_tokens);
    }
    if tokens.cached > 0 {
        usage["cachedContentTokenCount"] = json!(tokens.cached);
    }
    usage
}
