//! What a binding puts around a result: nothing (HTTP+JSON), or a response of JSON-RPC.

use serde_json::{Value, json};

/// The binding of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Envelope {
    Http,
    /// With the id of the request.
    JsonRpc(Value),
}

impl Envelope {
    /// Puts it around a result.
    pub fn around(&self, result: Value) -> Value {
        match self {
            Self::Http => result,
            Self::JsonRpc(id) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        }
    }
}
