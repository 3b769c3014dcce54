//! What a binding puts around a result: nothing (HTTP+JSON), or a response of JSON-RPC.

use serde::Serialize;
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

    /// The same as JSON text, appended to `out`.
    pub fn write(&self, result: &impl Serialize, out: &mut Vec<u8>) {
        let written = match self {
            Self::Http => serde_json::to_writer(out, result),
            Self::JsonRpc(id) => {
                let response = Response {
                    jsonrpc: "2.0",
                    id,
                    result,
                };
                serde_json::to_writer(out, &response)
            }
        };
        written.expect("a result is plain data");
    }
}

#[derive(Serialize)]
struct Response<'a, T> {
    jsonrpc: &'static str,
    id: &'a Value,
    result: &'a T,
}
