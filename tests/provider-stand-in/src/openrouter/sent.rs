//! Answers and errors: OpenAI's, with the reasoning and the provider in them.
//! <https://openrouter.ai/docs/api/reference/overview>, "CompletionsResponse Format"; streams: <https://openrouter.ai/docs/api/reference/streaming>

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{Vendor, details};
use crate::answer::{Answer, pieces};
use crate::chat;
use crate::refusal::Refusal;

/// <https://openrouter.ai/docs/api/reference/errors-and-debugging>: `code` is a number, and there is no `type`.
pub(crate) fn error_body(refusal: &Refusal) -> Value {
    json!({"error": {"message": refusal.message, "code": refusal.status.as_u16()}})
}

/// The same page, "Error Codes".
pub(crate) fn failure(status: StatusCode) -> Refusal {
    let message = match status.as_u16() {
        402 => "Insufficient credits. Add more using https://openrouter.ai/settings/credits",
        429 => "Rate limit exceeded",
        503 => "There is no available model provider that meets your routing requirements",
        _ => "Provider returned error",
    };
    Refusal::new(status, "error", message)
}

/// The same page, "Mid-Stream Errors": the error is beside a choice that ended with it.
pub(crate) fn error_event(refusal: &Refusal) -> String {
    let chunk = json!({
        "id": "gen-error",
        "object": "chat.completion.chunk",
        "created": chat::CREATED,
        "error": {"code": refusal.status.as_u16(), "message": refusal.message},
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
    });
    format!("data: {chunk}\n\n")
}

fn provider(model: &str) -> &'static str {
    match Vendor::of(model) {
        Vendor::Anthropic => "Anthropic",
        Vendor::OpenAi => "OpenAI",
        Vendor::Google => "Google",
        Vendor::Other => "Other",
    }
}

/// OpenAI's events, with the reasoning after the first, and comments that keep the connection open.
pub(crate) fn frames(answer: &Answer, body: &Value) -> Vec<String> {
    // "Usage accounting": the last event always has it.
    let mut body = body.clone();
    body["stream_options"] = json!({"include_usage": true});
    let mut of_openai = chat::frames(answer, &body).into_iter();
    let mut frames = vec![": OPENROUTER PROCESSING\n\n".to_owned()];
    frames.extend(of_openai.next());
    for (reasoning, pieces) in pieces_of(answer) {
        let mut delta = json!({"role": "assistant", "content": "", "reasoning_details": pieces});
        if !reasoning.is_empty() {
            delta["reasoning"] = json!(reasoning);
        }
        let chunk = json!({
            "id": format!("gen-{:024}", answer.number),
            "provider": provider(&answer.model),
            "model": answer.model,
            "object": "chat.completion.chunk",
            "created": chat::CREATED,
            "choices": [{"index": 0, "delta": delta, "finish_reason": null, "native_finish_reason": null}],
        });
        frames.push(format!("data: {chunk}\n\n"));
    }
    frames.extend(of_openai);
    frames
}

/// The reasoning in pieces: its words, then what is signed or encrypted. "Streaming Response" of the page on reasoning.
fn pieces_of(answer: &Answer) -> Vec<(String, Value)> {
    let Some(reasoning) = &answer.reasoning else {
        return Vec::new();
    };
    let mut sent = Vec::new();
    for detail in details(reasoning, &answer.model) {
        let field = ["text", "summary"].into_iter().find(|field| detail[*field].is_string());
        let Some(field) = field else {
            sent.push((String::new(), json!([detail])));
            continue;
        };
        for word in pieces(detail[field].as_str().unwrap_or_default()) {
            let mut piece = json!({"type": detail["type"], "format": detail["format"], "index": detail["index"]});
            piece[field] = json!(word);
            sent.push((word, json!([piece])));
        }
        if let Some(signature) = detail.get("signature") {
            let mut piece = json!({"type": detail["type"], "format": detail["format"], "index": detail["index"]});
            piece["signature"] = signature.clone();
            // A block without words begins with an empty one.
            if detail[field] == "" {
                piece[field] = json!("");
            }
            sent.push((String::new(), json!([piece])));
        }
    }
    sent
}

pub(crate) fn whole(answer: &Answer) -> Value {
    let mut whole = chat::whole(answer);
    whole["provider"] = json!(provider(&answer.model));
    if let Some(reasoning) = &answer.reasoning {
        let message = &mut whole["choices"][0]["message"];
        message["reasoning"] = json!(reasoning.shown);
        message["reasoning_details"] = json!(details(reasoning, &answer.model));
    }
    whole
}
