//! The protocol's official conformance tests, of servers and of clients.

use rejoin_tests::app::TestApp;
use rejoin_tests::mcp;
use reqwest::StatusCode;
use serde_json::json;

use super::endpoint::app;

/// Adds the key, which the conformance tests can't send.
async fn with_key(app: &TestApp) -> String {
    let (to, key) = (app.url(), app.db.api_key.clone());
    let http = reqwest::Client::new();
    let forward = move |request: axum::extract::Request| {
        let (http, to, key) = (http.clone(), to.clone(), key.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let mut headers = parts.headers;
            headers.remove("content-length");
            headers.insert("authorization", format!("Bearer {key}").parse().unwrap());
            let answer = http
                .request(parts.method, format!("{to}{}", parts.uri))
                .headers(headers)
                .body(body)
                .send()
                .await
                .unwrap();
            let mut response = axum::response::Response::builder().status(answer.status());
            for (name, value) in answer.headers() {
                if name != "transfer-encoding" && name != "connection" {
                    response = response.header(name, value);
                }
            }
            response
                .body(axum::body::Body::from_stream(answer.bytes_stream()))
                .unwrap()
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = axum::Router::new().fallback(forward);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://127.0.0.1:{}/mcp", address.port())
}

/// Runs the official tests, and returns their output.
async fn conformance(arguments: &[&str]) -> Option<(bool, String)> {
    let Some(node) = mcp::recent_node() else {
        rejoin_tests::needs::skip(
            "the conformance tests need a Node.js of 22 or newer: scripts/setup-mcp.sh fetches one",
        );
        return None;
    };
    let output = tokio::process::Command::new(node)
        .arg(mcp::module("@modelcontextprotocol/conformance/dist/index.js"))
        .args(arguments)
        .current_dir(std::env::temp_dir())
        .output()
        .await
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), printed))
}

/// Expected failures, with reasons, are listed in a file: any difference fails here.
#[tokio::test]
async fn the_official_conformance_tests_say_what_is_expected() {
    if !mcp::are_there() {
        return;
    }
    let app = app().await;
    let arguments = json!([{"name": "arg1", "description": "One", "required": true}, {"name": "arg2", "description": "Two", "required": true}]);
    let manifest = json!({
        "name": "conformance", "version": "1.0.0",
        "mcp": {"prompts": [
            {"name": "test_simple_prompt", "description": "Without arguments.", "text": "This is a simple prompt for testing."},
            {"name": "test_prompt_with_arguments", "description": "With arguments.", "arguments": arguments,
             "text": "Prompt with arguments: arg1='{{arg1}}', arg2='{{arg2}}'"}
        ]}
    });
    let products = format!("/api/admin/projects/{}/products", app.db.workspace_id);
    assert_eq!(
        app.client().post(&products, json!({ "manifest": manifest })).await.0,
        StatusCode::OK
    );
    let url = with_key(&app).await;
    let expected = mcp::script("conformance.yml").display().to_string();
    if let Some((passed, said)) = conformance(&["server", "--url", &url, "--expected-failures", &expected]).await {
        assert!(passed, "{said}");
        assert!(said.contains("Total: 11 passed"), "{said}");
    }
}

/// Those that apply to a worker's client: the others are about sampling, elicitation in sessions with a handshake and a
/// user at a browser, which it does not support.
#[tokio::test]
async fn the_official_conformance_tests_of_clients_pass() {
    if !mcp::are_there() {
        return;
    }
    let client = rejoin_tests::app::mcp_client_binary().display().to_string();
    for scenario in [
        "initialize",
        "tools_call",
        "sse-retry",
        "auth/client-credentials-basic",
        "auth/resource-mismatch",
    ] {
        let ran = conformance(&["client", "--command", &client, "--scenario", scenario]).await;
        if let Some((passed, said)) = ran {
            assert!(passed, "{scenario}: {said}");
        }
    }
}
