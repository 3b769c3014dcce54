//! The items of the input: calls and their outputs, reasoning and the items it belongs to.

use axum::http::StatusCode;
use serde_json::Value;

use crate::ledger::{Ledger, Signed};
use crate::models::Named;
use crate::openai::{self, INVALID};
use crate::plan::{bad_request, list};
use crate::refusal::Refusal;

/// The reference, on `call_id`.
const CALL_ID_MAX_CHARACTERS: usize = 64;

/// <https://developers.openai.com/api/docs/guides/reasoning>, "Keeping reasoning items in context" and "Encrypted reasoning items";
/// <https://developers.openai.com/api/docs/guides/function-calling>: outputs follow their calls, by `call_id`.
pub(super) fn check_items(
    named: &Named<'_>,
    items: &[Value],
    ledger: &Ledger,
    store: bool,
    losses: &mut Vec<String>,
) -> Result<(), Refusal> {
    let input = |message: String| bad_request(INVALID, message).param("input");
    for (index, item) in items.iter().enumerate() {
        let id = item["id"].as_str();
        match item["type"].as_str().unwrap_or("message") {
            "reasoning" => check_reasoning(items, index, ledger, store)?,
            "item_reference" => {
                let id = id.unwrap_or_default();
                if !ledger.is_stored(id) {
                    return Err(not_stored(id));
                }
            }
            kind @ ("function_call" | "custom_tool_call") => {
                let call_id = item["call_id"].as_str().unwrap_or_default();
                openai::check_id(call_id, &format!("input[{index}].call_id"), CALL_ID_MAX_CHARACTERS)?;
                openai::check_name(
                    item["name"].as_str().unwrap_or_default(),
                    &format!("input[{index}].name"),
                    64,
                )?;
                let answer = items.iter().skip(index).find(|later| {
                    later["type"].as_str().is_some_and(|kind| kind.ends_with("_output"))
                        && later["call_id"] == item["call_id"]
                });
                if answer.is_none() {
                    return Err(input(format!("No tool output found for function call {call_id}.")));
                }
                // The provider knows an item's reasoning by its id; without one it can't.
                let by_id = id.and_then(|id| ledger.reasoning_of(id)).and_then(Option::as_deref);
                if let Some(reasoning) = by_id
                    && !has_reasoning(items, index, reasoning, ledger)
                {
                    return Err(input(format!(
                        "Item '{}' of type '{kind}' was provided without its required 'reasoning' item: '{reasoning}'.",
                        id.unwrap_or_default()
                    )));
                }
                let by_call = ledger.made(call_id).and_then(|made| made.reasoning.as_deref());
                if let Some(reasoning) = by_call
                    && !has_reasoning(items, index, reasoning, ledger)
                {
                    losses.push(format!(
                        "the call {call_id} comes without the reasoning that it came with"
                    ));
                }
            }
            "function_call_output" | "custom_tool_call_output" => {
                let call_id = item["call_id"].as_str().unwrap_or_default();
                openai::check_id(call_id, &format!("input[{index}].call_id"), CALL_ID_MAX_CHARACTERS)?;
                let call = items.iter().take(index).find(|earlier| {
                    earlier["type"].as_str().is_some_and(|kind| kind.ends_with("_call"))
                        && earlier["call_id"] == item["call_id"]
                });
                if call.is_none() {
                    return Err(input(format!(
                        "No tool call found for function call output with call_id {call_id}."
                    )));
                }
            }
            _ => {
                let assistant = item["role"] == "assistant";
                for (position, part) in list(item, "content").iter().enumerate() {
                    let kind = part["type"].as_str().unwrap_or_default();
                    let path = format!("input[{index}].content[{position}]");
                    // The reference: `output_text` and `refusal` are the assistant's, all others the user's.
                    if assistant != matches!(kind, "output_text" | "refusal") {
                        let values = if assistant {
                            "'output_text' and 'refusal'"
                        } else {
                            "'input_text', 'input_image', and 'input_file'"
                        };
                        return Err(bad_request(
                            INVALID,
                            format!("Invalid value: '{kind}'. Supported values are: {values}."),
                        )
                        .param(path)
                        .code("invalid_value"));
                    }
                    openai::check_medium(named, kind, &path)?;
                }
                if let Some(reasoning) = id.and_then(|id| ledger.reasoning_of(id)).and_then(Option::as_deref)
                    && !has_reasoning(items, index, reasoning, ledger)
                {
                    return Err(input(format!(
                        "Item '{}' of type 'message' was provided without its required 'reasoning' item: '{reasoning}'.",
                        id.unwrap_or_default()
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Returns whether this reasoning is among the earlier items, by its id or its encrypted content.
fn has_reasoning(items: &[Value], before: usize, id: &str, ledger: &Ledger) -> bool {
    items
        .iter()
        .take(before)
        .filter(|item| item["type"] == "reasoning" || item["type"] == "item_reference")
        .any(|item| item["id"] == id || reasoning_id(item, ledger).is_some_and(|found| found == id))
}

/// Returns the id of an item's reasoning, by its encrypted content.
fn reasoning_id<'a>(item: &Value, ledger: &'a Ledger) -> Option<&'a str> {
    match ledger.signed(item["encrypted_content"].as_str()?)? {
        (_, Signed::Reasoning { id }) => Some(id),
        (_, Signed::Thinking { .. } | Signed::Call { .. } | Signed::Part) => None,
    }
}

fn not_stored(id: &str) -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        INVALID,
        format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to \
             true, or remove this item from your input."
        ),
    )
    .param("input")
}

fn check_reasoning(items: &[Value], index: usize, ledger: &Ledger, store: bool) -> Result<(), Refusal> {
    let item = items.get(index).unwrap_or(&Value::Null);
    let id = item["id"].as_str().unwrap_or_default();
    match item["encrypted_content"].as_str() {
        Some(encrypted) => {
            let known = reasoning_id(item, ledger);
            if known.is_none_or(|known| !id.is_empty() && known != id) {
                let short: String = encrypted.chars().take(4).collect();
                return Err(bad_request(
                    INVALID,
                    format!("The encrypted content {short}... could not be verified."),
                )
                .code("invalid_encrypted_content"));
            }
        }
        None if store && ledger.is_stored(id) => {}
        None => return Err(not_stored(id)),
    }
    let next = items.get(index + 1);
    let follows = next.is_some_and(|next| match next["type"].as_str().unwrap_or("message") {
        "message" => next["role"] == "assistant",
        "function_call" | "custom_tool_call" | "reasoning" | "item_reference" => true,
        _ => false,
    });
    if follows {
        return Ok(());
    }
    Err(bad_request(
        INVALID,
        format!("Item '{id}' of type 'reasoning' was provided without its required following item."),
    )
    .param("input"))
}
