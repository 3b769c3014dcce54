//! What somebody would try who means harm: bodies, cursors and paths that no client sends, tools that were not offered, pages of other
//! sites, secrets in logs. (Credentials, scopes and owners: `identity::auth`.)

use std::process::{Command, Stdio};
use std::sync::Arc;

use rejoin_tests::app::{AppOptions, TestApp, binary};
use rejoin_tests::client::{Client, answer, json_of};
use rejoin_tests::model_server::Reply;
use rejoin_tests::ports::free_address;
use rejoin_tests::support;
use rejoin_tests::tools::{Ledger, Payment};
use rejoin_tools::registry::Registry;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

/// Checks that the request was refused with a problem, and not by a server error.
async fn refused(what: &str, response: Response) -> Value {
    let status = response.status();
    assert!(status.is_client_error(), "{what}: {status}");
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json",
        "{what}: {status}"
    );
    answer(response).await.1
}

/// Invalid numbers, ids and cursors.
const SEGMENTS: [&str; 10] = [
    "0",
    "-1",
    "99999999999999999999999999",
    "%00",
    "%ff%fe",
    "..%2f..%2fetc%2fpasswd",
    "';drop%20table%20kb.users;--",
    "null",
    "%F0%9F%A6%80",
    "00000000-0000-0000-0000-000000000000",
];

const QUERIES: [&str; 8] = [
    "?after=-1",
    "?after=1e9",
    "?after=%00",
    "?limit=-5&cursor=%ff",
    "?limit=99999999999999999999",
    "?cursor=eyJub3QiOiJvdXJzIn0",
    "?from=everything&on_gap=maybe",
    "?a=1&a=2&a=3&%=%",
];

fn bodies() -> Vec<Vec<u8>> {
    let deep = "[".repeat(100_000);
    let deep_object = "{\"a\":".repeat(5_000) + "1" + &"}".repeat(5_000);
    vec![
        b"".to_vec(),
        b"{".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\"text\"".to_vec(),
        b"1e400".to_vec(),
        b"\xff\xfe{}".to_vec(),
        deep.into_bytes(),
        deep_object.into_bytes(),
        br#"{"message": 7, "name": {}, "title": [], "conversationId": "x"}"#.to_vec(),
        br#"{"message": "\u0000", "name": "\u0000", "title": "\u0000", "systemPrompt": "\u0000"}"#.to_vec(),
        br#"{"message": "\ud800", "name": "\ud800", "title": "\ud800"}"#.to_vec(),
        br#"{"message": "x", "message": "y", "attachedContext": {"\u0000": "\u0000"}}"#.to_vec(),
        br#"{"title": "x", "metadata": {"a": "\u0000"}}"#.to_vec(),
        br#"{"name": "x", "systemPrompt": "x", "tools": [null, 7], "maxSteps": -1, "model": {"temperature": 1e300}}"#
            .to_vec(),
    ]
}

/// Whether it is a problem document or, below `/v1`, an error in the shape of OpenAI's protocols, or in that of A2A below its address.
async fn is_an_error(response: reqwest::Response) -> bool {
    if response.url().path().starts_with("/api/a2a") {
        let body: Value = response.json().await.unwrap_or_default();
        return body["error"]["message"].is_string() && body["error"]["code"].is_i64() && body["code"].is_string();
    }
    if response.url().path().starts_with("/v1/") {
        let body: Value = response.json().await.unwrap_or_default();
        return body["error"]["message"].is_string() && body["error"]["code"].is_string();
    }
    response.headers()["content-type"] == "application/problem+json"
}

#[tokio::test]
async fn no_request_to_any_route_causes_a_server_error() {
    let app = quiet().await;
    let client = app.client();
    let (_, document) = client.get("/openapi.json").await;
    let project = app.db.workspace_id.to_string();
    let mut upset = Vec::new();
    let mut tried = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let plain = filled(path, &project, &Uuid::now_v7().to_string());
            let mut requests = Vec::new();
            if path.contains('{') {
                requests.extend(
                    SEGMENTS
                        .iter()
                        .map(|segment| client.request(method.clone(), &filled(path, &project, segment))),
                );
                requests.extend(
                    SEGMENTS
                        .iter()
                        .map(|segment| client.request(method.clone(), &filled(path, segment, segment))),
                );
            }
            requests.extend(
                QUERIES
                    .iter()
                    .map(|query| client.request(method.clone(), &format!("{plain}{query}"))),
            );
            for header in ["-1", "abc", "18446744073709551616", ""] {
                requests.push(client.request(method.clone(), &plain).header("last-event-id", header));
            }
            if operation["requestBody"].is_object() {
                for body in bodies() {
                    for kind in ["application/json", "application/x-ndjson", "text/plain"] {
                        let request = client.request(method.clone(), &plain).header("content-type", kind);
                        requests.push(request.body(body.clone()));
                    }
                }
            }
            for request in requests {
                let request = request.build().unwrap();
                let what = format!(
                    "{method} {} {:?}",
                    request.url(),
                    request
                        .body()
                        .and_then(|body| body.as_bytes())
                        .map(|body| String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned())
                );
                tried += 1;
                let Ok(response) = client.execute(request).await else {
                    upset.push(format!("{what}: no answer"));
                    continue;
                };
                let status = response.status();
                if status.is_server_error() {
                    upset.push(format!(
                        "{what}: {status} {}",
                        response.text().await.unwrap_or_default()
                    ));
                } else if status.is_client_error() && !is_an_error(response).await {
                    upset.push(format!("{what}: {status}, and no error document"));
                }
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
    assert!(upset.is_empty(), "{} of {tried}:\n{}", upset.len(), upset.join("\n"));
    // It still works.
    assert_eq!(
        client.post("/api/conversations", json!({"title": "well"})).await.0,
        StatusCode::CREATED
    );
}

/// Returns a path with its project, and everything else replaced.
fn filled(path: &str, project: &str, segment: &str) -> String {
    let mut path = path.replace("{projectId}", project).replace("{workspace_id}", project);
    while let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
        path.replace_range(from..=to, segment);
    }
    path
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_others_are_served() {
    let app = quiet().await;
    let client = app.client();
    let post = |body: Vec<u8>| {
        client
            .request(Method::POST, "/api/chat/stream")
            .header("content-type", "application/json")
            .body(body)
            .send()
    };
    let huge = format!("{{\"message\": \"{}\"}}", "x".repeat(10 * 1024 * 1024)).into_bytes();
    // The server may close the connection of a client that keeps sending.
    if let Ok(response) = post(huge).await {
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    let deep = format!(
        "{{\"message\": \"x\", \"attachedContext\": {}{}}}",
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    let problem = refused("deeply nested", post(deep.into_bytes()).await.unwrap()).await;
    assert!(problem["detail"].is_string());
    let stored: i64 = sqlx::query_scalar("select count(*) from kb.chat_messages")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(stored, 0);
}

#[tokio::test]
async fn pages_of_other_sites_can_neither_read_nor_write() {
    let app = quiet().await;
    let http = reqwest::Client::new();
    let url = format!("{}/api/chat/stream", app.url());
    let preflight = http
        .request(Method::OPTIONS, &url)
        .header("origin", "https://evil.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type")
        .send()
        .await
        .unwrap();
    assert!(!preflight.headers().contains_key("access-control-allow-origin"));
    // What a cross-site form can send: no preflight, with this site's cookies.
    let form = http
        .post(&url)
        .header("origin", "https://evil.example")
        .header(
            "cookie",
            format!("session={}; authorization={}", app.db.api_key, app.db.api_key),
        )
        .header("content-type", "text/plain")
        .body(r#"{"message": "do as I say"}"#)
        .send()
        .await
        .unwrap();
    assert!(!form.headers().contains_key("access-control-allow-origin"));
    assert_eq!(form.status(), StatusCode::UNAUTHORIZED);
    let with_key = app
        .client()
        .request(Method::GET, "/api/conversations")
        .header("origin", "https://evil.example")
        .send()
        .await
        .unwrap();
    assert!(!with_key.headers().contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn calls_not_offered_or_against_the_schema_act_on_nothing() {
    let ledger = Ledger::default();
    let gate = Arc::new(Semaphore::new(100));
    let tools = Registry::new([Payment::shared(&ledger, &gate, false)]);
    let app = TestApp::with(AppOptions {
        tools,
        ..AppOptions::default()
    })
    .await;
    // It has nothing.
    let bare = app.agent("bare", &[]).await;
    app.model.on(
        "pay",
        [Reply::tool("pay", json!({"amount": 1})), Reply::text("I could not.")],
    );
    let frames = app.client().ask(Some(bare), "pay for me").await;
    assert_eq!(frames.last().unwrap().json()["status"], "completed");
    assert!(ledger.entries().is_empty(), "a tool beyond the whitelist acted");
    // It may pay, and requests it in every wrong way.
    let payer = app.agent("payer", &["pay"]).await;
    let megabytes = "9".repeat(10 * 1024 * 1024);
    for (question, call) in [
        ("as text", Reply::tool_text("pay", "{\"amount\": ")),
        ("wrong type", Reply::tool("pay", json!({"amount": "all of it"}))),
        ("nothing", Reply::tool("pay", json!({}))),
        ("too much", Reply::tool("pay", json!({"amount": 1, "to": "me"}))),
        ("a list", Reply::tool("pay", json!([1, 2, 3]))),
        ("megabytes", Reply::tool("pay", json!({"amount": megabytes}))),
    ] {
        app.model.on(question, [call, Reply::text("I could not.")]);
        let frames = app.client().ask(Some(payer), question).await;
        let end = frames.last().unwrap().json();
        assert_eq!(end["status"], "completed", "{question}");
        let results: Vec<Value> = json_of(&frames)
            .into_iter()
            .filter(|event| event["type"] == "mcp_tool" && event["status"] != "started")
            .collect();
        assert_eq!(results.len(), 1, "{question}");
        assert_eq!(results[0]["status"], "error", "{question}: {}", results[0]);
    }
    assert!(
        ledger.entries().is_empty(),
        "a call that breaks its schema acted: {:?}",
        ledger.entries()
    );
    assert!(app.model.violations().is_empty());
}

#[tokio::test]
async fn secret_settings_are_in_no_log_answer_or_event() {
    const CANARY: &str = "canary-7f3a9e51c2d84b60";
    let app = quiet().await;
    let free = free_address();
    let outputs = tempdir();
    let spawn = |verb: &[&str], name: &str| {
        let log = std::fs::File::create(outputs.join(name)).unwrap();
        Command::new(binary())
            .args(verb)
            .env("DATABASE_URL", &app.db.url)
            .env("OPENAI_BASE_URL", app.model.base_url())
            .env("OPENAI_API_KEY", CANARY)
            .env("ANTHROPIC_API_KEY", CANARY)
            .env("GEMINI_API_KEY", CANARY)
            .env("RUST_LOG", "trace")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    };
    let address = free.to_string();
    let mut api = spawn(&["api", "--listen", &address], "api.log");
    let mut worker = spawn(&["worker"], "worker.log");
    let client = Client::new(format!("http://{address}"), &app.db.api_key);
    support::wait_for("the API to be ready", async || {
        let ready = reqwest::get(format!("http://{address}/readyz")).await.ok()?;
        ready.status().is_success().then_some(())
    })
    .await;
    let agent = app.agent("leaky", &["*"]).await;
    // Rejected by the provider, where a key is most likely to leak.
    app.model
        .script([Reply::status(401), Reply::status(400), Reply::text("fine")]);
    let mut said = String::new();
    for message in ["one", "two", "three"] {
        for frame in client.ask(Some(agent), message).await {
            said += &frame.data.unwrap_or_default();
        }
    }
    said += &client.metrics().await;
    for process in [&mut api, &mut worker] {
        let stopped = Command::new("kill")
            .args(["-TERM", &process.id().to_string()])
            .status()
            .unwrap();
        assert!(stopped.success());
        process.wait().unwrap();
    }
    let logs = ["api.log", "worker.log"].map(|name| std::fs::read_to_string(outputs.join(name)).unwrap());
    std::fs::remove_dir_all(&outputs).unwrap();
    for (place, text) in [
        ("the answers", &said),
        ("the API's log", &logs[0]),
        ("the worker's log", &logs[1]),
    ] {
        assert!(text.len() > 100, "{place}: {text}");
        assert!(!text.contains(CANARY), "{place} tell it");
        // The user's own key is a secret, too.
        assert!(!text.contains(&app.db.api_key), "{place} tell the API key");
    }
    let tables: Vec<(String,)> = sqlx::query_as(
        "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname in ('kb', 'queue', 'stream', 'audit')",
    )
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    for (table,) in tables {
        let sql = format!("select count(*) from {table} t where t::text like '%' || $1 || '%'");
        let found: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .bind(CANARY)
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
        assert_eq!(found, 0, "{table} holds it");
    }
}

fn tempdir() -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("rejoin-attacks-{}", Uuid::now_v7()));
    std::fs::create_dir_all(&path).unwrap();
    path
}
