//! Chat Completions at OpenRouter, `POST /api/v1/chat/completions`: what differs from OpenAI.
//! <https://openrouter.ai/docs/api/reference/overview>
//!
//! - `fields`  the fields that OpenAI's protocol does not have
//! - `details` reasoning that goes back
//! - `sent`    answers and errors

mod details;
mod fields;
mod sent;

use axum::http::StatusCode;
use rejoin_models::Ability;
use serde_json::Value;

use self::details::check_details;
pub(super) use self::details::details;
use self::fields::{check_own, without_own};
pub(super) use self::sent::{error_body, error_event, failure, frames, whole};
use super::account::{ANTHROPIC_LOOKBACK, Caching, IMPLICIT_MIN_TOKENS};
use super::chat;
use super::ledger::Ledger;
use super::models::{Named, served};
use super::openai;
use super::plan::{Plan, Request, bad_request, list};
use super::refusal::Refusal;

const INVALID: &str = "invalid_request_error";

/// Who made the model: OpenRouter's names begin with it. <https://openrouter.ai/docs/guides/overview/models>, `id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vendor {
    Anthropic,
    OpenAi,
    Google,
    Other,
}

impl Vendor {
    pub(super) fn of(model: &str) -> Self {
        match model.split_once('/').map_or("", |(vendor, _)| vendor) {
            "anthropic" => Self::Anthropic,
            "openai" => Self::OpenAi,
            "google" => Self::Google,
            _ => Self::Other,
        }
    }
}

/// <https://openrouter.ai/docs/api/reference/errors-and-debugging>, 401: "Invalid credentials".
fn key(request: &Request) -> Result<(), Refusal> {
    let refuse = |message: &str| Err(Refusal::new(StatusCode::UNAUTHORIZED, INVALID, message));
    match request.bearer() {
        None | Some("") => refuse("No auth credentials found"),
        Some(key) if key != request.key => refuse("User not found."),
        Some(_) => Ok(()),
    }
}

pub(super) fn check(request: &Request, ledger: &Ledger) -> Result<Plan, Refusal> {
    key(request)?;
    check_own(&request.body)?;
    let body = &without_own(&request.body);
    chat::check_fields_of(body)?;
    let name = body["model"].as_str().unwrap_or_default();
    // <https://openrouter.ai/docs/guides/overview/models>: the id of a model has its vendor before it.
    let named = served("openrouter", name, request.today)
        .filter(|_| name.contains('/'))
        .ok_or_else(|| bad_request(INVALID, format!("{name} is not a valid model ID")))?;
    let reasons = reasons(&named, &request.body)?;
    openai::check_tools(body, ".function", |tool| tool.get("function"))?;
    let names: Vec<&str> = list(body, "tools")
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str())
        .collect();
    openai::check_choice(body, body["tool_choice"]["function"]["name"].as_str(), &names)?;
    // <https://openrouter.ai/docs/guides/features/tool-calling>: "The tools parameter must be included in every request", that with the
    // results, too.
    let calls = list(body, "messages")
        .iter()
        .any(|message| !list(message, "tool_calls").is_empty());
    if calls && list(body, "tools").is_empty() {
        return Err(bad_request(
            INVALID,
            "tools: the tools that the conversation has calls of must be included in every request",
        ));
    }
    chat::check_messages(&named, list(body, "messages"))?;
    let mut losses = Vec::new();
    check_details(&named, list(&request.body, "messages"), ledger, &mut losses)?;
    // <https://openrouter.ai/docs/client-sdks/typescript/models/anthropiccachecontroldirective>: at the top level "the system automatically
    // applies cache breakpoints to the last cacheable block in the request".
    let automatic = !request.body["cache_control"].is_null();
    Ok(Plan {
        model: name.to_owned(),
        stream: body["stream"] == true,
        reasons,
        shown: request.body["reasoning"]["exclude"] != true,
        signs: true,
        bound: None,
        store: false,
        prompt: chat::prompt(body, automatic),
        caching: caching(&named),
        opening: chat::opening(list(body, "messages")),
        losses,
    })
}

/// <https://openrouter.ai/docs/guides/best-practices/prompt-caching>: Claude's prompts are cached up to marks, the others' by themselves.
fn caching(named: &Named<'_>) -> Caching {
    let min_tokens = named.model.cache_min_tokens.unwrap_or(IMPLICIT_MIN_TOKENS);
    match Vendor::of(named.name) {
        Vendor::Anthropic => Caching::Breakpoints {
            min_tokens,
            lookback: ANTHROPIC_LOOKBACK,
        },
        _ if named.model.can(Ability::Caching) == Some(false) => Caching::None,
        Vendor::OpenAi | Vendor::Google | Vendor::Other => Caching::Prefix {
            min_tokens,
            step_tokens: 1,
        },
    }
}

/// <https://openrouter.ai/docs/guides/best-practices/reasoning-tokens>, "Controlling Reasoning Tokens": an effort or a number of tokens, "not
/// both"; `none` switches it off. Without any of it Claude does not reason before 4.6, and other models of today do.
fn reasons(named: &Named<'_>, body: &Value) -> Result<bool, Refusal> {
    let wish = &body["reasoning"];
    let effort = wish["effort"].as_str().or(body["reasoning_effort"].as_str());
    if effort.is_some() && !wish["max_tokens"].is_null() {
        return Err(bad_request(
            INVALID,
            "Only one of \"reasoning.effort\" and \"reasoning.max_tokens\" can be specified",
        ));
    }
    let by_itself = match Vendor::of(named.name) {
        Vendor::Anthropic => named.version() >= (5, 0),
        Vendor::OpenAi => named.version() >= (5, 0),
        Vendor::Google => named.version() >= (2, 5),
        Vendor::Other => false,
    };
    Ok(match (effort, wish["enabled"].as_bool()) {
        (Some(effort), _) => effort != "none",
        (None, Some(enabled)) => enabled,
        (None, None) => by_itself || !wish["max_tokens"].is_null(),
    })
}
