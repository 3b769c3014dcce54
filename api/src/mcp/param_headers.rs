//! Headers that repeat arguments of a call (`Mcp-Param-…`), as the annotation `x-mcp-header` in a tool's schema requires, so that proxies can
//! route by them. The library compares them with the body; it asks for the tool without the request, so that the tools with such headers
//! are kept beside the task that handles the request. Called by the server in `mcp`.

use axum::http::HeaderMap;
use rmcp::model::Tool;
use serde_json::Value;

use super::Asked;
use super::tools::described;

const ANNOTATION: &str = "x-mcp-header";
const METHOD_HEADER: &str = "mcp-method";

tokio::task_local! {
    static ANNOTATED: Vec<Tool>;
}

/// The tools of a project that have such headers.
pub struct Annotated(Vec<Tool>);

/// Returns those that a request may call.
pub async fn annotated(asked: &Asked, headers: &HeaderMap) -> Annotated {
    // A call without this header is refused, or of a version that has no such headers.
    if !is_of_call(headers) {
        return Annotated(Vec::new());
    }
    // Tools that can't be read are an error of the call itself.
    let Ok(registry) = asked.registry().await else {
        return Annotated(Vec::new());
    };
    let tools = registry.names().filter_map(|name| registry.get(name));
    let annotated = tools.filter(|tool| has_annotation(tool.spec().parameters.document()));
    Annotated(annotated.map(|tool| described(tool.spec())).collect())
}

impl Annotated {
    /// Handles the request.
    pub async fn check<T>(self, handled: impl Future<Output = T>) -> T {
        ANNOTATED.scope(self.0, handled).await
    }
}

/// Whether a request is a call, by the header that requests have since 2026-07-28. The response to a call then begins with its first message.
pub fn is_of_call(headers: &HeaderMap) -> bool {
    headers.get(METHOD_HEADER).is_some_and(|method| method == "tools/call")
}

fn has_annotation(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key(ANNOTATION) || fields.values().any(has_annotation),
        Value::Array(items) => items.iter().any(has_annotation),
        _ => false,
    }
}

/// Returns the tool of this name, if its calls have such headers.
pub fn tool(name: &str) -> Option<Tool> {
    let found = ANNOTATED.try_with(|tools| tools.iter().find(|tool| tool.name == name).cloned());
    found.ok().flatten()
}
