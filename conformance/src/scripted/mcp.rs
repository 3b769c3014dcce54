//! The ledger as an MCP server over streamable HTTP, with one tool. It keeps no sessions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::{TOOL, World};

/// "Method not found" of JSON-RPC.
const METHOD_NOT_FOUND: i64 = -32601;

/// One message of a client.
pub(super) async fn speak(State(world): State<Arc<World>>, Json(message): Json<Value>) -> Response {
    let id = &message["id"];
    if id.is_null() {
        // A notification.
        return StatusCode::ACCEPTED.into_response();
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "resume-suite", "version": env!("CARGO_PKG_VERSION")},
        }),
        "ping" => json!({}),
        "tools/list" => json!({ "tools": [tool()] }),
        "tools/call" => {
            let call = message["params"]["arguments"]["call"].as_str().unwrap_or_default();
            let done = world.act(call).await;
            json!({"content": [{"type": "text", "text": done.to_string()}], "isError": false})
        }
        other => {
            let error = json!({"code": METHOD_NOT_FOUND, "message": format!("there is no method {other}")});
            return Json(json!({"jsonrpc": "2.0", "id": id, "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

fn tool() -> Value {
    json!({
        "name": TOOL,
        "description": "Records an effect that can't be undone.",
        "inputSchema": {
            "type": "object",
            "properties": {"call": {"type": "string", "description": "The name of the effect."}},
            "required": ["call"],
            "additionalProperties": false,
        },
    })
}
