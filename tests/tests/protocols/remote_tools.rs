//! Tools of a program that takes its calls over HTTP (docs/reference/worker-protocol.md): the test is the program.
//!
//! - `agents` agents whose turns a program executes
//! - `durable` steps of functions, and what they wait for
//! - `emitted` events that programs emit while they work
//! - `held` runs that keep their slot while a program executes their calls
//! - `model_calls` functions that ask language models
//! - `records` steps and outputs of several calls in one request
//! - `outcomes` what becomes of a call whose program is lost, fails, or is not wanted
//! - `registration` who may register what
//! - `statements` how many SQL statements a turn takes
//! - `waiting` claims that wait, one after another

mod agents;
mod durable;
mod emitted;
mod held;
mod model_calls;
mod outcomes;
mod records;
mod registration;
mod statements;
mod waiting;

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A program that serves tools.
pub(crate) struct Program {
    pub client: Client,
    pub id: String,
    pub queue: &'static str,
}

/// The announcement of a tool with one argument.
pub(crate) fn tool(name: &str) -> Value {
    json!({
        "name": name, "description": "Refunds an order.",
        "inputSchema": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    })
}

/// The same, changed.
pub(crate) fn tool_with(name: &str, changes: Value) -> Value {
    let mut tool = tool(name);
    for (field, value) in changes.as_object().expect("fields") {
        tool[field] = value.clone();
    }
    tool
}

impl Program {
    pub async fn register(client: Client, tools: Value) -> Self {
        let body = json!({"name": "billing", "version": "1.4.0", "language": "none", "slots": 4, "tools": tools});
        let (status, registration) = client.post("/api/workers/default/registrations", body).await;
        assert_eq!(status, StatusCode::CREATED, "{registration}");
        Self {
            client,
            id: registration["workerId"].as_str().expect("an id").to_owned(),
            queue: "default",
        }
    }

    pub async fn send(&self, path: &str, mut body: Value) -> (StatusCode, Value) {
        body["workerId"] = json!(self.id);
        self.client
            .post(&format!("/api/workers/{}/{path}", self.queue), body)
            .await
    }

    pub async fn claim(&self, max: u32, wait_s: u32) -> Vec<Value> {
        let (status, claimed) = self.send("claims", json!({"max": max, "waitS": wait_s})).await;
        assert_eq!(status, StatusCode::OK, "{claimed}");
        claimed["calls"].as_array().expect("calls").clone()
    }

    /// Takes the next call.
    pub async fn next(&self) -> Value {
        let mut calls = self.claim(1, 20).await;
        assert_eq!(calls.len(), 1, "a call");
        calls.remove(0)
    }

    pub async fn about(&self, call: &Value, what: &str, mut body: Value) -> (StatusCode, Value) {
        body["attempt"] = call["attempt"].clone();
        let id = call["id"].as_str().expect("an id");
        self.send(&format!("calls/{id}/{what}"), body).await
    }

    pub async fn complete(&self, call: &Value, output: Value) -> (StatusCode, Value) {
        self.about(call, "completion", json!({"output": output})).await
    }

    pub async fn heartbeat(&self, calls: &[&Value]) -> Value {
        let calls: Vec<Value> = calls
            .iter()
            .map(|call| json!({"id": call["id"], "attempt": call["attempt"]}))
            .collect();
        let (status, answer) = self.send("heartbeats", json!({"calls": calls})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer
    }
}

/// An app whose programs lose their calls after a second without a heartbeat.
pub(crate) async fn hasty() -> TestApp {
    TestApp::with(AppOptions {
        api: |config| config.remote_tools.remote_lease_s = 1,
        ..AppOptions::default()
    })
    .await
}

/// An agent with the tool, whose model calls it and then repeats the result's text.
pub(crate) async fn asked(app: &TestApp, arguments: Value) -> (Uuid, Value) {
    let agent = app.agent("clerk", &["refund"]).await;
    app.model
        .script([Reply::tool("refund", arguments), Reply::text("Done.")]);
    let posted = app
        .client()
        .post_message(json!({"agentDefinitionId": agent, "message": "refund order A-7"}))
        .await;
    (agent, posted)
}

/// An MCP client that calls the tool, and its response.
pub(crate) async fn asked_by_mcp(app: &TestApp) -> JoinHandle<String> {
    let ask = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "refund", "arguments": {"order": "A-7"}},
    });
    let post = |message: &Value| {
        let request = app.client().request(reqwest::Method::POST, "/mcp");
        request
            .header("accept", "application/json, text/event-stream")
            .json(message)
    };
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let session = post(&hello).send().await.unwrap().headers()["mcp-session-id"].clone();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    post(&initialized)
        .header("mcp-session-id", &session)
        .send()
        .await
        .unwrap();
    let request = post(&ask).header("mcp-session-id", &session);
    tokio::spawn(async move { request.send().await.expect("an answer").text().await.expect("a text") })
}

/// Waits until the run of a call that has begun is in this state, with this number of jobs in slots.
pub(crate) async fn wait_for_state(app: &TestApp, call: &Value, state: &str, jobs: i64) {
    support::wait_for("the state of the run", async || {
        let found: (String, String, i64) = sqlx::query_as(
            "select c.status, r.state, (select count(*) from queue.jobs where kind = 'run' and state = 'running')
             from kb.agent_run_tool_calls c join kb.agent_runs r on r.id = c.run_id where c.id = $1::uuid",
        )
        .bind(call["id"].as_str().unwrap())
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
        (found == ("running".to_owned(), state.to_owned(), jobs)).then_some(())
    })
    .await;
}

/// The events of a run, to its end.
pub(crate) async fn events_of(app: &TestApp, posted: &Value) -> Vec<Value> {
    let run = posted["runId"].as_str().expect("a run");
    json_of(
        &app.client()
            .stream(&format!("/api/runs/{run}/events"))
            .await
            .rest()
            .await,
    )
}

/// What the model was given as the result of the call.
pub(crate) fn result_for_model(app: &TestApp) -> String {
    let requests = app.model.requests();
    let messages = requests.last().expect("a request")["messages"]
        .as_array()
        .cloned()
        .expect("messages");
    let result = messages
        .iter()
        .rfind(|message| message["role"] == "tool")
        .expect("a result");
    result["content"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn an_agent_calls_a_tool_of_a_program() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    assert_eq!(call["tool"], "refund");
    assert_eq!(call["version"], "1");
    assert_eq!(call["input"], json!({"order": "A-7"}));
    assert_eq!(call["attempt"], 1);
    assert_eq!(call["idempotencyKey"], call["id"]);
    assert_eq!(call["runId"], posted["runId"]);
    assert_eq!(call["conversationId"], posted["conversationId"]);
    assert_eq!(call["checkpoint"], Value::Null);
    // It is on record, and its run soon takes no slot.
    wait_for_state(&app, &call, "waiting", 0).await;

    let (status, answer) = program.complete(&call, json!({"refunded": 12.5})).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"status": "completed"})));
    let events = events_of(&app, &posted).await;
    let ends = of_kind(&events, "mcp_tool");
    assert_eq!(ends.len(), 2, "{ends:?}");
    assert_eq!(ends[0]["status"], "started");
    assert_eq!(ends[1]["result"], json!({"refunded": 12.5}));
    assert_eq!(result_for_model(&app), r#"{"refunded":12.5}"#);

    // Repeating it has the same response, and no further effect.
    let (status, answer) = program.complete(&call, json!({"refunded": 99})).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"status": "completed"})));
    assert!(program.claim(1, 0).await.is_empty());
    let left: i64 = sqlx::query_scalar("select count(*) from queue.jobs where kind = 'remote_call'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_call_outlives_the_api_and_the_workers() {
    let mut app = TestApp::start().await;
    let mut program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    app.crash_workers();
    app.restart_api().await;
    program.client = app.client();
    let (status, _) = program.complete(&call, json!("gone")).await;
    assert_eq!(status, StatusCode::OK);
    app.add_worker();
    let run = posted["runId"].as_str().unwrap();
    let frames = app
        .client()
        .stream(&format!("/api/runs/{run}/events"))
        .await
        .rest()
        .await;
    assert_eq!(text(&frames), "Done.");
    assert_eq!(result_for_model(&app), r#""gone""#);
}

#[tokio::test]
async fn calls_of_one_step_are_handed_out_together() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund"), tool("notify")])).await;
    let agent = app.agent("clerk", &["refund", "notify"]).await;
    app.model.script([
        Reply::tools([
            ("refund", json!({"order": "1"})),
            ("notify", json!({"order": "2"})),
            ("refund", json!({"order": "3"})),
        ]),
        Reply::text("Done."),
    ]);
    let posted = app
        .client()
        .post_message(json!({"agentDefinitionId": agent, "message": "refund all"}))
        .await;
    let mut calls = Vec::new();
    while calls.len() < 3 {
        calls.extend(program.claim(10, 20).await);
    }
    let mut orders: Vec<&str> = calls
        .iter()
        .map(|call| call["input"]["order"].as_str().unwrap())
        .collect();
    orders.sort_unstable();
    assert_eq!(orders, ["1", "2", "3"]);
    for call in calls.iter().rev() {
        let (status, _) = program.complete(call, call["input"]["order"].clone()).await;
        assert_eq!(status, StatusCode::OK);
    }
    let events = events_of(&app, &posted).await;
    let results: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter(|event| event["status"] == "completed")
        .map(|event| &event["result"])
        .collect();
    assert_eq!(results, [&json!("1"), &json!("2"), &json!("3")], "in the model's order");
}

#[tokio::test]
async fn an_mcp_client_calls_a_tool_of_a_program() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let asking = asked_by_mcp(&app).await;
    let call = program.next().await;
    assert_eq!(
        (&call["runId"], &call["input"]),
        (&Value::Null, &json!({"order": "A-7"}))
    );
    program.complete(&call, json!({"refunded": true})).await;
    let answer = asking.await.unwrap();
    assert!(answer.contains(r#""structuredContent":{"refunded":true}"#), "{answer}");
}

#[tokio::test]
async fn a_claim_waits_and_shows_that_its_worker_lives() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let asked = tokio::time::Instant::now();
    assert!(program.claim(1, 1).await.is_empty());
    assert!(asked.elapsed() >= std::time::Duration::from_secs(1));
    let workers = support::wait_for("the worker", async || {
        let (_, workers) = app.client().get("/api/workers").await;
        workers["items"].as_array().filter(|items| items.len() == 1).cloned()
    })
    .await;
    assert_eq!(workers[0]["alive"], true);
    assert_eq!(workers[0]["tools"], json!(["refund@1"]));
    assert_eq!(workers[0]["calls"], 0);
}
