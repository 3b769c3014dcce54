//! The fields that OpenAI's protocol does not have.
//! <https://openrouter.ai/docs/api/api-reference/chat/send-chat-completion-request>

use serde_json::{Map, Value};

use super::INVALID;
use crate::fields::{Kind, Problem, bracketed, check, may, must};
use crate::plan::{bad_request, list};
use crate::refusal::Refusal;

/// <https://openrouter.ai/docs/guides/best-practices/reasoning-tokens>, "Controlling Reasoning Tokens".
static REASONING: Kind = Kind::Object(&[
    may(
        "effort",
        &Kind::Word(&["xhigh", "high", "medium", "low", "minimal", "none"]),
    ),
    may("max_tokens", &Kind::Integer),
    may("exclude", &Kind::Flag),
    may("enabled", &Kind::Flag),
    may("summary", &Kind::Word(&["auto", "concise", "detailed"])),
]);

static CACHE_CONTROL: Kind = Kind::Tagged("type", &[("ephemeral", &[may("ttl", &Kind::Word(&["5m", "1h"]))])]);

/// The same page, "reasoning_details Array Structure".
static DETAIL: Kind = Kind::Tagged(
    "type",
    &[
        (
            "reasoning.summary",
            &[
                must("summary", &Kind::Text),
                may("id", &Kind::Text),
                may("format", &Kind::Text),
                may("index", &Kind::Integer),
            ],
        ),
        (
            "reasoning.encrypted",
            &[
                must("data", &Kind::Text),
                may("id", &Kind::Text),
                may("format", &Kind::Text),
                may("index", &Kind::Integer),
            ],
        ),
        (
            "reasoning.text",
            &[
                may("text", &Kind::Text),
                may("signature", &Kind::Text),
                may("id", &Kind::Text),
                may("format", &Kind::Text),
                may("index", &Kind::Integer),
            ],
        ),
    ],
);

static OWN: Kind = Kind::Object(&[
    may("reasoning", &REASONING),
    may("include_reasoning", &Kind::Flag),
    may("cache_control", &CACHE_CONTROL),
    may("models", &Kind::List(&Kind::Text)),
    may("provider", &Kind::Map),
    may("plugins", &Kind::List(&Kind::Map)),
    may("route", &Kind::Text),
    may("session_id", &Kind::Text),
    may("top_k", &Kind::Integer),
    may("min_p", &Kind::Number),
    may("top_a", &Kind::Number),
    may("repetition_penalty", &Kind::Number),
    may("usage", &Kind::Map),
]);

static OWN_OF_MESSAGE: Kind = Kind::Object(&[
    may("reasoning", &Kind::Text),
    may("reasoning_content", &Kind::Text),
    may("reasoning_details", &Kind::List(&DETAIL)),
]);

const OF_REQUEST: [&str; 13] = [
    "reasoning",
    "include_reasoning",
    "cache_control",
    "models",
    "provider",
    "plugins",
    "route",
    "session_id",
    "top_k",
    "min_p",
    "top_a",
    "repetition_penalty",
    "usage",
];
const OF_MESSAGE: [&str; 3] = ["reasoning", "reasoning_content", "reasoning_details"];

/// Types of the fields that only OpenRouter has.
pub(super) fn check_own(body: &Value) -> Result<(), Refusal> {
    check(&OWN, &only(body, &OF_REQUEST)).map_err(problem)?;
    for message in list(body, "messages") {
        check(&OWN_OF_MESSAGE, &only(message, &OF_MESSAGE)).map_err(problem)?;
        for part in list(message, "content") {
            if let Some(mark) = part.get("cache_control") {
                check(&CACHE_CONTROL, mark).map_err(problem)?;
            }
        }
    }
    Ok(())
}

fn only(value: &Value, names: &[&str]) -> Value {
    let members = value.as_object().into_iter().flatten();
    let own: Map<String, Value> = members
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    Value::Object(own)
}

/// The request as OpenAI would have it.
pub(super) fn without_own(body: &Value) -> Value {
    let mut bare = body.clone();
    remove(&mut bare, &OF_REQUEST);
    for message in bare["messages"].as_array_mut().into_iter().flatten() {
        remove(message, &OF_MESSAGE);
        for part in message["content"].as_array_mut().into_iter().flatten() {
            remove(part, &["cache_control"]);
        }
    }
    bare
}

fn remove(value: &mut Value, names: &[&str]) {
    if let Some(members) = value.as_object_mut() {
        for name in names {
            members.remove(*name);
        }
    }
}

fn problem(problem: Problem) -> Refusal {
    let message = match problem {
        Problem::Unknown { path } => format!("Unrecognized key: \"{}\"", bracketed(&path)),
        Problem::Missing { path } => format!("Invalid input: {} is required", bracketed(&path)),
        Problem::Type { path, expected, got } => {
            format!(
                "Invalid input at {}: expected {expected}, received {got}",
                bracketed(&path)
            )
        }
        Problem::Word { path, allowed, .. } => {
            format!(
                "Invalid option at {}: expected one of {}",
                bracketed(&path),
                allowed.join("|")
            )
        }
    };
    bad_request(INVALID, message)
}
