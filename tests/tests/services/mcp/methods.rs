//! `/mcp` to the letter: how a session ends, and methods that are not there. (The protocol's own clients: `endpoint`.)

use rejoin_tests::app::TestApp;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

#[tokio::test]
async fn an_ended_session_is_gone_and_unknown_methods_are_refused() {
    let app = TestApp::start().await;
    let client = app.client();
    let post = async |session: Option<&str>, message: Value| {
        let mut request = client
            .request(Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        request.json(&message).send().await.unwrap()
    };
    let begun = post(
        None,
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
    )
    .await;
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    begun.text().await.unwrap();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(Some(&session), initialized).await.status(), StatusCode::ACCEPTED);
    let requests = [
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}),
            "-32601",
            "the method completion/complete is not supported; this server offers tools (tools/list, tools/call)",
        ),
        (
            "resources/read",
            json!({"uri": "file:///etc/passwd"}),
            "-32002",
            "there is no resource file:///etc/passwd",
        ),
    ];
    for (id, (method, params, code, words)) in requests.into_iter().enumerate() {
        let message = json!({"jsonrpc": "2.0", "id": id + 2, "method": method, "params": params});
        let answer = post(Some(&session), message).await.text().await.unwrap();
        assert!(answer.contains(code) && answer.contains(words), "{answer}");
    }
    let end = || {
        let request = client
            .request(Method::DELETE, "/mcp")
            .header("mcp-session-id", &session);
        request.send()
    };
    assert_eq!(end().await.unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(end().await.unwrap().status(), StatusCode::NOT_FOUND);
}
