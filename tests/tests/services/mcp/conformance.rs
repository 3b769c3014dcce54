//! The protocol's official conformance tests, of servers and of clients.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::Client;
use rejoin_tests::mcp;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

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

const TEXT: &str = "This is a simple text response for testing.";
const ERROR: &str = "This tool intentionally returns an error for testing";

/// A program with those tools of the conformance tests that programs can have: texts, errors, and schemas. It serves them until it is dropped.
async fn tools(app: &TestApp) -> JoinHandle<()> {
    let no_arguments = json!({"type": "object", "properties": {}});
    let address = json!({"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}});
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "$defs": {"address": address},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}}, "additionalProperties": false
    });
    let region = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let tools: Vec<Value> = [
        ("test_simple_text", &no_arguments),
        ("test_error_handling", &no_arguments),
        ("test_reconnection", &no_arguments),
        ("json_schema_2020_12_tool", &schema),
        ("test_x_mcp_header", &region),
    ]
    .into_iter()
    .map(|(name, schema)| json!({"name": name, "description": "Of the conformance tests.", "inputSchema": schema, "readOnly": true}))
    .collect();
    let program = app.client();
    let about = json!({"name": "conformance", "version": "1", "language": "none", "slots": 4, "tools": tools});
    let (status, registered) = program.post("/api/workers/default/registrations", about).await;
    assert_eq!(status, StatusCode::CREATED, "{registered}");
    let worker = registered["workerId"].clone();
    tokio::spawn(async move {
        loop {
            let claim = json!({"workerId": worker, "max": 1, "waitS": 20});
            let (_, claimed) = program.post("/api/workers/default/claims", claim).await;
            for call in claimed["calls"].as_array().into_iter().flatten() {
                finish(&program, &worker, call).await;
            }
        }
    })
}

async fn finish(program: &Client, worker: &Value, call: &Value) {
    let id = call["id"].as_str().expect("an id");
    let (end, field, value) = match call["tool"].as_str() {
        Some("test_error_handling") => ("failure", "error", ERROR),
        _ => ("completion", "output", TEXT),
    };
    let body = json!({"workerId": worker, "attempt": call["attempt"], field: value});
    program
        .post(&format!("/api/workers/default/calls/{id}/{end}"), body)
        .await;
}

/// Calls the tool whose schema asks for a header, with this header, by the newest version of the protocol.
async fn call_with(app: &TestApp, region: Option<&str>) -> (StatusCode, String) {
    let version = "2026-07-28";
    let about = json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "test_x_mcp_header", "arguments": {"region": "Köln"}, "_meta": about}});
    let mut request = app.client().request(Method::POST, "/mcp").json(&call);
    for (name, value) in [
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", version),
        ("mcp-method", "tools/call"),
        ("mcp-name", "test_x_mcp_header"),
    ] {
        request = request.header(name, value);
    }
    if let Some(region) = region {
        request = request.header("mcp-param-region", region);
    }
    let response = request.send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

#[tokio::test]
async fn headers_that_a_schema_asks_for_must_match_the_arguments() {
    let app = TestApp::start().await;
    let program = tools(&app).await;
    let (status, said) = call_with(&app, Some("=?base64?S8O2bG4=?=")).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    // A text is itself, not its JSON.
    assert!(said.contains(&format!(r#""text":"{TEXT}""#)), "{said}");
    for region in [None, Some("Bonn"), Some("=?base64?S8O2bG4?="), Some("=?base64?!!!?=")] {
        let (status, said) = call_with(&app, region).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{region:?}: {said}");
        assert!(said.contains("-32020"), "{region:?}: {said}");
    }
    program.abort();
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
    let program = tools(&app).await;
    let url = with_key(&app).await;
    let expected = mcp::script("conformance.yml").display().to_string();
    if let Some((passed, said)) = conformance(&[
        "server",
        "--url",
        &url,
        "--suite",
        "all",
        "--expected-failures",
        &expected,
    ])
    .await
    {
        assert!(passed, "{said}");
        assert!(said.contains("Total: 19 passed"), "{said}");
    }
    program.abort();
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
