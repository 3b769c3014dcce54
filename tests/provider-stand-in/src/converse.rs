//! Amazon Bedrock's Converse, `POST /model/{id}/converse` and `/converse-stream`.
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>
//!
//! - `fields`       the fields of a request
//! - `conversation` roles, blocks, calls and results
//! - `claude`       the same request as Anthropic's, whose rules hold for Claude
//! - `sent`         events and errors
//! - `frames`       events as bytes

mod claude;
mod conversation;
mod fields;
mod frames;
mod sent;

use axum::http::StatusCode;
use serde_json::Value;

use self::conversation::{check_blocks, check_calls, check_tools};
use self::fields::{REQUEST, check_unions};
pub(super) use self::frames::encode;
pub(super) use self::sent::{error_body, error_event, failure, frames, name_error, whole};
use super::account::{Caching, Prompt};
use super::fields::{Kind, Problem, check as check_fields, dotted};
use super::ledger::Ledger;
use super::messages;
use super::models::{Named, served};
use super::plan::{Plan, Request, bad_request, list, text_of};
use super::refusal::Refusal;

/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html>.
const INVALID: &str = "ValidationException";
const DENIED: &str = "AccessDeniedException";

/// <https://docs.aws.amazon.com/bedrock/latest/userguide/api-keys-use.html>: the key as a bearer. Signatures of AWS (SigV4) are another way,
/// which is not spoken here.
fn key(request: &Request) -> Result<(), Refusal> {
    let refuse = |kind: &'static str, message: &str| Err(Refusal::new(StatusCode::FORBIDDEN, kind, message));
    match request.bearer() {
        None | Some("") => refuse("MissingAuthenticationTokenException", "Missing Authentication Token"),
        Some(key) if key != request.key => {
            refuse(DENIED, "Authentication failed: Please make sure your API Key is valid.")
        }
        Some(_) => Ok(()),
    }
}

pub(super) fn check(request: &Request, ledger: &Ledger) -> Result<Plan, Refusal> {
    key(request)?;
    let body = &request.body;
    check_fields(&Kind::Object(REQUEST), body).map_err(problem)?;
    check_unions(body)?;
    let name = request.model.as_deref().unwrap_or_default();
    // <https://docs.aws.amazon.com/bedrock/latest/userguide/model-lifecycle.html>: a model whose end of life has come fails.
    let named = served("bedrock", name, request.today)
        .ok_or_else(|| bad_request(INVALID, "The provided model identifier is invalid."))?;
    check_inference(&named, &body["inferenceConfig"])?;
    check_blocks(body)?;
    check_tools(body)?;
    check_calls(body)?;
    let stream = request.streams == Some(true);
    if name.contains("anthropic.claude") {
        let translated = claude::translated(name, body);
        let plan = messages::checked(request.service, &translated, request.today, ledger).map_err(|refusal| {
            bad_request(
                INVALID,
                format!("The model returned the following errors: {}", refusal.message),
            )
        })?;
        return Ok(Plan { stream, ..plan });
    }
    Ok(other(&named, body, stream))
}

/// A model of Amazon or of others. <https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html>: Nova reasons when it is
/// asked to, and its reasoning is redacted and unsigned.
fn other(named: &Named<'_>, body: &Value, stream: bool) -> Plan {
    let more = &body["additionalModelRequestFields"];
    let enabled = [&more["reasoningConfig"], &more["inferenceConfig"]["reasoningConfig"]]
        .iter()
        .any(|config| config["type"] == "enabled");
    let mut prompt = Prompt::default();
    for tool in list(&body["toolConfig"], "tools") {
        prompt.push(tool.to_string(), false);
    }
    prompt.push(body["system"].to_string(), false);
    for message in list(body, "messages") {
        prompt.push(message.to_string(), false);
    }
    let first = list(body, "messages")
        .first()
        .map(|message| text_of(&message["content"]));
    Plan {
        model: named.name.to_owned(),
        stream,
        reasons: enabled,
        shown: true,
        signs: false,
        bound: None,
        store: false,
        prompt,
        caching: Caching::None,
        opening: format!("{}\n{}", text_of(&body["system"]), first.unwrap_or_default()),
        losses: Vec::new(),
    }
}

/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InferenceConfiguration.html>: ranges.
fn check_inference(named: &Named<'_>, config: &Value) -> Result<(), Refusal> {
    for name in ["temperature", "topP"] {
        if config[name].as_f64().is_some_and(|value| !(0.0..=1.0).contains(&value)) {
            return Err(bad_request(
                INVALID,
                format!(
                    "Value at 'inferenceConfig.{name}' failed to satisfy constraint: Member must have value less than or equal to 1"
                ),
            ));
        }
    }
    match (config["maxTokens"].as_u64(), named.model.max_output) {
        (Some(0), _) => Err(bad_request(
            INVALID,
            "Value at 'inferenceConfig.maxTokens' failed to satisfy constraint: Member must have value greater than or equal to 1",
        )),
        (Some(wanted), Some(max)) if wanted > max => Err(bad_request(
            INVALID,
            format!(
                "The maximum tokens you requested exceeds the model limit of {max}. Try again with a maximum tokens value that is \
                 lower than {max}."
            ),
        )),
        (Some(_) | None, _) => Ok(()),
    }
}

fn problem(problem: Problem) -> Refusal {
    let message = match problem {
        Problem::Unknown { path } => format!("Unexpected field: {}", dotted(&path)),
        Problem::Missing { path } => format!(
            "Value null at '{}' failed to satisfy constraint: Member must not be null",
            dotted(&path)
        ),
        Problem::Type { path, expected, got } => {
            format!(
                "Unexpected field type at '{}': expected {expected}, got {got}",
                dotted(&path)
            )
        }
        Problem::Word { path, got, allowed } => format!(
            "Value '{got}' at '{}' failed to satisfy constraint: Member must satisfy enum value set: [{}]",
            dotted(&path),
            allowed.join(", ")
        ),
    };
    bad_request(INVALID, message)
}
