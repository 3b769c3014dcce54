//! Errors: `{"error": {message, type, code, param}}`.

use serde_json::{Value, json};

/// What is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    pub code: &'static str,
    pub message: String,
    /// The parameter that is wrong.
    pub param: Option<String>,
}

impl Invalid {
    pub fn new(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: "invalid_value",
            message: message.into(),
            param: Some(param.into()),
        }
    }

    /// A parameter, or a value of one, that this server does not support.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: "unsupported_parameter",
            ..Self::new(param, message)
        }
    }
}

/// The body of an error response.
pub fn body(status: u16, code: &str, message: &str, param: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": kind(status), "param": param, "code": code_of(status, code)}})
}

/// The protocol's type of an error.
fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// Clients of this protocol know some of our codes by another name.
fn code_of(status: u16, code: &str) -> &str {
    match (status, code) {
        (401, _) => "invalid_api_key",
        (429, "too_many_requests") => "rate_limit_exceeded",
        (_, "agent_definition_not_found") => "model_not_found",
        _ => code,
    }
}

/// The HTTP status of a run that failed, where a failure is no part of the answer.
pub fn status_of_failure(code: &str) -> u16 {
    match code {
        "rate_limited" | "model_rate_limited" => 429,
        _ => 500,
    }
}

/// Returns the HTTP status of a document that is an error.
pub fn status_of_document(document: &[u8]) -> Option<u16> {
    let document: Value = serde_json::from_slice(document).ok()?;
    let code = document.get("error")?["code"].as_str()?;
    Some(status_of_failure(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_protocols_shape() {
        let error = body(401, "unauthorized", "a key is required", None);
        assert_eq!(
            error,
            json!({"error": {"message": "a key is required", "type": "authentication_error", "param": null, "code": "invalid_api_key"}})
        );
        assert_eq!(
            body(404, "run_not_found", "", None)["error"]["type"],
            "invalid_request_error"
        );
        assert_eq!(body(503, "draining", "", None)["error"]["type"], "server_error");
    }
}
