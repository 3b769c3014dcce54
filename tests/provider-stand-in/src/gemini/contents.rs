//! The conversation: roles and parts, calls and their responses, signatures.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use rejoin_models::Ability;
use serde_json::{Value, json};

use super::errors::INVALID;
use super::signs;
use crate::ledger::{Ledger, Signed};
use crate::models::Named;
use crate::plan::{bad_request, list};
use crate::refusal::Refusal;

/// Placeholders for the signature of another model's calls. <https://ai.google.dev/gemini-api/docs/thought-signatures>,
/// "FAQs".
const PLACEHOLDERS: [&str; 2] = [
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
];

/// Contents are not empty, alternate between `user` and `model`, and end with the user; media have a type accepted by
/// the model.
pub(super) fn check_contents(named: &Named<'_>, contents: &[Value]) -> Result<(), Refusal> {
    if contents.is_empty() {
        return Err(bad_request(
            INVALID,
            "* GenerateContentRequest.contents: contents is not specified\n",
        ));
    }
    for (index, content) in contents.iter().enumerate() {
        let role = content["role"].as_str().unwrap_or("user");
        if role != "user" && role != "model" {
            return Err(bad_request(INVALID, "Please use a valid role: user, model."));
        }
        let parts = list(content, "parts");
        if parts.is_empty() {
            return Err(bad_request(
                INVALID,
                format!("* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty.\n"),
            ));
        }
        for (position, part) in parts.iter().enumerate() {
            // `data` is a union: <https://ai.google.dev/api/caching#Part>.
            let data = [
                "text",
                "inlineData",
                "fileData",
                "functionCall",
                "functionResponse",
                "executableCode",
                "codeExecutionResult",
            ];
            let given = data.iter().filter(|name| !part[**name].is_null()).count();
            if given == 0 && part["thoughtSignature"].is_null() {
                return Err(bad_request(
                    INVALID,
                    format!(
                        "* GenerateContentRequest.contents[{index}].parts[{position}].data: required oneof field 'data' must \
                         have one initialized field\n"
                    ),
                ));
            }
            if given > 1 {
                return Err(bad_request(
                    INVALID,
                    format!(
                        "Invalid value at 'contents[{index}].parts[{position}]': oneof field 'data' is already set."
                    ),
                ));
            }
            let mime = part["inlineData"]["mimeType"]
                .as_str()
                .or(part["fileData"]["mimeType"].as_str());
            if let Some(mime) = mime
                && !takes(named, mime)
            {
                return Err(bad_request(INVALID, format!("Unsupported MIME type: {mime}")));
            }
        }
    }
    let last = contents
        .last()
        .and_then(|content| content["role"].as_str())
        .unwrap_or("user");
    if last != "user" {
        return Err(bad_request(
            INVALID,
            "Please ensure that single turn requests end with a user role or the role field is empty.",
        ));
    }
    Ok(())
}

/// <https://ai.google.dev/gemini-api/docs/file-input-methods> and the page of each model, "Inputs".
fn takes(named: &Named<'_>, mime: &str) -> bool {
    match mime {
        "image/png" | "image/jpeg" | "image/webp" | "image/heic" | "image/heif" => named.can(Ability::Images),
        "application/pdf" => named.can(Ability::Pdf),
        _ if mime.starts_with("text/") => true,
        _ if mime.starts_with("audio/") => named.model.can(Ability::Audio) == Some(true),
        _ if mime.starts_with("video/") => named.can(Ability::Images),
        _ => false,
    }
}

/// <https://ai.google.dev/gemini-api/docs/function-calling>, "Multi-turn": calls follow a user's turn or responses, responses follow calls,
/// one for each, by name and id.
pub(super) fn check_calls(contents: &[Value]) -> Result<(), Refusal> {
    let calls = |content: &Value| -> Vec<Value> {
        list(content, "parts")
            .iter()
            .filter(|part| !part["functionCall"].is_null())
            .map(|part| part["functionCall"].clone())
            .collect()
    };
    let responses = |content: &Value| -> Vec<Value> {
        list(content, "parts")
            .iter()
            .filter(|part| !part["functionResponse"].is_null())
            .map(|part| part["functionResponse"].clone())
            .collect()
    };
    for (index, content) in contents.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| contents.get(before));
        let made = calls(content);
        if !made.is_empty() && (content["role"] != "model" || before.is_none_or(|before| before["role"] == "model")) {
            return Err(bad_request(
                INVALID,
                "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
            ));
        }
        let given = responses(content);
        let wanted = before.map(calls).unwrap_or_default();
        if wanted.is_empty() && !given.is_empty() {
            return Err(bad_request(
                INVALID,
                "Please ensure that function response turn comes immediately after a function call turn.",
            ));
        }
        if wanted.len() != given.len() {
            return Err(bad_request(
                INVALID,
                "Please ensure that the number of function response parts is equal to the number of function call parts of the \
                 function call turn.",
            ));
        }
        for (position, response) in given.iter().enumerate() {
            let answered = wanted
                .iter()
                .find(|call| !response["id"].is_null() && call["id"] == response["id"])
                .or_else(|| wanted.get(position).filter(|_| response["id"].is_null()));
            if answered.is_none_or(|call| call["name"] != response["name"]) {
                return Err(bad_request(
                    INVALID,
                    "Please ensure that the name and id of each function response match those of its function call.",
                ));
            }
        }
    }
    Ok(())
}

/// <https://ai.google.dev/gemini-api/docs/thought-signatures>, "Signatures in function call parts": of each step in the current turn the
/// first call carries its signature, exactly as it was received. The turn begins at the last user content that is no function response.
pub(super) fn check_signatures(
    named: &Named<'_>,
    contents: &[Value],
    ledger: &Ledger,
    losses: &mut Vec<String>,
) -> Result<(), Refusal> {
    if !signs(named) {
        return Ok(());
    }
    let begins = contents
        .iter()
        .rposition(|content| {
            content["role"] != "model"
                && list(content, "parts")
                    .iter()
                    .any(|part| part["functionResponse"].is_null())
        })
        .unwrap_or(0);
    for (index, content) in contents.iter().enumerate() {
        if content["role"] != "model" {
            continue;
        }
        let parts = list(content, "parts");
        let first = parts.iter().position(|part| !part["functionCall"].is_null());
        for (position, part) in parts.iter().enumerate() {
            let call = &part["functionCall"];
            let name = call["name"].as_str().unwrap_or_default();
            match part["thoughtSignature"].as_str() {
                None if first == Some(position) && index > begins => {
                    return Err(bad_request(
                        INVALID,
                        format!(
                            "Function call is missing a thought_signature in functionCall parts. This is required for tools to \
                             work correctly, and missing thought_signature may lead to degraded model performance. Additional \
                             data, function call `default_api:{name}` , position {}. Please refer to \
                             https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
                            index + 1
                        ),
                    ));
                }
                Some(signature) if PLACEHOLDERS.contains(&signature) => {
                    losses.push(format!(
                        "the call of `{name}` has a placeholder in the place of its thought signature"
                    ));
                }
                Some(signature) if index > begins => check_signature(signature, call, ledger)?,
                Some(_) | None => {}
            }
        }
    }
    Ok(())
}

fn check_signature(signature: &str, call: &Value, ledger: &Ledger) -> Result<(), Refusal> {
    let corrupted = || bad_request(INVALID, "Corrupted thought signature.");
    // Bytes in a protocol buffer may come back in the other alphabet of base64.
    let bytes = STANDARD
        .decode(signature)
        .or_else(|_| URL_SAFE.decode(signature))
        .map_err(|_| corrupted())?;
    match ledger.signed(&STANDARD.encode(bytes)) {
        Some((_, Signed::Call { name, arguments })) => {
            let args = if call["args"].is_null() {
                json!({})
            } else {
                call["args"].clone()
            };
            if call["name"] == json!(name) && args == *arguments {
                Ok(())
            } else {
                Err(corrupted())
            }
        }
        Some((_, Signed::Part)) if call.is_null() => Ok(()),
        Some((_, Signed::Part | Signed::Thinking { .. } | Signed::Reasoning { .. })) | None => Err(corrupted()),
    }
}

/// Returns a signature: base64-encoded bytes.
pub(crate) fn signature(number: u64, index: usize, model: &str) -> String {
    STANDARD.encode(format!("thought-signature {model} {number} {index}"))
}
