//! Checks of tools, their names, and the choice of one.

use serde_json::Value;

use super::INVALID;
use crate::plan::{bad_request, is_plain, list};
use crate::refusal::Refusal;
use crate::schemas;

/// <https://developers.openai.com/api/reference/resources/chat/subresources/completions/methods/create>, on `tools`.
const TOOLS_MAX: usize = 128;
/// The same page, on the name of a function.
pub(super) const TOOL_NAME_MAX_CHARACTERS: usize = 64;

/// Validates names, schemas and the number of function tools. `function` finds a tool's function, `at` is OpenAI's path
/// between the tool and its fields: `.function` in Chat Completions, nothing in Responses.
pub(crate) fn check_tools<'a>(
    body: &'a Value,
    at: &str,
    function: impl Fn(&'a Value) -> Option<&'a Value>,
) -> Result<(), Refusal> {
    let tools = list(body, "tools");
    if tools.len() > TOOLS_MAX {
        return Err(bad_request(
            INVALID,
            format!(
                "Invalid 'tools': array too long. Expected an array with maximum length {TOOLS_MAX}, but got an array with \
                 length {} instead.",
                tools.len()
            ),
        )
        .param("tools")
        .code("array_above_max_length"));
    }
    for (index, tool) in tools.iter().enumerate() {
        let Some(function) = function(tool) else {
            continue;
        };
        let path = format!("tools[{index}]{at}");
        let name = function["name"].as_str().unwrap_or_default();
        check_name(name, &format!("{path}.name"), TOOL_NAME_MAX_CHARACTERS)?;
        let schema = &function["parameters"];
        // <https://developers.openai.com/api/docs/guides/function-calling>, "Strict mode".
        let checked = match (&function["strict"], schema) {
            (Value::Bool(true), schema) => schemas::openai_strict(schema),
            (_, Value::Null) => Ok(()),
            (_, schema) => schemas::openai_tool(schema),
        };
        checked.map_err(|reason| {
            bad_request(INVALID, format!("Invalid schema for function '{name}': {reason}"))
                .param(format!("{path}.parameters"))
                .code("invalid_function_parameters")
        })?;
    }
    Ok(())
}

/// <https://developers.openai.com/api/docs/guides/function-calling>: names of letters, digits, underscores and dashes, 64 at most.
pub(crate) fn check_name(name: &str, path: &str, max: usize) -> Result<(), Refusal> {
    if name.chars().count() > max {
        return Err(bad_request(
            INVALID,
            format!(
                "Invalid '{path}': string too long. Expected a string with maximum length {max}, but got a string with \
                 length {} instead.",
                name.chars().count()
            ),
        )
        .param(path)
        .code("string_above_max_length"));
    }
    if !is_plain(name, "") {
        return Err(bad_request(
            INVALID,
            format!(
                "Invalid '{path}': string does not match pattern. Expected a string that matches the pattern \
                 '^[a-zA-Z0-9_-]+$'."
            ),
        )
        .param(path)
        .code("invalid_value"));
    }
    Ok(())
}

/// Rejects a too long id; each protocol has its limit.
pub(crate) fn check_id(id: &str, path: &str, max: usize) -> Result<(), Refusal> {
    if id.chars().count() <= max {
        return Ok(());
    }
    Err(bad_request(
        INVALID,
        format!(
            "Invalid '{path}': string too long. Expected a string with maximum length {max}, but got a string with length {} \
             instead.",
            id.chars().count()
        ),
    )
    .param(path)
    .code("string_above_max_length"))
}

/// Rejects the choice of an unknown tool. <https://developers.openai.com/api/docs/guides/function-calling>, "Tool
/// choice".
pub(crate) fn check_choice(body: &Value, chosen: Option<&str>, names: &[&str]) -> Result<(), Refusal> {
    if body["tool_choice"].is_null() {
        return Ok(());
    }
    if list(body, "tools").is_empty() {
        return Err(bad_request(
            INVALID,
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
        )
        .param("tool_choice"));
    }
    match chosen {
        Some(name) if !names.contains(&name) => Err(bad_request(
            INVALID,
            format!("Tool choice '{name}' not found in 'tools' parameter."),
        )
        .param("tool_choice")),
        Some(_) | None => Ok(()),
    }
}
