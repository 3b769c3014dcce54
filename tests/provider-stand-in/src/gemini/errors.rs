//! Errors in the format of Google's APIs. <https://ai.google.dev/gemini-api/docs/troubleshooting>

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::fields::{Problem, Step, bracketed};
use crate::plan::bad_request;
use crate::refusal::Refusal;

pub(super) const INVALID: &str = "INVALID_ARGUMENT";

/// <https://ai.google.dev/gemini-api/docs/troubleshooting>, "Error codes".
pub(crate) fn error_body(refusal: &Refusal) -> Value {
    let mut body = json!({"error": {
        "code": refusal.status.as_u16(),
        "message": refusal.message,
        "status": refusal.kind,
    }});
    if let Some(reason) = refusal.code {
        body["error"]["details"] = json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        }]);
    }
    if let Some(field) = &refusal.param {
        body["error"]["details"] = json!([{
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": field, "description": refusal.message}],
        }]);
    }
    body
}

/// Protocol buffer errors: unknown names and wrong types are reported with their path, in snake case.
pub(super) fn problem(problem: Problem) -> Refusal {
    let (message, field) = match problem {
        Problem::Unknown { path } => {
            let (name, before) = split(&path);
            let place = if before.is_empty() {
                String::new()
            } else {
                format!(" at '{before}'")
            };
            (
                format!("Invalid JSON payload received. Unknown name \"{name}\"{place}: Cannot find field."),
                before,
            )
        }
        Problem::Missing { path } => {
            let (name, before) = split(&path);
            let place = if before.is_empty() {
                name
            } else {
                format!("{before}.{name}")
            };
            (
                format!("* GenerateContentRequest.{place}: {place} is not specified\n"),
                place,
            )
        }
        Problem::Type { path, expected, got } => {
            let (name, before) = split(&path);
            let what = if expected != "an array" && got == "an array" {
                "Proto field is not repeating, cannot start list.".to_owned()
            } else {
                format!("expected {expected}, got {got}")
            };
            (
                format!("Invalid value at '{before}.{name}' (unknown): {what}"),
                format!("{before}.{name}"),
            )
        }
        Problem::Word { path, got, .. } => {
            let place = snake(&bracketed(&path));
            (format!("Invalid value at '{place}': \"{got}\""), place)
        }
    };
    bad_request(INVALID, message).param(field)
}

fn split(path: &[Step]) -> (String, String) {
    match path {
        [before @ .., Step::Key(name)] => (name.clone(), snake(&bracketed(before))),
        other => (String::new(), snake(&bracketed(other))),
    }
}

fn snake(text: &str) -> String {
    let mut snake = String::new();
    for c in text.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// <https://ai.google.dev/gemini-api/docs/troubleshooting>: 429 `RESOURCE_EXHAUSTED`, 500 `INTERNAL`, 503 `UNAVAILABLE`.
pub(crate) fn failure(status: StatusCode) -> Refusal {
    match status.as_u16() {
        429 => Refusal::new(
            status,
            "RESOURCE_EXHAUSTED",
            "Resource has been exhausted (e.g. check quota).",
        ),
        503 => Refusal::new(
            status,
            "UNAVAILABLE",
            "The model is overloaded. Please try again later.",
        ),
        _ => Refusal::new(status, "INTERNAL", "An internal error has occurred."),
    }
}
