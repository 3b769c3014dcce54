//! Google's Gemini API, `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`.
//! <https://ai.google.dev/api/generate-content>

mod contents;
mod errors;
mod fields;
mod sent;
mod tools;

pub(super) use self::contents::signature;
use self::contents::{check_calls, check_contents, check_signatures};
use self::errors::{INVALID, problem};
pub(super) use self::errors::{error_body, failure};
use self::fields::{REQUEST, camel};
pub(super) use self::sent::{frames, whole};
use self::tools::{check_schema, check_tools};
use super::account::{Caching, IMPLICIT_MIN_TOKENS, Prompt};
use super::fields::{Kind, Step, check as check_fields};
use super::ledger::Ledger;
use super::models::{Named, served};
use super::plan::{Plan, Request, bad_request, list, text_of};
use super::refusal::Refusal;
use super::service::Service;
use super::vertex;
use axum::http::StatusCode;
use rejoin_models::Ability;
use serde_json::Value;

/// <https://ai.google.dev/gemini-api/docs/api-key> and the troubleshooting page: 400 `API_KEY_INVALID` for a wrong key, 403 without one.
fn key(request: &Request) -> Result<(), Refusal> {
    let in_query = request.query.get("key").map(String::as_str);
    match request.header("x-goog-api-key").or(in_query) {
        None | Some("") => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "PERMISSION_DENIED",
            "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other \
             form of API consumer identity to call this API.",
        )),
        Some(key) if key != request.key => {
            Err(bad_request(INVALID, "API key not valid. Please pass a valid API key.").code("API_KEY_INVALID"))
        }
        Some(_) => Ok(()),
    }
}

pub(super) fn check(request: &Request, ledger: &Ledger) -> Result<Plan, Refusal> {
    let is_vertex = request.service == Service::Vertex;
    if is_vertex {
        vertex::key(request)?;
    } else {
        key(request)?;
    }
    let body = &camel(&request.body);
    check_fields(&Kind::Object(REQUEST), body).map_err(problem)?;
    let name = request.model.as_deref().unwrap_or_default();
    // <https://ai.google.dev/gemini-api/docs/deprecations>: a model that was shut down is not found.
    if is_vertex {
        vertex::check_gemini(body)?;
    }
    let named = served(request.service.provider(), name, request.today).ok_or_else(|| {
        if is_vertex {
            return vertex::unknown_model(request, name);
        }
        Refusal::new(
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
            format!(
                "models/{name} is not found for API version v1beta, or is not supported for generateContent. Call ListModels to \
                 see the list of available models and their supported methods."
            ),
        )
    })?;
    let config = &body["generationConfig"];
    check_thinking(&named, &config["thinkingConfig"])?;
    check_generation(&named, config)?;
    check_tools(body)?;
    let contents = list(body, "contents");
    let mut losses = Vec::new();
    check_contents(&named, contents)?;
    check_calls(contents)?;
    check_signatures(&named, contents, ledger, &mut losses)?;
    let system = text_of(&body["systemInstruction"]["parts"]);
    let first = contents
        .first()
        .map(|content| text_of(&content["parts"]))
        .unwrap_or_default();
    let min_tokens = named.model.cache_min_tokens.unwrap_or(IMPLICIT_MIN_TOKENS);
    Ok(Plan {
        model: name.to_owned(),
        stream: request.streams == Some(true),
        reasons: named.reasons() && config["thinkingConfig"]["thinkingBudget"] != 0,
        shown: config["thinkingConfig"]["includeThoughts"] == true,
        signs: signs(&named),
        bound: None,
        store: false,
        prompt: prompt(body),
        caching: if named.can(Ability::Caching) {
            // <https://ai.google.dev/gemini-api/docs/caching>, "Implicit caching": on by default for common prefixes.
            Caching::Prefix {
                min_tokens,
                step_tokens: 1,
            }
        } else {
            Caching::None
        },
        opening: format!("{system}\n{first}"),
        losses,
    })
}

/// Returns whether the model signs its calls and expects the signatures back: Gemini 3 and newer.
fn signs(named: &Named<'_>) -> bool {
    named.name.starts_with("gemini") && (named.version() >= (3, 0) || named.name.ends_with("-latest"))
}

/// <https://ai.google.dev/gemini-api/docs/thinking>, "Thinking levels" and "Thinking budgets": levels since Gemini 3, budgets before and for
/// compatibility, never both.
fn check_thinking(named: &Named<'_>, config: &Value) -> Result<(), Refusal> {
    let Some(level) = config["thinkingLevel"].as_str() else {
        return Ok(());
    };
    if !config["thinkingBudget"].is_null() {
        return Err(bad_request(
            INVALID,
            "You can only set only one of thinking budget and thinking level.",
        ));
    }
    if !signs(named) && !named.name.starts_with("gemma") {
        return Err(bad_request(INVALID, "Thinking level is not supported for this model."));
    }
    let efforts = &named.model.efforts;
    let level = level.to_ascii_lowercase();
    let known = ["minimal", "low", "medium", "high", "thinking_level_unspecified"].contains(&level.as_str());
    if !known || (!efforts.is_empty() && !efforts.contains(&level)) {
        return Err(bad_request(
            INVALID,
            format!(
                "Thinking level {} is not supported for this model. Please retry with other thinking level.",
                level.to_ascii_uppercase()
            ),
        ));
    }
    Ok(())
}

/// The page of each model, "Output token limit"; <https://ai.google.dev/gemini-api/docs/structured-output>: a schema needs the type
/// `application/json`, and is given in one of the two fields.
fn check_generation(named: &Named<'_>, config: &Value) -> Result<(), Refusal> {
    if let (Some(limit), Some(max)) = (config["maxOutputTokens"].as_u64(), named.model.max_output)
        && (limit == 0 || limit > max)
    {
        return Err(bad_request(
            INVALID,
            format!(
                "Unable to submit request because it has a maxOutputTokens value of {limit} but the supported range is from 1 \
                 (inclusive) to {} (exclusive). Update the value and try again.",
                max + 1
            ),
        ));
    }
    if let Some(temperature) = config["temperature"].as_f64()
        && !(0.0..=2.0).contains(&temperature)
    {
        return Err(bad_request(
            INVALID,
            format!(
                "* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0], got {temperature}\n"
            ),
        ));
    }
    let schemas = [&config["responseSchema"], &config["responseJsonSchema"]];
    if schemas.iter().all(|schema| !schema.is_null()) {
        return Err(bad_request(
            INVALID,
            "Cannot specify both response_schema and response_json_schema.",
        ));
    }
    if schemas.iter().any(|schema| !schema.is_null())
        && config["responseMimeType"] != "application/json"
        && config["responseMimeType"] != "text/x.enum"
    {
        return Err(bad_request(
            INVALID,
            "Function calling with a response schema needs response_mime_type: 'application/json'.",
        ));
    }
    if !config["responseSchema"].is_null() {
        check_schema(
            &config["responseSchema"],
            &mut vec![
                Step::Key("generation_config".to_owned()),
                Step::Key("response_schema".to_owned()),
            ],
        )?;
    }
    Ok(())
}

fn prompt(body: &Value) -> Prompt {
    let mut prompt = Prompt::default();
    for tool in list(body, "tools") {
        prompt.push(tool.to_string(), false);
    }
    if !body["systemInstruction"].is_null() {
        prompt.push(body["systemInstruction"].to_string(), false);
    }
    for content in list(body, "contents") {
        prompt.push(content.to_string(), false);
    }
    prompt
}
