//! Anthropic's Messages, `POST /v1/messages`.
//! <https://platform.claude.com/docs/en/api/messages/create>

mod conversation;
mod errors;
mod families;
mod fields;
mod parameters;
mod prompt;
mod sent;
mod signatures;

use serde_json::Value;

use self::conversation::{check_calls, check_messages};
use self::errors::{INVALID, problem};
pub(super) use self::errors::{error_body, failure, request_id};
use self::families::{is_adaptive_only, is_bound};
use self::fields::REQUEST;
use self::parameters::{Thinking, check_limit, check_output, check_sampling, check_thinking, check_tools};
use self::prompt::{check_caching, prompt};
pub(super) use self::sent::{error_event, frames, whole};
pub(super) use self::signatures::signature;
use self::signatures::{check_signatures, conversation};

use super::account::{ANTHROPIC_LOOKBACK, Caching};
use super::fields::{Kind, check as check_fields};
use super::ledger::Ledger;
use super::models::served;
use super::plan::{Plan, Request, bad_request, list, text_of};
use super::refusal::Refusal;
use super::service::Service;
use axum::http::StatusCode;
use chrono::NaiveDate;

/// The newest version of the API.
const NEWEST: &str = "2026-10-21";
/// Where the catalogue knows no other: <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>, "Cache limitations".
const CACHE_MIN_TOKENS: u64 = 1_024;

/// <https://platform.claude.com/docs/en/api/errors>: 401 `authentication_error`; <https://platform.claude.com/docs/en/api/versioning>: the
/// version header is required. Anthropic's own clients send the key as a bearer token since 2.0; `x-api-key` is the older way.
fn key(request: &Request) -> Result<(), Refusal> {
    let refuse = |message: &str| Err(Refusal::new(StatusCode::UNAUTHORIZED, "authentication_error", message));
    let bearer = request
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "));
    match request.header("x-api-key").or(bearer) {
        None | Some("") => return refuse("x-api-key header is required"),
        Some(key) if key != request.key => return refuse("invalid x-api-key"),
        Some(_) => {}
    }
    match request.header("anthropic-version") {
        Some("2023-06-01" | NEWEST) => Ok(()),
        Some(other) => Err(bad_request(
            INVALID,
            format!("anthropic-version: \"{other}\" is not a valid version"),
        )),
        None => Err(bad_request(INVALID, "anthropic-version: header is required")),
    }
}

/// <https://platform.claude.com/docs/en/api/versioning>, "2026-10-21": no sampling parameters, not even their defaults; no documents in the
/// assistant's messages; no citations in those of the user.
fn check_newest(body: &Value) -> Result<(), Refusal> {
    if let Some(param) = ["temperature", "top_p", "top_k"]
        .into_iter()
        .find(|param| !body[*param].is_null())
    {
        return Err(bad_request(INVALID, format!("{param}: Extra inputs are not permitted")));
    }
    for (index, message) in list(body, "messages").iter().enumerate() {
        let refused = |block: &Value| match message["role"].as_str() {
            Some("assistant") => block["type"] == "document",
            _ => block["type"] == "text" && !list(block, "citations").is_empty(),
        };
        if let Some(position) = list(message, "content").iter().position(refused) {
            return Err(bad_request(
                INVALID,
                format!("messages.{index}.content.{position}: Extra inputs are not permitted"),
            ));
        }
    }
    Ok(())
}

pub(super) fn check(request: &Request, ledger: &Ledger) -> Result<Plan, Refusal> {
    key(request)?;
    if request.header("anthropic-version") == Some(NEWEST) {
        check_newest(&request.body)?;
    }
    checked(request.service, &request.body, request.today, ledger)
}

/// A request whose key is valid, at Anthropic or at another service that serves Claude.
pub(super) fn checked(service: Service, body: &Value, today: NaiveDate, ledger: &Ledger) -> Result<Plan, Refusal> {
    check_fields(&Kind::Object(REQUEST), body).map_err(problem)?;
    let name = body["model"].as_str().unwrap_or_default();
    // <https://platform.claude.com/docs/en/about-claude/model-deprecations>: requests for retired models fail.
    let named = served(service.provider(), name, today)
        .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "not_found_error", format!("model: {name}")))?;
    let thinking = check_thinking(&named, body)?;
    check_limit(&named, body)?;
    check_sampling(&named, body, thinking)?;
    check_output(&named, &body["output_config"])?;
    check_tools(&named, body, thinking)?;
    check_caching(body)?;
    let messages = list(body, "messages");
    check_messages(&named, messages, thinking)?;
    check_calls(messages)?;
    let bound = is_bound(&named).then(|| conversation(body, messages.len()));
    let mut losses = Vec::new();
    check_signatures(&named, body, thinking, ledger, &mut losses)?;
    let prompt = prompt(body);
    let system = text_of(&body["system"]);
    let first = messages
        .iter()
        .find(|message| message["role"] == "user")
        .map(|message| text_of(&message["content"]))
        .unwrap_or_default();
    Ok(Plan {
        model: name.to_owned(),
        stream: body["stream"] == true,
        reasons: thinking != Thinking::Off,
        shown: match body["thinking"]["display"].as_str() {
            Some(display) => display == "summarized",
            // <https://platform.claude.com/docs/en/build-with-claude/thinking>, "display": omitted by default since Opus 4.7.
            None => !is_adaptive_only(&named),
        },
        signs: true,
        bound,
        store: false,
        prompt,
        caching: Caching::Breakpoints {
            min_tokens: named.model.cache_min_tokens.unwrap_or(CACHE_MIN_TOKENS),
            lookback: ANTHROPIC_LOOKBACK,
        },
        opening: format!("{system}\n{first}"),
        losses,
    })
}
