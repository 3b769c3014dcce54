//! The built-in tools in MCP's format. Called by the server in `mcp`.
//!
//! Invariant: the listed tools are those that can be called, by the caller's scopes and the agent's whitelist.

use std::sync::Arc;

use rejoin_tools::registry::Registry;
use rejoin_tools::{SharedTool, ToolContext, ToolError, ToolSpec, arguments};
use rejoin_types::ids;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{Asked, Granted, TOOL_LIMIT};

fn may_call(spec: &ToolSpec, granted: &Granted) -> bool {
    (spec.read_only || granted.writes) && granted.patterns.is_match(&spec.name)
}

pub fn list(registry: &Registry, granted: &Granted) -> Vec<Tool> {
    let names: Vec<&str> = registry.names().collect();
    let tools = names.into_iter().filter_map(|name| registry.get(name));
    tools
        .filter(|tool| may_call(tool.spec(), granted))
        .map(|tool| described(tool.spec()))
        .collect()
}

pub fn described(spec: &ToolSpec) -> Tool {
    let mut tool = Tool::new(
        spec.name.clone(),
        spec.description.clone(),
        schema(spec.parameters.document()),
    );
    tool.annotations = Some(ToolAnnotations::from_raw(
        None,
        Some(spec.read_only),
        Some(spec.destructive),
        Some(spec.idempotent),
        Some(false),
    ));
    tool
}

/// Models require every property, with null for absent ones; programs may omit nullable ones.
pub fn schema(document: &Value) -> Arc<JsonObject> {
    let mut schema = document.as_object().cloned().unwrap_or_default();
    let properties = &document["properties"];
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| {
            let property = &properties[name.as_str().unwrap_or_default()];
            !rejoin_schemas::allows_null(property)
        });
    }
    Arc::new(schema)
}

pub async fn call(
    asked: &Asked,
    granted: &Granted,
    name: &str,
    given: JsonObject,
    cancel: &CancellationToken,
) -> Result<CallToolResult, ErrorData> {
    let tool: Option<SharedTool> = asked
        .registry()
        .await?
        .get(name)
        .filter(|tool| may_call(tool.spec(), granted));
    let Some(tool) = tool else {
        return Err(ErrorData::invalid_params(format!("there is no tool {name}"), None));
    };
    let arguments = match arguments::admit(tool.spec(), &Value::Object(given)) {
        Ok(arguments) => arguments,
        Err(fault) => return Ok(failed(fault)),
    };
    let context = ToolContext {
        db: asked.state.db.pool_sqlx.clone(),
        workspace_id: asked.caller.workspace_id,
        model: std::sync::Arc::new(asked.state.embedder.clone()),
        run_id: None,
        user_id: Some(asked.caller.user_id),
        call_id: String::new(),
        record_id: ids::new(),
        cancel: cancel.clone(),
        focus: None,
        bounds: None,
    };
    let called = tokio::select! {
        called = timeout(TOOL_LIMIT, tool.call(&context, arguments)) => called,
        () = cancel.cancelled() => return Ok(failed("the call was cancelled".to_owned())),
    };
    Ok(match called {
        Ok(Ok(output)) => completed(output),
        Ok(Err(ToolError::RespondToModel(words))) => failed(words),
        Ok(Err(asks @ ToolError::NeedsInput(_))) => failed(asks.to_string()),
        Ok(Err(ToolError::Internal { attempted, source })) => {
            error!(tool = name, attempted, error = source.to_string(), "a tool failed");
            failed(format!(
                "{attempted} failed; the cause is in the server's log. Retrying later may help."
            ))
        }
        Err(_) => failed(format!("{name} did not respond within {} s", TOOL_LIMIT.as_secs())),
    })
}

/// Returns the result of a call. A text is itself, not its JSON.
fn completed(output: Value) -> CallToolResult {
    let text = output.as_str().map(str::to_owned);
    let mut result = CallToolResult::structured(output);
    if let Some(text) = text {
        result.content = vec![ContentBlock::text(text)];
    }
    result
}

/// Returns a failed result, worded for the caller.
pub fn failed(words: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(words)])
}
