//! Tests of errors: codes, advice, delays, and redacted keys.

use reqwest::header::HeaderValue;

use rejoin_models::catalogue;

use super::*;

fn context() -> ErrorContext {
    ErrorContext {
        name: ModelName::parse("openai:gpt-4o").expect("a name"),
        full_name: "openai:gpt-4o".to_owned(),
        known: catalogue().find("openai:gpt-4o"),
        host: "127.0.0.1:1".to_owned(),
        key: Some(Secret::new("sk-secret-key")),
    }
}

#[test]
fn retry_after_is_read_as_seconds_milliseconds_or_a_date() {
    let now = DateTime::parse_from_rfc3339("2026-01-01T00:00:00Z")
        .expect("a time")
        .with_timezone(&Utc);
    let read = |name: &'static str, value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        retry_after(&headers, now)
    };
    assert_eq!(read("retry-after", "7"), Some(Duration::from_secs(7)));
    assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
    assert_eq!(
        read("retry-after", "Thu, 01 Jan 2026 00:00:30 GMT"),
        Some(Duration::from_secs(30))
    );
    assert_eq!(
        read("retry-after", "Wed, 31 Dec 2025 00:00:30 GMT"),
        Some(Duration::ZERO)
    );
    assert_eq!(read("retry-after", "soon"), None);
}

#[test]
fn keys_are_struck_out_of_what_a_provider_says() {
    let error = context().status(
        StatusCode::BAD_REQUEST,
        None,
        r#"{"error":{"message":"no sk-secret-key here"}}"#,
    );
    assert_eq!(
        error.message,
        "calling `openai:gpt-4o` at 127.0.0.1:1: the request was rejected (HTTP 400): no [key] here"
    );
}

#[test]
fn statuses_say_whether_a_repetition_helps() {
    let status = |code: u16, body: &str| {
        let error = context().status(StatusCode::from_u16(code).expect("a status"), None, body);
        (error.code, error.retryable)
    };
    assert_eq!(status(401, ""), ("model_key_rejected", false));
    assert_eq!(status(403, ""), ("model_key_rejected", false));
    assert_eq!(status(404, ""), ("model_unknown", false));
    assert_eq!(status(429, ""), ("model_rate_limited", true));
    assert_eq!(
        status(429, r#"{"error":{"code":"insufficient_quota"}}"#),
        ("model_quota_exhausted", false)
    );
    assert_eq!(
        status(400, r#"{"error":{"message":"Your credit balance is too low"}}"#),
        ("model_quota_exhausted", false)
    );
    assert_eq!(status(500, ""), ("model_unavailable", true));
    assert_eq!(status(503, ""), ("model_unavailable", true));
    assert_eq!(
        status(503, r#"{"error":{"message":"The model is overloaded."}}"#),
        ("model_overloaded", true)
    );
    assert_eq!(status(529, ""), ("model_overloaded", true));
    assert_eq!(status(400, ""), ("model_rejected", false));
    assert_eq!(
        status(
            400,
            r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#
        ),
        ("model_context_overflow", false)
    );
    assert_eq!(
        status(400, r#"{"error":{"code":"content_policy_violation"}}"#),
        ("model_refused", false)
    );
}

#[test]
fn an_error_says_what_to_do() {
    let said = |code: u16, body: &str| {
        let status = StatusCode::from_u16(code).expect("a status");
        context().status(status, None, body).message
    };
    assert!(
        said(400, r#"{"error":{"code":"context_length_exceeded"}}"#).contains("Its context window has 128000 tokens")
    );
    assert!(said(404, "").contains("use `openai:"), "{}", said(404, ""));
    assert!(said(529, "").contains("fallbackModels"));
}

#[test]
fn an_overload_in_mid_stream_is_reported_as_such() {
    let body = serde_json::json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let error = context().in_stream(&body);
    assert_eq!((error.code, error.retryable), ("model_overloaded", true));
    assert!(error.message.ends_with("Overloaded"), "{}", error.message);
}
