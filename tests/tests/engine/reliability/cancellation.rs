//! Effects of a cancellation on a run that executes, that waits between attempts, or that no worker has claimed.

use std::sync::Arc;

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Frame, apply_resets, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::tools::{Ledger, Payment};
use rejoin_tools::registry::Registry;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use super::crash::{done, log};
use rejoin_tests::support;

/// Invariant I13.
#[tokio::test]
async fn a_cancelled_run_stops_at_the_next_await_and_starts_no_tool() {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let tools = Registry::new([Payment::shared(&ledger, &gate, false)]);
    let app = TestApp::with(AppOptions {
        tools,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let agent = app.agent("payer", &["pay"]).await;
    // During text.
    app.model.script([Reply::hang_after(3)]);
    let posted = client
        .post_message(json!({"message": "talk", "agentDefinitionId": agent}))
        .await;
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let mut reader = client.stream(&path).await;
    let mut frames = reader.until("token").await;
    let cancel = format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap());
    for _ in 0..2 {
        let (status, body) = client.post(&cancel, json!({})).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    }
    frames.extend(reader.rest().await);
    assert_eq!(done(&frames)["status"], "cancelled");
    // During a tool call, with another one pending.
    app.model.script([Reply::tools([
        ("pay", json!({"amount": 1})),
        ("pay", json!({"amount": 2})),
    ])]);
    let posted = client
        .post_message(json!({"message": "pay", "agentDefinitionId": agent}))
        .await;
    support::wait_for("the call to act", async || (ledger.entries().len() == 1).then_some(())).await;
    let (status, _) = client
        .post(
            &format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap()),
            json!({}),
        )
        .await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let frames = log(&app, &posted).await;
    assert_eq!(done(&frames)["status"], "cancelled");
    assert_eq!(ledger.entries().len(), 1, "the second call never started");
    app.wait_until_idle().await;
}

#[tokio::test]
async fn cancelling_between_attempts_ends_the_call_shown_to_readers() {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let tools = Registry::new([Payment::shared(&ledger, &gate, true)]);
    let mut app = TestApp::with(AppOptions {
        tools,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("payer", &["pay"]).await;
    app.model.script([Reply::tool("pay", json!({"amount": 5}))]);
    let posted = app
        .client()
        .post_message(json!({"message": "pay", "agentDefinitionId": agent}))
        .await;
    support::wait_for("the call to act", async || (ledger.entries().len() == 1).then_some(())).await;
    app.crash_workers();
    let cancel = format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap());
    let (status, _) = app.client().post(&cancel, json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    app.add_worker();
    let frames = log(&app, &posted).await;
    let kept: Vec<Value> = apply_resets(&frames).iter().map(Frame::json).collect();
    let statuses: Vec<&Value> = kept
        .iter()
        .filter(|e| e["type"] == "mcp_tool")
        .map(|e| &e["status"])
        .collect();
    assert_eq!(statuses, ["started", "error"]);
    assert_eq!(done(&frames)["status"], "cancelled");
    assert_eq!(ledger.entries().len(), 1, "a cancelled run repeats nothing");
    app.wait_until_idle().await;
}

#[tokio::test]
async fn a_queued_run_is_cancelled_without_any_worker() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let first = client.post_message(json!({"message": "one"})).await;
    let second = client
        .post_message(json!({"message": "two", "conversationId": first["conversationId"]}))
        .await;
    for posted in [&second, &first] {
        client
            .post(
                &format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap()),
                json!({}),
            )
            .await;
        let frames = log(&app, posted).await;
        assert_eq!(done(&frames)["status"], "cancelled");
    }
    app.wait_until_idle().await;
}

#[tokio::test]
async fn onbusy_enqueue_waits_reject_refuses_and_interrupt_cancels() {
    let app = TestApp::start().await;
    let client = app.client();
    let gate = Arc::new(Notify::new());
    app.model.on("one", [Reply::text("first answer").gate(gate.clone())]);
    app.model.on("two", [Reply::text("second answer")]);
    let first = client.post_message(json!({"message": "one"})).await;
    let path = format!(
        "/api/conversations/{}/events",
        first["conversationId"].as_str().unwrap()
    );
    let mut reader = client.stream(&path).await;
    let mut frames = reader.until("token").await;
    let conversation = first["conversationId"].clone();
    let body = |message: &str| json!({"message": message, "conversationId": conversation});
    let (status, problem) = client.post("/api/chat/stream?onBusy=reject", body("no")).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    client.post_message(body("two")).await;
    gate.notify_one();
    frames.extend(reader.until("done").await);
    frames.extend(reader.until("done").await);
    let order: Vec<String> = frames
        .iter()
        .map(Frame::json)
        .filter(|event| event["type"] == "message")
        .map(|event| event["message"]["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(order, ["one", "two", "first answer", "second answer"]);
    // The second turn included the first one's answer.
    let asked = app.model.requests()[1]["messages"].to_string();
    assert!(asked.contains("first answer"), "{asked}");

    app.model.on("three", [Reply::hang_after(1)]);
    app.model.on("four", [Reply::text("fourth answer")]);
    client.post_message(body("three")).await;
    reader.until("token").await;
    let request = client
        .request(Method::POST, "/api/chat/stream?onBusy=interrupt")
        .header("accept", "application/json")
        .json(&body("four"));
    assert_eq!(request.send().await.unwrap().status(), StatusCode::ACCEPTED);
    let interrupted = reader.until("done").await;
    assert_eq!(done(&interrupted)["status"], "cancelled");
    let fourth = reader.until("done").await;
    assert_eq!(text(&fourth), "fourth answer");
}
