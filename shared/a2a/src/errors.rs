//! Errors of both bindings: `google.rpc.Status` over HTTP, an error object over JSON-RPC. Each has a reason, by which clients know it.

use serde_json::{Map, Value, json};

/// The domain of the protocol's own reasons.
const PROTOCOL_DOMAIN: &str = "a2a-protocol.org";
/// The domain of ours.
const OWN_DOMAIN: &str = "rejoin";
/// Codes of ours that are the protocol's error of content that is not supported: of the request, of a file, and of a file for this model.
const CONTENT_TYPES: [&str; 4] = [
    codes::CONTENT_TYPE_NOT_SUPPORTED,
    "unsupported_media_type",
    "file_type_not_taken",
    "model_cannot_read_file",
];

/// Codes of our problems that are errors of the protocol.
pub mod codes {
    pub const TASK_NOT_FOUND: &str = "task_not_found";
    pub const TASK_NOT_CANCELABLE: &str = "task_not_cancelable";
    pub const UNSUPPORTED_OPERATION: &str = "unsupported_operation";
    pub const CONTENT_TYPE_NOT_SUPPORTED: &str = "content_type_not_supported";
    pub const VERSION_NOT_SUPPORTED: &str = "version_not_supported";
    /// JSON-RPC's own.
    pub const METHOD_NOT_FOUND: &str = "method_not_found";
    pub const INVALID_REQUEST: &str = "invalid_request";
    pub const MALFORMED_JSON: &str = "malformed_json";
}

/// What went wrong.
#[derive(Debug, Clone)]
pub struct Failure<'a> {
    /// The HTTP status.
    pub status: u16,
    /// A stable code of ours.
    pub code: &'a str,
    /// For people.
    pub message: &'a str,
    /// Further facts.
    pub metadata: Map<String, Value>,
}

impl Failure<'_> {
    /// The code of JSON-RPC, by sections 5.4 and 9.5 of the specification.
    fn rpc_code(&self) -> i32 {
        match (self.code, self.status) {
            (codes::TASK_NOT_FOUND, _) => -32001,
            (codes::TASK_NOT_CANCELABLE, _) => -32002,
            (codes::UNSUPPORTED_OPERATION, _) => -32004,
            (code, _) if CONTENT_TYPES.contains(&code) => -32005,
            (codes::VERSION_NOT_SUPPORTED, _) => -32009,
            (codes::METHOD_NOT_FOUND, _) => -32601,
            (codes::MALFORMED_JSON, _) => -32700,
            (codes::INVALID_REQUEST, _) | (_, 401 | 403) => -32600,
            (_, 429 | 500..) => -32603,
            _ => -32602,
        }
    }

    fn domain(&self) -> &'static str {
        if matches!(self.rpc_code(), -32009..=-32001) {
            PROTOCOL_DOMAIN
        } else {
            OWN_DOMAIN
        }
    }

    fn details(&self) -> Value {
        let own_reason = self.code.to_ascii_uppercase();
        let reason = match self.rpc_code() {
            -32005 => codes::CONTENT_TYPE_NOT_SUPPORTED.to_ascii_uppercase(),
            _ => own_reason.clone(),
        };
        // The values of `ErrorInfo.metadata` are strings.
        let mut metadata: Map<String, Value> = self
            .metadata
            .iter()
            .map(|(name, value)| match value {
                Value::String(_) => (name.clone(), value.clone()),
                other => (name.clone(), other.to_string().into()),
            })
            .collect();
        if reason != own_reason {
            metadata.insert("cause".to_owned(), own_reason.into());
        }
        json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": self.domain(),
            "metadata": metadata,
        }])
    }

    /// The body of an error response of the HTTP binding.
    pub fn as_status(&self) -> Value {
        json!({"error": {
            "code": self.status, "status": grpc_status(self.status, self.rpc_code()), "message": self.message,
            "details": self.details(),
        }})
    }

    /// An error response of JSON-RPC. Without an id: the request was refused before it was read.
    pub fn as_rpc(&self, id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "error": {
            "code": self.rpc_code(), "message": self.message, "data": self.details(),
        }})
    }
}

fn grpc_status(status: u16, rpc_code: i32) -> &'static str {
    match (status, rpc_code) {
        (_, -32002 | -32004 | -32009) => "FAILED_PRECONDITION",
        (401, _) => "UNAUTHENTICATED",
        (403, _) => "PERMISSION_DENIED",
        (404 | 410, _) => "NOT_FOUND",
        (409, _) => "ABORTED",
        (429, _) => "RESOURCE_EXHAUSTED",
        (503, _) => "UNAVAILABLE",
        (500.., _) => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, code: &str) -> Failure<'_> {
        Failure {
            status,
            code,
            message: "why",
            metadata: Map::from_iter([("at".to_owned(), json!(7))]),
        }
    }

    #[test]
    fn errors_have_the_codes_of_the_protocol() {
        for (status, code, rpc, grpc) in [
            (404, codes::TASK_NOT_FOUND, -32001, "NOT_FOUND"),
            (400, codes::TASK_NOT_CANCELABLE, -32002, "FAILED_PRECONDITION"),
            (400, codes::UNSUPPORTED_OPERATION, -32004, "FAILED_PRECONDITION"),
            (400, codes::CONTENT_TYPE_NOT_SUPPORTED, -32005, "INVALID_ARGUMENT"),
            (415, "unsupported_media_type", -32005, "INVALID_ARGUMENT"),
            (400, "model_cannot_read_file", -32005, "INVALID_ARGUMENT"),
            (400, codes::VERSION_NOT_SUPPORTED, -32009, "FAILED_PRECONDITION"),
            (400, "message_empty", -32602, "INVALID_ARGUMENT"),
            (401, "unauthorized", -32600, "UNAUTHENTICATED"),
            (429, "too_many_requests", -32603, "RESOURCE_EXHAUSTED"),
            (503, "draining", -32603, "UNAVAILABLE"),
        ] {
            let failure = failure(status, code);
            assert_eq!(failure.as_rpc(&json!(1))["error"]["code"], rpc, "{code}");
            assert_eq!(failure.as_status()["error"]["status"], grpc, "{code}");
        }
    }

    #[test]
    fn an_error_has_its_reason() {
        let details = &failure(404, codes::TASK_NOT_FOUND).as_status()["error"]["details"][0];
        assert_eq!(
            (&details["reason"], &details["domain"], &details["metadata"]["at"]),
            (&json!("TASK_NOT_FOUND"), &json!("a2a-protocol.org"), &json!("7"))
        );
        let own = &failure(400, "message_empty").as_rpc(&Value::Null)["error"]["data"][0];
        assert_eq!(own["domain"], "rejoin");
        let content = &failure(400, "model_cannot_read_file").as_status()["error"]["details"][0];
        assert_eq!(
            (&content["reason"], &content["domain"], &content["metadata"]["cause"]),
            (
                &json!("CONTENT_TYPE_NOT_SUPPORTED"),
                &json!("a2a-protocol.org"),
                &json!("MODEL_CANNOT_READ_FILE")
            )
        );
    }
}
