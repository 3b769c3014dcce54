//! The protocol's revision without a handshake, in both directions, and runs as tasks.

use rejoin_secrets::MasterKeys;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::mcp::{self, HttpServer, Shop, lines};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::{set_secret, wait_for};
use reqwest::StatusCode;
use serde_json::{Value, json};

const REVISION: &str = "2026-07-28";

#[tokio::test]
async fn a_server_of_the_newest_revision_is_used_without_handshake() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let http = HttpServer::modern().await;
    let server = shop
        .add(json!({"name": "modern", "transport": "http", "url": http.url}))
        .await;
    let agent = shop.app.agent("user", &["modern_*"]).await;
    let sum = shop.call(agent, "modern_add", json!({"a": 2, "b": 40})).await;
    assert_eq!(sum.status, "completed", "{sum:?}");
    assert!(sum.output.to_string().contains("42"), "{sum:?}");
    assert_eq!(shop.server(&server).await["serverInfo"]["protocolVersion"], REVISION);

    // It is subscribed to changes of the list. A new tool waits for its approval.
    assert_eq!(shop.call(agent, "modern_grow", json!({})).await.status, "completed");
    wait_for("the new tool", async || {
        let offered = shop.server(&server).await["offered"].clone();
        let mut offered = offered.as_array().unwrap().iter();
        offered
            .any(|tool| tool["name"] == "grown" && tool["standing"] == "new")
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_of_the_oldest_revision_is_used_by_its_transport() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let http = HttpServer::by_events().await;
    let server = shop
        .add(json!({"name": "old", "transport": "http", "url": http.url}))
        .await;
    let agent = shop.app.agent("user", &["old_*"]).await;
    for _ in 0..2 {
        let sum = shop.call(agent, "old_add", json!({"a": 2, "b": 40})).await;
        assert_eq!(sum.status, "completed", "{sum:?}");
        assert!(sum.output.to_string().contains("42"), "{sum:?}");
    }
    assert!(shop.server(&server).await["serverInfo"]["protocolVersion"].is_string());
    drop(http);
    let failed = shop.call(agent, "old_add", json!({"a": 1, "b": 1})).await;
    assert_eq!(failed.status, "error", "{failed:?}");
}

#[tokio::test]
async fn a_process_that_refuses_the_handshake_is_started_again() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let ledger = mcp::ledger();
    let server = shop
        .add(json!({"name": "newest", "command": "newest", "env": {"LEDGER": ledger}}))
        .await;
    let agent = shop.app.agent("user", &["newest_*"]).await;
    let sum = shop.call(agent, "newest_add", json!({"a": 2, "b": 40})).await;
    assert_eq!(sum.status, "completed", "{sum:?}");
    assert!(sum.output.to_string().contains("42"), "{sum:?}");
    assert_eq!(lines(&ledger)[..2], ["initialize", "server/discover"]);
    assert_eq!(shop.server(&server).await["serverInfo"]["protocolVersion"], REVISION);
}

/// An app whose own `/mcp` is one of its servers, with the tool `ask_agent`.
async fn app_that_uses_itself() -> (TestApp, uuid::Uuid) {
    let app = TestApp::with(AppOptions {
        worker: mcp::allow,
        api: |config| config.mcp_commands.mcp_commands_file = Some(mcp::commands_file()),
        ..AppOptions::default()
    })
    .await;
    let servers = format!("/api/admin/projects/{}/mcp-servers", app.db.workspace_id);
    let keys = MasterKeys::parse(mcp::SECRET_KEYS).unwrap();
    set_secret(&app.db, &keys, "SELF_KEY", &app.db.api_key).await;
    let headers = json!({"Authorization": "Bearer ${SELF_KEY}"});
    let server = json!({"name": "self", "transport": "http", "url": format!("{}/mcp", app.url()), "headers": headers});
    let (status, added) = app.client().post(&servers, server).await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    app.agent("helper", &[]).await;
    let boss = app.agent("boss", &["self_ask_agent"]).await;
    (app, boss)
}

#[tokio::test]
async fn a_call_that_becomes_a_task_is_waited_for() {
    if !mcp::are_there() {
        return;
    }
    let (app, boss) = app_that_uses_itself().await;
    let arguments = json!({"message": "how deep?", "agent": "helper", "conversation_id": null});
    app.model.on(
        "ask the helper",
        [Reply::tool("self_ask_agent", arguments), Reply::text("done")],
    );
    app.model.on("how deep?", [Reply::text("Ten metres.")]);
    let frames = app.client().ask(Some(boss), "ask the helper").await;
    assert_eq!(frames.last().unwrap().json()["status"], "completed");
    let output: Value =
        sqlx::query_scalar("select output from kb.agent_run_tool_calls where tool_name = 'self_ask_agent'")
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
    assert!(output.to_string().contains("Ten metres."), "{output}");
}

#[tokio::test]
async fn the_question_of_a_task_is_put_to_its_callers_user() {
    if !mcp::are_there() {
        return;
    }
    let (app, boss) = app_that_uses_itself().await;
    app.agent("sailor", &["ask_user"]).await;
    let arguments = json!({"message": "how deep?", "agent": "sailor", "conversation_id": null});
    app.model.on(
        "ask the sailor",
        [Reply::tool("self_ask_agent", arguments), Reply::text("done")],
    );
    let question = json!({"question": "Which sea?", "options": []});
    app.model.on(
        "how deep?",
        [Reply::tool("ask_user", question), Reply::text("Ten metres.")],
    );
    let client = app.client();
    let posted = client
        .post_message(json!({"agentDefinitionId": boss, "message": "ask the sailor"}))
        .await;
    let asked = wait_for("the question to the caller's user", async || {
        let (_, open) = client.get("/api/questions?status=pending").await;
        let open = open["items"].as_array().unwrap().clone();
        let of_boss = |question: &Value| question["runId"] == posted["runId"];
        open.into_iter().find(of_boss)
    })
    .await;
    assert_eq!(asked["question"], "The MCP server self asks: Which sea?", "{asked}");
    let answer = format!("/api/questions/{}/answer", asked["id"].as_str().unwrap());
    let (status, answered) = client.post(&answer, json!({"answer": "The Baltic."})).await;
    assert_eq!(status, StatusCode::OK, "{answered}");
    let events = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let frames = client.stream(&events).await.rest().await;
    assert_eq!(frames.last().unwrap().json()["status"], "completed");
    let output: Value =
        sqlx::query_scalar("select output from kb.agent_run_tool_calls where tool_name = 'self_ask_agent'")
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
    assert!(output.to_string().contains("Ten metres."), "{output}");
    let given: Value = sqlx::query_scalar("select output from kb.agent_run_tool_calls where tool_name = 'ask_user'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(given, json!({"answer": "The Baltic."}));
}

#[tokio::test]
async fn a_cancelled_run_cancels_the_task_of_its_call() {
    if !mcp::are_there() {
        return;
    }
    let (app, boss) = app_that_uses_itself().await;
    let arguments = json!({"message": "how deep?", "agent": "helper", "conversation_id": null});
    app.model
        .on("ask the helper", [Reply::tool("self_ask_agent", arguments)]);
    app.model.on("how deep?", [Reply::hang_after(3)]);
    let posted = app
        .client()
        .post_message(json!({"agentDefinitionId": boss, "message": "ask the helper"}))
        .await;
    let state = async |input: &str| -> Option<String> {
        sqlx::query_scalar("select state from kb.agent_runs where input = $1")
            .bind(input)
            .fetch_optional(&app.db.pool)
            .await
            .unwrap()
    };
    wait_for("the helper to work", async || {
        (state("how deep?").await.as_deref() == Some("running")).then_some(())
    })
    .await;
    let cancel = format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap());
    let (status, _) = app.client().post(&cancel, json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    wait_for("the helper's end", async || {
        (state("how deep?").await.as_deref() == Some("cancelled")).then_some(())
    })
    .await;
}

/// A request as a client of the newest revision sends it: with what it supports, and without a session.
async fn call(app: &TestApp, method: &str, mut params: Value) -> Value {
    let capabilities = json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let mut request = app
        .client()
        .request(reqwest::Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", REVISION)
        .header("mcp-method", method);
    if let Some(name) = params["name"].as_str().or(params["taskId"].as_str()) {
        request = request.header("mcp-name", name);
    }
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let text = request.json(&message).send().await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("data: {"));
    let answer = line.map_or(text.clone(), |rest| format!("{{{rest}"));
    serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{text}"))
}

async fn asks(app: &TestApp, agent: &str) -> Value {
    let arguments = json!({"message": "Paint it", "agent": agent});
    let created = call(app, "tools/call", json!({"name": "ask_agent", "arguments": arguments})).await;
    assert_eq!(created["result"]["resultType"], "task", "{created:#}");
    created["result"]["taskId"].clone()
}

async fn until(app: &TestApp, task: &Value, status: &str) -> Value {
    wait_for(status, async || {
        let state = call(app, "tasks/get", json!({"taskId": task})).await["result"].clone();
        (state["status"] == status).then_some(state)
    })
    .await
}

#[tokio::test]
async fn a_run_is_a_task_with_its_questions_and_result() {
    let app = TestApp::start().await;
    app.agent("asker", &["ask_user"]).await;
    let options = json!([{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}]);
    let question = json!({"question": "Which colour?", "options": options});
    app.model
        .script([Reply::tool("ask_user", question), Reply::text("Blue it is.")]);
    let task = asks(&app, "asker").await;
    let state = until(&app, &task, "input_required").await;
    let requests = state["inputRequests"].as_object().unwrap();
    let (id, request) = requests.iter().next().expect("a request");
    assert_eq!(request["params"]["message"], "Which colour?", "{state:#}");
    let answer = json!({ id: {"action": "accept", "content": {"answer": "blue"}} });
    let updated = call(&app, "tasks/update", json!({"taskId": task, "inputResponses": answer})).await;
    assert!(updated["error"].is_null(), "{updated:#}");
    let state = until(&app, &task, "completed").await;
    assert_eq!(
        state["result"]["structuredContent"]["reply"], "Blue it is.",
        "{state:#}"
    );
}

#[tokio::test]
async fn a_task_is_cancelled_and_is_its_callers_alone() {
    let app = TestApp::start().await;
    app.agent("slow", &[]).await;
    app.model.script([Reply::hang_after(3)]);
    let task = asks(&app, "slow").await;
    let state = call(&app, "tasks/get", json!({"taskId": task})).await;
    assert_eq!(state["result"]["status"], "working", "{state:#}");
    for unknown in [json!("not one"), json!(rejoin_types::ids::new())] {
        let state = call(&app, "tasks/get", json!({"taskId": unknown})).await;
        assert!(state["error"]["message"].is_string(), "{state:#}");
    }
    let cancelled = call(&app, "tasks/cancel", json!({"taskId": task})).await;
    assert!(cancelled["error"].is_null(), "{cancelled:#}");
    until(&app, &task, "cancelled").await;
}
