//! Ollama's own protocol, `POST /api/chat`. <https://docs.ollama.com/api/chat>
//!
//! It refuses little: a field that it does not know is ignored, and calls and results are not matched. What it advises is kept as a loss.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::account::{Caching, Prompt};
use super::answer::{Answer, pieces};
use super::fields::{Field, Kind, Problem, bracketed, check as check_fields, may, must};
use super::plan::{Plan, Request, bad_request, list};
use super::refusal::Refusal;
use super::turn::Stop;

/// A model that was pulled, with the tags of its page, <https://ollama.com/library>.
struct Pulled {
    name: &'static str,
    tools: bool,
    vision: bool,
    thinking: bool,
}

const PULLED: [Pulled; 4] = [
    Pulled {
        name: "qwen3:8b",
        tools: true,
        vision: false,
        thinking: true,
    },
    Pulled {
        name: "qwen3-vl:8b",
        tools: true,
        vision: true,
        thinking: true,
    },
    Pulled {
        name: "llama3.1",
        tools: true,
        vision: false,
        thinking: false,
    },
    Pulled {
        name: "gemma3:4b",
        tools: false,
        vision: true,
        thinking: false,
    },
];

static MESSAGE: Kind = Kind::Object(&[
    must("role", &Kind::Word(&["system", "user", "assistant", "tool"])),
    may("content", &Kind::Text),
    may("thinking", &Kind::Text),
    may("images", &Kind::List(&Kind::Text)),
    may("tool_name", &Kind::Text),
    may("tool_call_id", &Kind::Text),
    may(
        "tool_calls",
        &Kind::List(&Kind::Object(&[
            may("id", &Kind::Text),
            may("type", &Kind::Text),
            must(
                "function",
                &Kind::Object(&[
                    must("name", &Kind::Text),
                    // An object, and not a text as at OpenAI: "Tool calling" of the page above.
                    must("arguments", &Kind::Map),
                    may("index", &Kind::Integer),
                ]),
            ),
        ])),
    ),
]);

static REQUEST: &[Field] = &[
    must("model", &Kind::Text),
    may("messages", &Kind::List(&MESSAGE)),
    may(
        "tools",
        &Kind::List(&Kind::Object(&[
            must("type", &Kind::Word(&["function"])),
            must(
                "function",
                &Kind::Object(&[
                    must("name", &Kind::Text),
                    may("description", &Kind::Text),
                    may("parameters", &Kind::Map),
                ]),
            ),
        ])),
    ),
    may("format", &Kind::Either(&[&Kind::Word(&["json"]), &Kind::Map])),
    may(
        "options",
        &Kind::Object(&[
            may("num_ctx", &Kind::Integer),
            may("num_predict", &Kind::Integer),
            may("temperature", &Kind::Number),
            may("top_k", &Kind::Integer),
            may("top_p", &Kind::Number),
            may("min_p", &Kind::Number),
            may("seed", &Kind::Integer),
            may("stop", &Kind::List(&Kind::Text)),
        ]),
    ),
    may("stream", &Kind::Flag),
    // <https://docs.ollama.com/capabilities/thinking>: a boolean, or a level.
    may(
        "think",
        &Kind::Either(&[&Kind::Flag, &Kind::Word(&["high", "medium", "low", "max"])]),
    ),
    may("keep_alive", &Kind::Any),
    may("logprobs", &Kind::Flag),
    may("top_logprobs", &Kind::Integer),
];

const INVALID: &str = "invalid";

/// <https://docs.ollama.com/api/errors>: one field.
pub(super) fn error_body(refusal: &Refusal) -> Value {
    json!({"error": refusal.message})
}

/// <https://docs.ollama.com/faq>, "How does Ollama handle concurrent requests?": a 503 where too many wait.
pub(super) fn failure(status: StatusCode) -> Refusal {
    let message = match status.as_u16() {
        503 => "server busy, please try again.  maximum pending requests exceeded",
        429 => "too many requests",
        _ => "an error was encountered while running the model",
    };
    Refusal::new(status, INVALID, message)
}

pub(super) fn check(request: &Request) -> Result<Plan, Refusal> {
    let body = &request.body;
    let mut losses = Vec::new();
    match check_fields(&Kind::Object(REQUEST), body) {
        // Go's decoder passes over what it does not know.
        Err(Problem::Unknown { path }) => losses.push(format!("Ollama ignores the field `{}`", bracketed(&path))),
        Err(Problem::Missing { path }) => {
            return Err(bad_request(INVALID, format!("{} is required", bracketed(&path))));
        }
        Err(Problem::Type { path, expected, got }) => {
            return Err(bad_request(
                INVALID,
                format!(
                    "json: cannot unmarshal {got} into Go struct field ChatRequest.{} of type {expected}",
                    bracketed(&path)
                ),
            ));
        }
        Err(Problem::Word { path, got, .. }) => {
            return Err(bad_request(
                INVALID,
                format!("invalid {} value: \"{got}\"", bracketed(&path)),
            ));
        }
        Ok(()) => {}
    }
    let name = body["model"].as_str().unwrap_or_default();
    let pulled = PULLED
        .iter()
        .find(|model| model.name == name)
        .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, INVALID, format!("model '{name}' not found")))?;
    check_abilities(pulled, body)?;
    check_returns(list(body, "messages"), pulled, &mut losses);
    let thinks = pulled.thinking && body["think"] != false;
    let mut prompt = Prompt::default();
    prompt.push(body["tools"].to_string(), false);
    let mut opening = String::new();
    for message in list(body, "messages") {
        prompt.push(message.to_string(), false);
    }
    for message in list(body, "messages") {
        opening.push_str(message["content"].as_str().unwrap_or_default());
        opening.push('\n');
        if message["role"] == "user" {
            break;
        }
    }
    Ok(Plan {
        model: name.to_owned(),
        // The page above: true unless it says otherwise.
        stream: body["stream"] != false,
        reasons: thinks,
        shown: true,
        signs: false,
        bound: None,
        store: false,
        prompt,
        // <https://docs.ollama.com/api/usage>: `prompt_eval_cached_count`, of a prompt whose beginning is still in memory.
        caching: Caching::Prefix {
            min_tokens: 1,
            step_tokens: 1,
        },
        opening,
        losses,
    })
}

/// <https://docs.ollama.com/capabilities/tool-calling>, thinking and vision: by the model's tags.
fn check_abilities(pulled: &Pulled, body: &Value) -> Result<(), Refusal> {
    let name = pulled.name;
    if !list(body, "tools").is_empty() && !pulled.tools {
        return Err(bad_request(
            INVALID,
            format!("registry.ollama.ai/library/{name} does not support tools"),
        ));
    }
    let asks_to_think = body["think"] == true || body["think"].is_string();
    if asks_to_think && !pulled.thinking {
        return Err(bad_request(INVALID, format!("\"{name}\" does not support thinking")));
    }
    let has_images = list(body, "messages")
        .iter()
        .any(|message| !list(message, "images").is_empty());
    if has_images && !pulled.vision {
        return Err(bad_request(
            INVALID,
            "this model is missing data required for image input",
        ));
    }
    Ok(())
}

/// <https://docs.ollama.com/capabilities/tool-calling>: a message of the model goes back with its `thinking` and `tool_calls`, a result names
/// its tool in `tool_name`.
fn check_returns(messages: &[Value], pulled: &Pulled, losses: &mut Vec<String>) {
    for (index, message) in messages.iter().enumerate() {
        if message["role"] == "tool" && message["tool_name"].is_null() {
            losses.push(format!("the result in message {index} does not name its tool"));
        }
        if pulled.thinking && !list(message, "tool_calls").is_empty() && message["thinking"].is_null() {
            losses.push(format!(
                "message {index} calls a tool without the thinking that the call came with"
            ));
        }
    }
}

/// When everything was made: tests compare whole answers.
const CREATED: &str = "2026-11-24T00:00:00Z";

fn line(answer: &Answer, message: Value) -> Value {
    json!({"model": answer.model, "created_at": CREATED, "message": message, "done": false})
}

fn calls(answer: &Answer) -> Value {
    answer
        .calls
        .iter()
        .enumerate()
        .map(|(index, call)| {
            json!({"id": call.id, "function": {"index": index, "name": call.name, "arguments": call.arguments}})
        })
        .collect()
}

/// <https://docs.ollama.com/api/streaming>: a line of JSON for each piece; the last is `done` and counts.
pub(super) fn frames(answer: &Answer) -> Vec<String> {
    let mut lines = Vec::new();
    let thoughts = answer.reasoning.iter().flat_map(|reasoning| pieces(&reasoning.shown));
    for thought in thoughts {
        lines.push(line(
            answer,
            json!({"role": "assistant", "content": "", "thinking": thought}),
        ));
    }
    for word in answer.words() {
        lines.push(line(answer, json!({"role": "assistant", "content": word})));
    }
    if !answer.calls.is_empty() {
        lines.push(line(
            answer,
            json!({"role": "assistant", "content": "", "tool_calls": calls(answer)}),
        ));
    }
    lines.push(done(answer, json!({"role": "assistant", "content": ""})));
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}

pub(super) fn whole(answer: &Answer) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.text});
    if let Some(reasoning) = &answer.reasoning {
        message["thinking"] = json!(reasoning.shown);
    }
    if !answer.calls.is_empty() {
        message["tool_calls"] = calls(answer);
    }
    done(answer, message)
}

fn done(answer: &Answer, message: Value) -> Value {
    let tokens = answer.tokens;
    let mut last = line(answer, message);
    last["done"] = json!(true);
    last["done_reason"] = json!(match answer.stop {
        Some(Stop::Length) => "length",
        Some(Stop::Filtered) | None => "stop",
    });
    last["total_duration"] = json!(1_000_000_u64);
    last["prompt_eval_count"] = json!(tokens.input);
    last["prompt_eval_cached_count"] = json!(tokens.cached);
    last["eval_count"] = json!(tokens.output);
    last
}
