//! OpenAI's Responses, `POST /v1/responses`.
//! <https://developers.openai.com/api/reference/resources/responses/methods/create>

mod fields;
mod items;
mod sent;

use self::fields::{ENCRYPTED, REQUEST};
use self::items::check_items;
pub(super) use self::sent::{error_event, frames, message_id, output, response_id, whole};
use super::account::Prompt;
use super::fields::{Kind, check as check_fields};
use super::ledger::Ledger;
use super::openai::{self, INVALID};
use super::plan::{Plan, Request, bad_request, list, text_of};
use super::refusal::Refusal;
use serde_json::{Value, json};

pub(super) fn check(request: &Request, ledger: &Ledger) -> Result<Plan, Refusal> {
    openai::key(request)?;
    let body = &request.body;
    check_fields(&Kind::Object(REQUEST), body).map_err(openai::problem)?;
    let name = openai::name(request);
    let named = openai::model(request, name)?;
    let given = body["reasoning"]["effort"].as_str();
    openai::check_effort(&named, given, "reasoning.effort")?;
    if !named.reasons() && !body["reasoning"].is_null() {
        return Err(bad_request(
            INVALID,
            "Unsupported parameter: 'reasoning' is not supported with this model.",
        )
        .param("reasoning")
        .code("unsupported_parameter"));
    }
    let effort = openai::effort(&named, given);
    openai::check_sampling(&named, body, effort)?;
    openai::check_limit(&named, &body["max_output_tokens"], "max_output_tokens")?;
    // The reference, on `max_output_tokens`: 16 at least.
    if body["max_output_tokens"].as_u64().is_some_and(|limit| limit < 16) {
        return Err(bad_request(
            INVALID,
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.",
        )
        .param("max_output_tokens")
        .code("integer_below_min_value"));
    }
    openai::check_tools(body, "", |tool| (tool["type"] == "function").then_some(tool))?;
    let names: Vec<&str> = list(body, "tools")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    openai::check_choice(body, body["tool_choice"]["name"].as_str(), &names)?;
    let format = &body["text"]["format"];
    if format["type"] == "json_schema" {
        openai::check_format(&format["name"], &format["strict"], &format["schema"], "text.format")?;
    }
    openai::check_cache_options(&named, body)?;
    let store = body["store"] != false;
    let items = whole_input(body, ledger)?;
    let mut losses = Vec::new();
    check_items(&named, &items, ledger, store, &mut losses)?;
    let reasons = effort != "none" && named.reasons();
    let encrypted = list(body, "include").iter().any(|included| included == ENCRYPTED);
    if reasons && !store && !encrypted {
        losses.push("store is false, and the reasoning is not asked for encrypted: it can't be sent back".to_owned());
    }
    let (caching, ends) = openai::caching(&named, body);
    if body["prompt_cache_options"]["mode"] == "explicit"
        && !body["input"].to_string().contains("prompt_cache_breakpoint")
    {
        losses.push("the mode of the prompt cache is explicit, and no part is marked: nothing is cached".to_owned());
    }
    Ok(Plan {
        model: name.to_owned(),
        stream: body["stream"] == true,
        reasons,
        shown: !body["reasoning"]["summary"].is_null(),
        signs: encrypted,
        bound: None,
        store,
        prompt: prompt(body, &items, ends),
        caching,
        opening: opening(body, &items),
        losses,
    })
}

/// The conversation: what was stored with the response before, then the input as items.
/// <https://developers.openai.com/api/docs/guides/conversation-state>, "Passing context from the previous response".
pub(super) fn whole_input(body: &Value, ledger: &Ledger) -> Result<Vec<Value>, Refusal> {
    let mut items = match body["previous_response_id"].as_str() {
        None => Vec::new(),
        Some(id) => ledger
            .response(id)
            .ok_or_else(|| {
                bad_request(INVALID, format!("Previous response with id '{id}' not found."))
                    .param("previous_response_id")
                    .code("previous_response_not_found")
            })?
            .to_vec(),
    };
    match &body["input"] {
        Value::String(text) => items.push(json!({"role": "user", "content": text})),
        input => items.extend(input.as_array().into_iter().flatten().cloned()),
    }
    if items.is_empty() {
        return Err(bad_request(
            INVALID,
            "Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        )
        .param("input")
        .code("empty_array"));
    }
    Ok(items)
}

fn prompt(body: &Value, items: &[Value], ends: bool) -> Prompt {
    let mut prompt = Prompt::default();
    for tool in list(body, "tools") {
        prompt.push(tool.to_string(), false);
    }
    prompt.push(body["instructions"].as_str().unwrap_or_default(), false);
    for item in items {
        let marked = list(item, "content")
            .iter()
            .any(|part| !part["prompt_cache_breakpoint"].is_null());
        let mut bare = item.clone();
        for part in bare["content"].as_array_mut().into_iter().flatten() {
            if let Some(part) = part.as_object_mut() {
                part.remove("prompt_cache_breakpoint");
            }
        }
        // Removes fields that only the provider writes.
        if let Some(members) = bare.as_object_mut() {
            for own in ["id", "status"] {
                members.remove(own);
            }
        }
        prompt.push(bare.to_string(), marked);
    }
    if ends {
        prompt.end_breakpoint();
    }
    prompt
}

fn opening(body: &Value, items: &[Value]) -> String {
    let mut text = body["instructions"].as_str().unwrap_or_default().to_owned();
    for item in items {
        text.push('\n');
        text.push_str(&text_of(&item["content"]));
        if item["role"] == "user" {
            break;
        }
    }
    text
}
