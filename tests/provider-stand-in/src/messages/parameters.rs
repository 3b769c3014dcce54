//! All parts of a request but its conversation: thinking, limits, sampling, output, tools.

use rejoin_models::Ability;
use serde_json::Value;

use super::errors::INVALID;
use super::families::{always_thinks, is_adaptive, is_adaptive_only, refuses_force};
use crate::models::Named;
use crate::plan::{bad_request, is_plain, list};
use crate::refusal::Refusal;
use crate::schemas;

/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools>, on `name`.
const TOOL_NAME_MAX_CHARACTERS: usize = 128;

/// <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>, "The minimum budget is 1,024 tokens".
const BUDGET_MIN_TOKENS: u64 = 1_024;

/// The thinking mode of this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thinking {
    Off,
    /// With a budget: turns must begin with their thinking.
    Manual,
    Adaptive,
}

/// <https://platform.claude.com/docs/en/build-with-claude/extended-thinking> and adaptive-thinking, "Supported models".
pub(super) fn check_thinking(named: &Named<'_>, body: &Value) -> Result<Thinking, Refusal> {
    let unsupported = |kind: &str| {
        bad_request(
            INVALID,
            format!(
                "\"thinking.type.{kind}\" is not supported for this model. Use \"thinking.type.adaptive\" and \
                 \"output_config.effort\" to control thinking behavior."
            ),
        )
    };
    match body["thinking"]["type"].as_str() {
        Some("enabled") if is_adaptive_only(named) => Err(unsupported("enabled")),
        Some("enabled") => {
            let budget = body["thinking"]["budget_tokens"].as_u64().unwrap_or(0);
            if budget < BUDGET_MIN_TOKENS {
                return Err(bad_request(
                    INVALID,
                    format!(
                        "thinking.enabled.budget_tokens: Input should be greater than or equal to {BUDGET_MIN_TOKENS}"
                    ),
                ));
            }
            if body["max_tokens"].as_u64().is_some_and(|max| max <= budget) {
                return Err(bad_request(
                    INVALID,
                    "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at \
                     https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
                ));
            }
            Ok(Thinking::Manual)
        }
        Some("adaptive") if !is_adaptive(named) => {
            Err(bad_request(INVALID, "adaptive thinking is not supported on this model"))
        }
        Some("adaptive") => Ok(Thinking::Adaptive),
        Some("between_tools") if named.is_family("sonnet") && named.version() >= (5, 5) => Ok(Thinking::Adaptive),
        Some("between_tools") => Err(unsupported("between_tools")),
        Some("disabled") if always_thinks(named) => Err(unsupported("disabled")),
        Some(_) => Ok(Thinking::Off),
        // <https://platform.claude.com/docs/en/models/sonnet-5/migration-guide>: adaptive thinking is on by default since 5.
        None if named.version() >= (5, 0) => Ok(Thinking::Adaptive),
        None => Ok(Thinking::Off),
    }
}

/// The page of each model, "Max output".
pub(super) fn check_limit(named: &Named<'_>, body: &Value) -> Result<(), Refusal> {
    let limit = body["max_tokens"].as_u64().unwrap_or(0);
    if limit == 0 {
        return Err(bad_request(
            INVALID,
            "max_tokens: Input should be greater than or equal to 1",
        ));
    }
    match named.model.max_output {
        Some(max) if limit > max => Err(bad_request(
            INVALID,
            format!(
                "max_tokens: {limit} > {max}, which is the maximum allowed number of output tokens for {}",
                named.name
            ),
        )),
        Some(_) | None => Ok(()),
    }
}

/// <https://platform.claude.com/docs/en/about-claude/models/migration-guide>: since Opus 4.7 `temperature`, `top_p` and `top_k` other than
/// the defaults are refused; since 4.5 only one of the first two; with thinking, `temperature` is 1 and `top_k` is not set.
pub(super) fn check_sampling(named: &Named<'_>, body: &Value, thinking: Thinking) -> Result<(), Refusal> {
    if !named.model.accepts_temperature() {
        for (param, default) in [("temperature", Some(1.0)), ("top_p", Some(1.0)), ("top_k", None)] {
            if !body[param].is_null() && body[param].as_f64() != default {
                return Err(bad_request(INVALID, format!("`{param}` is deprecated for this model.")));
            }
        }
    }
    if let Some(temperature) = body["temperature"].as_f64() {
        if !(0.0..=1.0).contains(&temperature) {
            return Err(bad_request(INVALID, "temperature: range: 0..1"));
        }
        if !body["top_p"].is_null() && named.version() >= (4, 1) {
            return Err(bad_request(
                INVALID,
                "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
            ));
        }
        if thinking != Thinking::Off && temperature != 1.0 {
            return Err(bad_request(
                INVALID,
                "`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation at \
                 https://docs.claude.com/en/docs/build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking",
            ));
        }
    }
    Ok(())
}

/// <https://platform.claude.com/docs/en/build-with-claude/effort> and structured-outputs.
pub(super) fn check_output(named: &Named<'_>, config: &Value) -> Result<(), Refusal> {
    if let Some(effort) = config["effort"].as_str() {
        let efforts = &named.model.efforts;
        // Opus 4.5 has it, too; the catalogue does not list its levels.
        if efforts.is_empty() && !(named.is_family("opus") && named.version() >= (4, 5)) && !always_thinks(named) {
            return Err(bad_request(
                INVALID,
                "This model does not support the effort parameter.",
            ));
        }
        if !efforts.is_empty() && !efforts.iter().any(|known| known == effort) {
            return Err(bad_request(
                INVALID,
                format!(
                    "This model does not support effort level '{effort}'. Supported levels: {}.",
                    efforts.join(", ")
                ),
            ));
        }
    }
    if let Some(format) = config.get("format").filter(|format| !format.is_null()) {
        if !named.can(Ability::StructuredOutput) {
            return Err(bad_request(
                INVALID,
                format!("'{}' does not support output_config.format.", named.name),
            ));
        }
        schemas::anthropic_structured(&format["schema"])
            .map_err(|reason| bad_request(INVALID, format!("output_config.format.schema: {reason}")))?;
    }
    Ok(())
}

/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools>: names of letters, digits, `_` and `-`, unique; schemas of
/// objects. Forced tools do not go with thinking: <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>, "Tool choice
/// limitation".
pub(super) fn check_tools(named: &Named<'_>, body: &Value, thinking: Thinking) -> Result<(), Refusal> {
    let tools = list(body, "tools");
    let mut names: Vec<&str> = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        if !is_plain(name, "") || name.len() > TOOL_NAME_MAX_CHARACTERS {
            return Err(bad_request(
                INVALID,
                format!("tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"),
            ));
        }
        if names.contains(&name) {
            return Err(bad_request(INVALID, "tools: Tool names must be unique."));
        }
        names.push(name);
        schemas::anthropic_tool(&tool["input_schema"])
            .map_err(|reason| bad_request(INVALID, format!("tools.{index}.custom.input_schema{reason}")))?;
        if tool["strict"] == true {
            schemas::anthropic_structured(&tool["input_schema"])
                .map_err(|reason| bad_request(INVALID, format!("tools.{index}.custom: {reason}")))?;
        }
    }
    let choice = body["tool_choice"]["type"].as_str().unwrap_or("auto");
    if !body["tool_choice"].is_null() && tools.is_empty() {
        return Err(bad_request(
            INVALID,
            "tool_choice: may only be specified while providing tools",
        ));
    }
    if choice == "any" || choice == "tool" {
        if refuses_force(named) {
            return Err(bad_request(
                INVALID,
                format!("tool_choice: type '{choice}' is not supported for this model. Use 'auto' or 'none'."),
            ));
        }
        if thinking != Thinking::Off {
            return Err(bad_request(
                INVALID,
                "Thinking may not be enabled when tool_choice forces tool use.",
            ));
        }
        let wanted = body["tool_choice"]["name"].as_str();
        if let Some(wanted) = wanted.filter(|wanted| !names.contains(wanted)) {
            return Err(bad_request(
                INVALID,
                format!("Tool '{wanted}' not found in provided tools"),
            ));
        }
    }
    Ok(())
}
