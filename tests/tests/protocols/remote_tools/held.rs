//! Runs that keep their slot while a program executes their calls: they go on without another attempt, and lose nothing if their worker is lost.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::of_kind;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Program, asked, events_of, result_for_model, tool, wait_for_state};

/// An app whose runs are held for as long as a test takes.
async fn holding() -> TestApp {
    TestApp::with(AppOptions {
        worker: |config| config.remote_hold_ms = 60_000,
        ..AppOptions::default()
    })
    .await
}

/// The attempt of the run, and how often the model was asked.
async fn effort(app: &TestApp, posted: &Value) -> (i32, usize) {
    let attempt = sqlx::query_scalar("select attempt from kb.agent_runs where id = $1::uuid")
        .bind(posted["runId"].as_str().unwrap())
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    (attempt, app.model.requests().len())
}

#[tokio::test]
async fn a_quick_call_needs_no_other_attempt_of_its_run() {
    let app = holding().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    wait_for_state(&app, &call, "running", 1).await;
    program.complete(&call, json!({"refunded": 12.5})).await;
    let events = events_of(&app, &posted).await;
    let calls: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .map(|event| &event["status"])
        .collect();
    assert_eq!(calls, ["started", "completed"]);
    assert!(of_kind(&events, "agent_state").is_empty(), "it has not waited");
    assert_eq!(result_for_model(&app), r#"{"refunded":12.5}"#);
    assert_eq!(effort(&app, &posted).await, (1, 2));
}

#[tokio::test]
async fn a_slow_call_suspends_its_run() {
    let app = TestApp::with(AppOptions {
        worker: |config| config.remote_hold_ms = 1,
        ..AppOptions::default()
    })
    .await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    wait_for_state(&app, &call, "waiting", 0).await;
    program.complete(&call, json!("late")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""late""#);
    assert_eq!(effort(&app, &posted).await, (2, 2));
}

#[tokio::test]
async fn a_call_that_begins_in_a_confirmed_step_holds_its_run() {
    let app = holding().await;
    let program = Program::register(
        app.client(),
        json!([super::tool_with("refund", json!({"confirm": true}))]),
    )
    .await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let question = support::wait_for("the question", async || {
        let (_, questions) = app.client().get("/api/questions?status=pending").await;
        questions["items"].as_array().and_then(|items| items.first().cloned())
    })
    .await;
    let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    let (status, _) = app.client().post(&path, json!({"answer": "approve"})).await;
    assert!(status.is_success(), "{status}");
    let call = program.next().await;
    wait_for_state(&app, &call, "running", 1).await;
    program.complete(&call, json!("yes")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""yes""#);
    // The second by the answer.
    assert_eq!(effort(&app, &posted).await, (2, 2));
}

#[tokio::test]
async fn a_worker_that_is_lost_while_it_holds_a_run_loses_no_call() {
    let mut app = holding().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    app.crash_workers();
    app.add_worker();
    program.complete(&call, json!("once")).await;
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "done")[0]["status"], "completed");
    assert_eq!(result_for_model(&app), r#""once""#);
    assert_eq!(effort(&app, &posted).await, (2, 2));
    assert!(program.claim(1, 0).await.is_empty(), "it is not handed out again");
}

#[tokio::test]
async fn a_draining_worker_hands_over_the_runs_that_it_holds() {
    let mut app = holding().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    wait_for_state(&app, &call, "running", 1).await;
    let worker = app.workers.remove(0);
    app.add_worker();
    worker.drain().await;
    wait_for_state(&app, &call, "waiting", 0).await;
    program.complete(&call, json!("later")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""later""#);
}

#[tokio::test]
async fn cancelling_a_held_run_reaches_the_program() {
    let app = holding().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    wait_for_state(&app, &call, "running", 1).await;
    let run = posted["runId"].as_str().unwrap();
    let (status, _) = app.client().post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    assert!(status.is_success(), "{status}");
    assert_eq!(program.heartbeat(&[&call]).await["cancelled"], json!([call["id"]]));
    super::outcomes::is_stale(program.complete(&call, json!("too late")).await);
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "done")[0]["status"], "cancelled");
    let end = of_kind(&events, "mcp_tool").pop().expect("an end");
    assert_eq!(end["status"], "error", "what was started has an end");
}

#[tokio::test]
async fn a_held_run_asks_what_its_call_asks() {
    let app = holding().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    wait_for_state(&app, &call, "running", 1).await;
    let step = json!({"number": 1, "name": "sure", "wait": {"kind": "question", "question": "Are you sure?"}});
    let (status, answer) = program.about(&call, "suspension", json!({"steps": [step]})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    // At once, not when the run is held no longer.
    let question = support::wait_for("the question", async || {
        let (_, questions) = app.client().get("/api/questions?status=pending").await;
        questions["items"].as_array().and_then(|items| items.first().cloned())
    })
    .await;
    assert_eq!(question["question"], "Are you sure?");
    let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    app.client().post(&path, json!({"answer": "yes"})).await;
    let again = program.next().await;
    program.complete(&again, json!("asked")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""asked""#);
}

#[tokio::test]
async fn each_quick_call_of_a_step_is_awaited() {
    let app = holding().await;
    let program = Program::register(app.client(), json!([tool("refund"), tool("notify")])).await;
    let agent = app.agent("clerk", &["refund", "notify"]).await;
    app.model.script([
        Reply::tools([("refund", json!({"order": "1"})), ("notify", json!({"order": "2"}))]),
        Reply::text("Done."),
    ]);
    let posted = app
        .client()
        .post_message(json!({"agentDefinitionId": agent, "message": "refund both"}))
        .await;
    let mut calls = Vec::new();
    while calls.len() < 2 {
        calls.extend(program.claim(10, 20).await);
    }
    program.complete(&calls[1], calls[1]["input"]["order"].clone()).await;
    let (status, _) = program.about(&calls[0], "failure", json!({"error": "no"})).await;
    assert_eq!(status, StatusCode::OK);
    let events = events_of(&app, &posted).await;
    assert_eq!(of_kind(&events, "mcp_tool").len(), 4);
    assert_eq!(effort(&app, &posted).await, (1, 2));
}
