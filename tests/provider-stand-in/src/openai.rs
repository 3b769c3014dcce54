//! Shared by OpenAI's protocols: keys, errors, models, parameters of reasoning models, tools, caching.
//!
//! - `tools` tools and their names

mod tools;

pub(super) use tools::{check_choice, check_id, check_name, check_tools};

use axum::http::StatusCode;
use rejoin_models::Ability;
use serde_json::{Value, json};

use self::tools::TOOL_NAME_MAX_CHARACTERS;
use super::account::{Caching, IMPLICIT_MIN_TOKENS, IMPLICIT_STEP_TOKENS, OPENAI_LOOKBACK};
use super::fields::{Problem, bracketed};
use super::models::{Named, served};
use super::plan::{Request, bad_request};
use super::refusal::{Refusal, listed};
use super::service::Service;
use super::{azure, schemas};

pub(super) const INVALID: &str = "invalid_request_error";

/// From this version on tools are cached at breakpoints, and writing has a price.
/// <https://developers.openai.com/api/docs/guides/prompt-caching>.
const BREAKPOINTS_SINCE: (u32, u32) = (5, 6);

/// <https://developers.openai.com/api/docs/guides/error-codes>, "API errors".
pub(super) fn error_body(refusal: &Refusal) -> Value {
    json!({"error": {
        "message": refusal.message,
        "type": refusal.kind,
        "param": refusal.param,
        "code": refusal.code,
    }})
}

/// <https://developers.openai.com/api/docs/guides/error-codes>: 401 "Invalid Authentication", "Incorrect API key provided".
pub(super) fn key(request: &Request) -> Result<(), Refusal> {
    if request.service == Service::Azure {
        return azure::key(request);
    }
    let given = request
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    if given.is_empty() {
        return Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            INVALID,
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth \
             (i.e. Authorization: Bearer YOUR_KEY).",
        ));
    }
    if given != request.key {
        return Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            INVALID,
            "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.",
        )
        .code("invalid_api_key"));
    }
    Ok(())
}

/// <https://developers.openai.com/api/docs/guides/error-codes>: 400s name the parameter and a code.
pub(super) fn problem(problem: Problem) -> Refusal {
    match problem {
        Problem::Unknown { path } => {
            let path = bracketed(&path);
            bad_request(INVALID, format!("Unknown parameter: '{path}'."))
                .param(path)
                .code("unknown_parameter")
        }
        Problem::Missing { path } => {
            let path = bracketed(&path);
            bad_request(INVALID, format!("Missing required parameter: '{path}'."))
                .param(path)
                .code("missing_required_parameter")
        }
        Problem::Type { path, expected, got } => {
            let path = bracketed(&path);
            bad_request(
                INVALID,
                format!("Invalid type for '{path}': expected {expected}, but got {got} instead."),
            )
            .param(path)
            .code("invalid_type")
        }
        Problem::Word { path, got, allowed } => {
            let path = bracketed(&path);
            bad_request(
                INVALID,
                format!("Invalid value: '{got}'. Supported values are: {}.", listed(&allowed)),
            )
            .param(path)
            .code("invalid_value")
        }
    }
}

/// The model's name in the request; at Azure, the model behind the deployment that is named there.
pub(super) fn name(request: &Request) -> &str {
    let name = request.body["model"].as_str().unwrap_or_default();
    match request.service {
        Service::Azure => azure::model_of(name),
        _ => name,
    }
}

/// <https://developers.openai.com/api/docs/deprecations>: a model that was shut down is not found.
pub(super) fn model<'a>(request: &Request, name: &'a str) -> Result<Named<'a>, Refusal> {
    served(request.service.provider(), name, request.today).ok_or_else(|| {
        if request.service == Service::Azure {
            return azure::unknown_deployment();
        }
        Refusal::new(
            StatusCode::NOT_FOUND,
            INVALID,
            format!("The model `{name}` does not exist or you do not have access to it."),
        )
        .code("model_not_found")
    })
}

/// The reasoning effort of a request, or the model's own.
/// <https://developers.openai.com/api/docs/guides/latest-model>: from 5.1 to 5.4 models do not reason unless asked; all others do.
pub(super) fn effort<'a>(named: &Named<'_>, given: Option<&'a str>) -> &'a str {
    let version = named.version();
    given.unwrap_or(match () {
        () if !named.reasons() => "none",
        () if ((5, 1)..=(5, 4)).contains(&version) => "none",
        () => "medium",
    })
}

/// <https://developers.openai.com/api/docs/guides/reasoning>, "Reasoning effort": values depend on the model.
pub(super) fn check_effort(named: &Named<'_>, given: Option<&str>, param: &str) -> Result<(), Refusal> {
    let Some(effort) = given else {
        return Ok(());
    };
    if !named.reasons() {
        return Err(bad_request(
            INVALID,
            format!("Unsupported parameter: '{param}' is not supported with this model."),
        )
        .param(param)
        .code("unsupported_parameter"));
    }
    let efforts = &named.model.efforts;
    if !efforts.is_empty() && !efforts.iter().any(|known| known == effort) {
        return Err(bad_request(
            INVALID,
            format!(
                "Unsupported value: '{effort}' is not supported with the '{}' model. Supported values are: {}.",
                named.name,
                listed(efforts)
            ),
        )
        .param(param)
        .code("unsupported_value"));
    }
    Ok(())
}

/// <https://developers.openai.com/api/docs/guides/latest-model>: "When reasoning effort is not none, remove temperature, top_p, and
/// top_logprobs"; the defaults are taken.
pub(super) fn check_sampling(named: &Named<'_>, body: &Value, effort: &str) -> Result<(), Refusal> {
    if named.model.accepts_temperature() || (effort == "none" && named.version() >= (5, 1)) {
        return Ok(());
    }
    for (param, default) in [
        ("temperature", 1.0),
        ("top_p", 1.0),
        ("presence_penalty", 0.0),
        ("frequency_penalty", 0.0),
    ] {
        if let Some(value) = body[param].as_f64()
            && value != default
        {
            return Err(bad_request(
                INVALID,
                format!(
                    "Unsupported value: '{param}' does not support {} with this model. Only the default ({default}) value \
                     is supported.",
                    body[param]
                ),
            )
            .param(param)
            .code("unsupported_value"));
        }
    }
    for param in ["logprobs", "top_logprobs", "logit_bias"] {
        if !body[param].is_null() && body[param] != false {
            return Err(bad_request(
                INVALID,
                format!("Unsupported parameter: '{param}' is not supported with this model."),
            )
            .param(param)
            .code("unsupported_parameter"));
        }
    }
    Ok(())
}

/// A limit of output tokens beyond the model's. <https://developers.openai.com/api/docs/models>, "Max output tokens".
pub(super) fn check_limit(named: &Named<'_>, limit: &Value, param: &str) -> Result<(), Refusal> {
    let (Some(limit), Some(max)) = (limit.as_u64(), named.model.max_output) else {
        return Ok(());
    };
    if limit <= max {
        return Ok(());
    }
    Err(bad_request(
        INVALID,
        format!(
            "{param} is too large: {limit}. This model supports at most {max} completion tokens, whereas you provided {limit}."
        ),
    )
    .param(param)
    .code("invalid_value"))
}

/// Validates the format of a structured output. <https://developers.openai.com/api/docs/guides/structured-outputs>,
/// "Supported schemas".
pub(super) fn check_format(name: &Value, strict: &Value, schema: &Value, param: &str) -> Result<(), Refusal> {
    let name = name.as_str().unwrap_or_default();
    check_name(name, &format!("{param}.name"), TOOL_NAME_MAX_CHARACTERS)?;
    if strict == &Value::Bool(true) {
        schemas::openai_strict(schema).map_err(|reason| {
            bad_request(
                INVALID,
                format!("Invalid schema for response_format '{name}': {reason}"),
            )
            .param(param)
        })?;
    }
    Ok(())
}

/// Rejects a medium that the model does not accept. <https://developers.openai.com/api/docs/guides/images-vision>, and
/// the page of each model.
pub(super) fn check_medium(named: &Named<'_>, kind: &str, path: &str) -> Result<(), Refusal> {
    let ability = match kind {
        "image_url" | "input_image" => Ability::Images,
        "input_audio" => Ability::Audio,
        "file" | "input_file" => Ability::Pdf,
        _ => return Ok(()),
    };
    // The catalogue lists accepted media; audio is never assumed.
    let takes = match ability {
        // <https://openrouter.ai/docs/guides/overview/multimodal/audio>: Gemini's models, under OpenRouter's names.
        Ability::Audio => named.model.can(ability) == Some(true) || named.name.starts_with("google/"),
        _ => named.can(ability),
    };
    if takes {
        return Ok(());
    }
    Err(bad_request(
        INVALID,
        format!("Invalid content type. {kind} is only supported by certain models."),
    )
    .param(path)
    .code("invalid_value"))
}

/// Rejects prompt cache options that the model lacks. <https://developers.openai.com/api/docs/guides/prompt-caching>:
/// `prompt_cache_options` since GPT-5.6, where `prompt_cache_retention` is replaced by it; not both.
pub(super) fn check_cache_options(named: &Named<'_>, body: &Value) -> Result<(), Refusal> {
    let options = !body["prompt_cache_options"].is_null();
    if options && named.version() < BREAKPOINTS_SINCE {
        return Err(bad_request(
            INVALID,
            "Unsupported parameter: 'prompt_cache_options' is not supported with this model.",
        )
        .param("prompt_cache_options")
        .code("unsupported_parameter"));
    }
    if options && !body["prompt_cache_retention"].is_null() {
        return Err(bad_request(
            INVALID,
            "'prompt_cache_options' and 'prompt_cache_retention' cannot both be set.",
        )
        .param("prompt_cache_retention"));
    }
    Ok(())
}

/// <https://developers.openai.com/api/docs/guides/prompt-caching>: automatic from 1,024 tokens on; since GPT-5.6 at breakpoints, of which
/// OpenAI places one itself unless the mode is `explicit`. Returns the caching, and whether the end of the prompt is a breakpoint.
pub(super) fn caching(named: &Named<'_>, body: &Value) -> (Caching, bool) {
    let min_tokens = named.model.cache_min_tokens.unwrap_or(IMPLICIT_MIN_TOKENS);
    if named.version() >= BREAKPOINTS_SINCE {
        let explicit = body["prompt_cache_options"]["mode"] == "explicit";
        return (
            Caching::Breakpoints {
                min_tokens,
                lookback: OPENAI_LOOKBACK,
            },
            !explicit,
        );
    }
    if named.model.can(Ability::Caching) == Some(false) {
        return (Caching::None, false);
    }
    (
        Caching::Prefix {
            min_tokens,
            step_tokens: IMPLICIT_STEP_TOKENS,
        },
        false,
    )
}

/// The status line of a failure that a test wants.
/// <https://developers.openai.com/api/docs/guides/error-codes>: 429 rate limit, 500 server error, 503 overloaded.
pub(super) fn failure(status: StatusCode) -> Refusal {
    match status.as_u16() {
        429 => {
            Refusal::new(status, "requests", "Rate limit reached. Please try again later.").code("rate_limit_exceeded")
        }
        503 => Refusal::new(
            status,
            "service_unavailable_error",
            "The engine is currently overloaded, please try again later.",
        ),
        _ => Refusal::new(
            status,
            "server_error",
            "The server had an error while processing your request.",
        ),
    }
}
