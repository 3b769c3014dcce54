//! Errors. <https://platform.claude.com/docs/en/api/errors>

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::fields::{Problem, dotted};
use crate::plan::bad_request;
use crate::refusal::{Refusal, listed};

pub(super) const INVALID: &str = "invalid_request_error";

/// <https://platform.claude.com/docs/en/api/errors>, "Error shapes".
pub(crate) fn error_body(refusal: &Refusal, number: u64) -> Value {
    json!({
        "type": "error",
        "error": {"type": refusal.kind, "message": refusal.message},
        "request_id": request_id(number),
    })
}

/// Also a header of each answer.
pub(crate) fn request_id(number: u64) -> String {
    format!("req_{number:024}")
}

pub(super) fn problem(problem: Problem) -> Refusal {
    bad_request(
        INVALID,
        match problem {
            Problem::Unknown { path } => format!("{}: Extra inputs are not permitted", dotted(&path)),
            Problem::Missing { path } => format!("{}: Field required", dotted(&path)),
            Problem::Type { path, expected, .. } => format!("{}: Input should be {expected}", dotted(&path)),
            Problem::Word { path, got, allowed } => format!(
                "{}: Input tag '{got}' found does not match any of the expected tags: {}",
                dotted(&path),
                listed(&allowed)
            ),
        },
    )
}

/// <https://platform.claude.com/docs/en/api/errors>, "HTTP errors".
pub(crate) fn failure(status: StatusCode) -> Refusal {
    match status.as_u16() {
        429 => Refusal::new(
            status,
            "rate_limit_error",
            "This request would exceed your rate limit. Please try again later.",
        ),
        529 => Refusal::new(status, "overloaded_error", "Overloaded"),
        _ => Refusal::new(status, "api_error", "Internal server error"),
    }
}
