//! Events that programs emit while they work: readers get each once, in order with the text, and nothing of what a lost step has emitted.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{apply_resets, json_of, of_kind, text};
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::agents::{clerk, path_of, turn};
use super::durable::{done, is, is_refused};
use super::outcomes::is_stale;
use super::{Program, asked, asked_by_mcp, hasty, tool, tool_with, wait_for_state};

impl Program {
    /// Emits an event. Step 0: outside of steps.
    async fn emit(&self, call: &Value, step: i32, piece: i32, event: Value) -> (StatusCode, Value) {
        let body = json!({"step": step, "piece": piece, "event": event});
        self.about(call, "text", body).await
    }
}

fn progress(done: i32) -> Value {
    json!({"name": "progress", "data": {"done": done}})
}

/// What a reader of the whole run keeps, in order: its text, and the names and data of the events of programs.
async fn kept(app: &TestApp, posted: &Value) -> Vec<Value> {
    let frames = app.client().stream(&path_of(posted)).await.rest().await;
    let mut kept: Vec<Value> = Vec::new();
    for event in json_of(&apply_resets(&frames)) {
        if event["type"] == "custom" {
            kept.push(json!([event["name"], event["data"]]));
        } else if let Some(token) = event["token"].as_str() {
            match kept.last_mut() {
                Some(Value::String(text)) => text.push_str(token),
                _ => kept.push(json!(token)),
            }
        }
    }
    kept
}

#[tokio::test]
async fn readers_get_an_event_of_an_agent_in_order_with_its_text() {
    let app = TestApp::start().await;
    let (program, agent) = clerk(&app).await;
    let (posted, call) = turn(&app, &program, &agent).await;
    let mut reader = app.client().stream(&path_of(&posted)).await;
    is(
        program
            .emit(&call, 0, 1, json!({"name": "a.b_c:d-1", "data": null}))
            .await,
        "running",
    );
    let event = reader.until("custom").await.last().expect("a frame").json();
    assert_eq!(
        event,
        json!({"type": "custom", "name": "a.b_c:d-1", "data": null, "runId": posted["runId"]})
    );
    is(program.write(&call, 1, 1, "One ").await, "running");
    is(program.emit(&call, 1, 2, progress(1)).await, "running");
    // A repeated request publishes nothing.
    is(program.emit(&call, 1, 2, progress(1)).await, "running");
    is(program.write(&call, 1, 3, "two").await, "running");
    is(program.record(&call, done(1, "answer", "")).await, "running");
    is(program.emit(&call, 1, 2, progress(1)).await, "running");
    is(program.emit(&call, 0, 2, progress(2)).await, "running");
    program.complete(&call, json!(null)).await;
    assert_eq!(
        kept(&app, &posted).await,
        [
            json!(["a.b_c:d-1", null]),
            json!("One "),
            json!(["progress", {"done": 1}]),
            json!("two"),
            json!(["progress", {"done": 2}])
        ]
    );
    // A reader that was disconnected before an event goes on with it.
    let seen = reader.until("custom").await;
    let last = seen.last().expect("a frame").id.expect("a number");
    let path = format!("{}?after={}", path_of(&posted), last - 1);
    let rest = json_of(&app.client().stream(&path).await.rest().await);
    assert_eq!(of_kind(&rest, "custom").len(), 2, "{rest:?}");
}

#[tokio::test]
async fn what_a_lost_step_of_an_agent_has_emitted_is_discarded() {
    let app = hasty().await;
    let (program, agent) = clerk(&app).await;
    let (posted, call) = turn(&app, &program, &agent).await;
    is(
        program.emit(&call, 0, 1, json!({"name": "begun", "data": {}})).await,
        "running",
    );
    is(program.emit(&call, 1, 1, progress(1)).await, "running");
    is(program.record(&call, done(1, "look up", "")).await, "running");
    is(program.emit(&call, 2, 1, progress(2)).await, "running");
    is(program.write(&call, 2, 2, "Half").await, "running");

    let again = program.next().await;
    is_stale(program.emit(&call, 2, 3, progress(3)).await);
    // The function begins again: what it emits outside of steps is there already.
    is(
        program.emit(&again, 0, 1, json!({"name": "begun", "data": {}})).await,
        "running",
    );
    is(program.emit(&again, 2, 1, progress(2)).await, "running");
    is(program.write(&again, 2, 2, "Whole.").await, "running");
    program.heartbeat(&[&again]).await;
    is(program.record(&again, done(2, "answer", "")).await, "running");
    // A step that fails.
    is(program.emit(&again, 3, 1, progress(99)).await, "running");
    let failed = json!({"number": 3, "name": "fail", "status": "error", "error": "no"});
    is(program.record(&again, failed).await, "running");
    program.complete(&again, json!(null)).await;
    assert_eq!(
        kept(&app, &posted).await,
        [
            json!(["begun", {}]),
            json!(["progress", {"done": 1}]),
            json!(["progress", {"done": 2}]),
            json!("Whole.")
        ]
    );
}

#[tokio::test]
async fn a_tool_of_another_agent_emits_too() {
    let app = hasty().await;
    let idempotent = tool_with("refund", json!({"idempotent": true}));
    let program = Program::register(app.client(), json!([idempotent])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let mut reader = app.client().stream(&path_of(&posted)).await;
    is(program.emit(&call, 0, 1, progress(1)).await, "running");
    let event = reader.until("custom").await.last().expect("a frame").json();
    assert_eq!(
        event,
        json!({"type": "custom", "name": "progress", "data": {"done": 1}, "callId": call["callId"], "runId": posted["runId"]})
    );
    // Several steps may emit at the same time.
    is(program.emit(&call, 1, 1, progress(2)).await, "running");
    is(program.emit(&call, 2, 1, progress(3)).await, "running");
    is_refused(program.write(&call, 1, 2, "a").await, StatusCode::CONFLICT, "no_answer");

    // A lost program: the function begins again, and what it has emitted stays.
    let again = program.next().await;
    for (step, data) in [(0, 1), (1, 2), (2, 3)] {
        is(program.emit(&again, step, 1, progress(data)).await, "running");
    }
    program.heartbeat(&[&again]).await;
    is(program.emit(&again, 2, 2, progress(4)).await, "running");
    program.complete(&again, json!({"refunded": true})).await;
    assert_eq!(
        kept(&app, &posted).await,
        [
            json!(["progress", {"done": 1}]),
            json!(["progress", {"done": 2}]),
            json!(["progress", {"done": 3}]),
            json!(["progress", {"done": 4}]),
            json!("Done.")
        ]
    );
    is_stale(program.emit(&again, 2, 3, progress(5)).await);
}

#[tokio::test]
async fn an_event_stays_when_the_worker_is_lost_that_holds_the_run() {
    let mut app = TestApp::with(AppOptions {
        worker: |config| config.remote_hold_ms = 60_000,
        ..AppOptions::default()
    })
    .await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    wait_for_state(&app, &call, "running", 1).await;
    is(program.emit(&call, 0, 1, progress(1)).await, "running");
    app.crash_workers();
    is(program.emit(&call, 0, 2, progress(2)).await, "running");
    app.add_worker();
    program.complete(&call, json!("once")).await;
    let frames = app.client().stream(&path_of(&posted)).await.rest().await;
    assert_eq!(text(&frames), "Done.");
    assert_eq!(
        kept(&app, &posted).await,
        [
            json!(["progress", {"done": 1}]),
            json!(["progress", {"done": 2}]),
            json!("Done.")
        ]
    );
}

#[tokio::test]
async fn calls_of_one_step_keep_their_events_apart() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund"), tool("notify")])).await;
    let agent = app.agent("clerk", &["refund", "notify"]).await;
    app.model.script([
        Reply::tools([("refund", json!({"order": "1"})), ("notify", json!({"order": "2"}))]),
        Reply::text("Done."),
    ]);
    let message = json!({"agentDefinitionId": agent, "message": "refund both"});
    let posted = app.client().post_message(message).await;
    let mut calls = Vec::new();
    while calls.len() < 2 {
        calls.extend(program.claim(10, 20).await);
    }
    for call in &calls {
        is(program.emit(call, 1, 1, progress(1)).await, "running");
    }
    let (status, _) = program.about(&calls[0], "failure", json!({"error": "no"})).await;
    assert_eq!(status, StatusCode::OK);
    is(program.emit(&calls[1], 1, 2, progress(2)).await, "running");
    program.complete(&calls[1], json!("ok")).await;
    let frames = app.client().stream(&path_of(&posted)).await.rest().await;
    let events = json_of(&apply_resets(&frames));
    let of_calls: Vec<(&Value, &Value)> = of_kind(&events, "custom")
        .into_iter()
        .map(|event| (&event["callId"], &event["data"]["done"]))
        .collect();
    assert_eq!(
        of_calls,
        [
            (&calls[0]["callId"], &json!(1)),
            (&calls[1]["callId"], &json!(1)),
            (&calls[1]["callId"], &json!(2))
        ]
    );
}

#[tokio::test]
async fn a_bad_event_is_refused() {
    let app = TestApp::start().await;
    let (program, agent) = clerk(&app).await;
    let (_, call) = turn(&app, &program, &agent).await;
    let bad = StatusCode::BAD_REQUEST;
    for name in ["", "a b", "größe", "a/b", &*"x".repeat(65)] {
        let event = json!({"name": name, "data": 1});
        is_refused(program.emit(&call, 1, 1, event).await, bad, "invalid_event");
    }
    for (step, piece) in [(-1, 1), (1_001, 1), (1, 0), (1, 100_001)] {
        is_refused(
            program.emit(&call, step, piece, progress(1)).await,
            bad,
            "invalid_event",
        );
    }
    let large = json!({"name": "large", "data": "x".repeat(256 * 1024)});
    is_refused(
        program.emit(&call, 1, 1, large).await,
        StatusCode::PAYLOAD_TOO_LARGE,
        "event_too_large",
    );
    // One of the two.
    let both = json!({"step": 1, "piece": 1, "text": "a", "event": progress(1)});
    is_refused(program.about(&call, "text", both).await, bad, "invalid_text");
    let none = json!({"step": 1, "piece": 1});
    is_refused(program.about(&call, "text", none).await, bad, "invalid_text");
    // Text belongs to a step.
    is_refused(program.write(&call, 0, 1, "a").await, bad, "invalid_text");

    let conflict = StatusCode::CONFLICT;
    is_refused(program.emit(&call, 1, 2, progress(1)).await, conflict, "piece_missing");
    is(program.emit(&call, 1, 1, progress(1)).await, "running");
    // While a step of an agent writes, nothing is emitted beside it: a reset would discard that, too.
    is_refused(
        program.emit(&call, 0, 1, progress(1)).await,
        conflict,
        "other_step_writes",
    );
    is_refused(
        program.emit(&call, 2, 1, progress(1)).await,
        conflict,
        "other_step_writes",
    );
    is(program.record(&call, done(1, "answer", "")).await, "running");
    is_refused(program.emit(&call, 1, 2, progress(1)).await, conflict, "step_ended");
    program.complete(&call, json!("done")).await;
    is_stale(program.emit(&call, 0, 1, progress(1)).await);
}

#[tokio::test]
async fn a_call_without_a_run_has_no_readers() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let asking = asked_by_mcp(&app).await;
    let call = program.next().await;
    is_refused(
        program.emit(&call, 0, 1, progress(1)).await,
        StatusCode::CONFLICT,
        "no_run",
    );
    program.complete(&call, json!("ok")).await;
    asking.await.unwrap();
}
