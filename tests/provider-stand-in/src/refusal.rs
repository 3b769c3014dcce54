//! A rejected request: the violated rule, and the provider's wording.

use axum::http::StatusCode;

/// A violated rule. Each protocol encodes it in its provider's error format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The provider's error type: `invalid_request_error`, `INVALID_ARGUMENT`.
    pub(super) kind: &'static str,
    pub(super) message: String,
    /// The parameter, if the provider names one (OpenAI).
    pub(super) param: Option<String>,
    /// The error code, if the provider has one (OpenAI).
    pub(super) code: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
            param: None,
            code: None,
        }
    }

    pub(super) fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(super) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }
}

/// Formats `'a', 'b', and 'c'`, as OpenAI lists values.
pub(super) fn listed(values: &[String]) -> String {
    match values {
        [] => String::new(),
        [one] => format!("'{one}'"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(|value| format!("'{value}'")).collect();
            format!("{}, and '{last}'", first.join(", "))
        }
    }
}
