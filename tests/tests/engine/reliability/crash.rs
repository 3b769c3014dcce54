//! Effects of a lost or drained worker on a turn: nothing is lost, nothing happens twice.

use std::sync::Arc;
use std::time::Duration;

use rejoin_tests::app::{AppOptions, LEASE, Process, TestApp};
use rejoin_tests::client::{Frame, apply_resets, kinds, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::tools::{Ledger, Payment};
use rejoin_tools::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use uuid::Uuid;

use rejoin_tests::support;

pub(super) fn words(n: usize) -> String {
    (0..n).map(|i| format!("word{i} ")).collect()
}

pub(super) fn done(frames: &[Frame]) -> Value {
    frames.last().expect("frames").json()
}

pub(super) fn seqs(frames: &[Frame]) -> Vec<i64> {
    frames.iter().map(|frame| frame.id.unwrap()).collect()
}

/// The whole log of a posted message's conversation.
pub(super) async fn log(app: &TestApp, posted: &Value) -> Vec<Frame> {
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    app.client().stream(&path).await.rest().await
}

#[tokio::test]
async fn a_worker_crashed_within_text_costs_and_repeats_no_word() {
    let mut app = TestApp::start().await;
    let agent = app.agent("writer", &[]).await;
    let whole = words(40);
    app.model.script([Reply::hang_after(20), Reply::text(&whole)]);
    let posted = app
        .client()
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    let path = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    let mut reader = app.client().stream(&path).await;
    let mut frames = reader.until("token").await;
    app.crash_workers();
    let crashed = Instant::now();
    app.add_worker();
    frames.extend(reader.until("reset").await);
    let resumed_after = crashed.elapsed();
    frames.extend(reader.until("done").await);
    assert!(resumed_after < LEASE + Duration::from_secs(3), "{resumed_after:?}");
    assert_eq!(seqs(&frames), (1..=frames.len() as i64).collect::<Vec<_>>());
    assert_eq!(text(&frames), whole);
    let reset = frames
        .iter()
        .map(Frame::json)
        .find(|event| event["type"] == "reset")
        .unwrap();
    assert_eq!((&reset["attempt"], &reset["discardAfter"]), (&json!(2), &json!(2)));
    assert_eq!(done(&frames)["status"], "completed");
    assert_eq!(
        kinds(&apply_resets(&frames)),
        ["message", "meta", "token", "usage", "message", "done"]
    );
    app.wait_until_idle().await;
}

#[tokio::test]
async fn a_worker_process_killed_within_text_is_taken_over() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("writer", &[]).await;
    let whole = words(30);
    app.model.script([Reply::hang_after(10), Reply::text(&whole)]);
    let victim = Process::worker(&app);
    let posted = app
        .client()
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let mut reader = app.client().stream(&path).await;
    let mut frames = reader.until("token").await;
    victim.kill();
    let _heir = Process::worker(&app);
    frames.extend(reader.rest().await);
    assert_eq!(text(&frames), whole);
    assert_eq!(frames.iter().filter(|frame| frame.kind() == "reset").count(), 1);
    assert_eq!(done(&frames)["status"], "completed");
}

#[tokio::test]
async fn a_killed_workers_run_goes_on_long_before_its_lease_ends() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("writer", &[]).await;
    let whole = words(30);
    app.model.script([Reply::hang_after(10), Reply::text(&whole)]);
    let hour = [
        ("REJOIN_LEASE_MS", "3600000".to_owned()),
        ("REJOIN_HEARTBEAT_MS", "500".to_owned()),
    ];
    let victim = Process::worker_with(&app, &hour);
    support::wait_for("the worker's lock", async || {
        sqlx::query_scalar("select id from queue.workers where session_lock")
            .fetch_optional(&app.db.pool)
            .await
            .unwrap()
            .map(|_: Uuid| ())
    })
    .await;
    let posted = app
        .client()
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let mut reader = app.client().stream(&path).await;
    let mut frames = reader.until("token").await;
    victim.kill();
    let _heir = Process::worker_with(&app, &hour);
    frames.extend(reader.rest().await);
    assert_eq!(text(&frames), whole);
    assert_eq!(frames.iter().filter(|frame| frame.kind() == "reset").count(), 1);
    assert_eq!(done(&frames)["status"], "completed");
}

/// Invariant I7.
#[tokio::test]
async fn a_call_that_may_have_acted_ends_as_outcome_unknown() {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let tools = Registry::new([Payment::shared(&ledger, &gate, false)]);
    let mut app = TestApp::with(AppOptions {
        tools,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("payer", &["pay"]).await;
    app.model.script([
        Reply::tool("pay", json!({"amount": 5})),
        Reply::text("I don't know whether it went through."),
    ]);
    let posted = app
        .client()
        .post_message(json!({"message": "pay", "agentDefinitionId": agent}))
        .await;
    support::wait_for("the call to act", async || (ledger.entries().len() == 1).then_some(())).await;
    app.crash_workers();
    gate.add_permits(10);
    // As if the tool had other arguments by now: it may have acted anyway.
    sqlx::query("update kb.agent_run_tool_calls set input = '{\"sum\": 5}'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    app.add_worker();
    let frames = log(&app, &posted).await;
    assert_eq!(ledger.entries().len(), 1, "it acted once");
    let tools: Vec<Value> = apply_resets(&frames)
        .iter()
        .map(Frame::json)
        .filter(|e| e["type"] == "mcp_tool")
        .collect();
    let statuses: Vec<&Value> = tools.iter().map(|event| &event["status"]).collect();
    assert_eq!(statuses, ["started", "error"]);
    assert!(
        tools[1]["error"].as_str().unwrap().contains("outcome unknown"),
        "{}",
        tools[1]
    );
    let status: String = sqlx::query_scalar("select status from kb.agent_run_tool_calls")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(status, "outcome_unknown");
    assert!(
        app.model.requests()[1]["messages"]
            .to_string()
            .contains("outcome unknown"),
        "the model is told"
    );
    assert_eq!(done(&frames)["status"], "completed");
    assert!(app.model.violations().is_empty());
}

#[tokio::test]
async fn a_repeatable_call_runs_again_and_is_shown_once() {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(0)));
    let tools = Registry::new([Payment::shared(&ledger, &gate, true)]);
    let mut app = TestApp::with(AppOptions {
        tools,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("payer", &["pay"]).await;
    app.model
        .script([Reply::tool("pay", json!({"amount": 5})), Reply::text("paid")]);
    let posted = app
        .client()
        .post_message(json!({"message": "pay", "agentDefinitionId": agent}))
        .await;
    support::wait_for("the call to act", async || (ledger.entries().len() == 1).then_some(())).await;
    app.crash_workers();
    gate.add_permits(10);
    app.add_worker();
    let frames = log(&app, &posted).await;
    assert_eq!(ledger.entries().len(), 2);
    let statuses: Vec<Value> = apply_resets(&frames)
        .iter()
        .map(Frame::json)
        .filter(|event| event["type"] == "mcp_tool")
        .map(|event| event["status"].clone())
        .collect();
    assert_eq!(statuses, ["started", "completed"]);
    assert_eq!(text(&frames), "paid");
}

/// Requirements: C15.
#[tokio::test]
async fn a_crash_after_a_tools_result_repeats_no_call_and_no_step() {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(10)));
    let tools = Registry::new([Payment::shared(&ledger, &gate, false)]);
    let mut app = TestApp::with(AppOptions {
        tools,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("payer", &["pay"]).await;
    // The second model call hangs before its first token: the result is stored, the step has not begun.
    app.model.script([
        Reply::text("Paying.").then_tool("pay", json!({"amount": 1})),
        Reply::hang(),
        Reply::text("All paid."),
    ]);
    let posted = app
        .client()
        .post_message(json!({"message": "pay", "agentDefinitionId": agent}))
        .await;
    support::wait_for("the second model call", async || {
        (app.model.requests().len() == 2).then_some(())
    })
    .await;
    app.crash_workers();
    app.add_worker();
    let frames = log(&app, &posted).await;
    assert_eq!(ledger.entries().len(), 1);
    assert_eq!(app.model.requests().len(), 3, "the first step was not asked for again");
    assert_eq!(text(&frames), "Paying.\n\nAll paid.");
    assert_eq!(
        app.model.requests()[1]["messages"],
        app.model.requests()[2]["messages"],
        "rebuilt exactly"
    );
    assert!(app.model.violations().is_empty());
}

/// Requirements: C44.
#[tokio::test]
async fn a_job_whose_every_attempt_is_lost_ends_with_error_and_done() {
    let mut app = TestApp::start().await;
    let agent = app.agent("cursed", &[]).await;
    app.model.always("go", Reply::hang());
    let posted = app
        .client()
        .post_message(json!({"message": "go", "agentDefinitionId": agent}))
        .await;
    support::wait_for("the first attempt", async || {
        (!app.model.requests().is_empty()).then_some(())
    })
    .await;
    // As if four attempts had been lost before.
    sqlx::query("update queue.jobs set max_attempts = attempt")
        .execute(&app.db.pool)
        .await
        .unwrap();
    app.crash_workers();
    app.add_worker();
    let frames = log(&app, &posted).await;
    assert_eq!(kinds(&frames), ["message", "meta", "error", "done"]);
    assert_eq!(frames[2].json()["code"], "attempts_exhausted");
    assert_eq!(done(&frames)["status"], "failed");
    app.wait_until_idle().await;
}

#[tokio::test]
async fn a_stored_last_answer_is_not_asked_for_again() {
    let mut app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let agent = app
        .agent_with("short", &["schema_version"], |content| content.max_steps = Some(1))
        .await;
    app.model
        .script([Reply::tool("schema_version", json!({})), Reply::text("That is all.")]);
    let posted = app
        .client()
        .post_message(json!({"message": "go", "agentDefinitionId": agent}))
        .await;
    // The assistant's message can't be stored: the attempt fails between the last step and the run's end, with an error
    // that may be temporary: a permanent one would end the run.
    for statement in [
        "create function no_end() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$",
        "create trigger no_end before insert on kb.chat_messages for each row when (new.role = 'assistant') execute function no_end()",
    ] {
        sqlx::query(statement).execute(&app.db.pool).await.unwrap();
    }
    app.add_worker();
    support::wait_for("the last word", async || {
        (app.model.requests().len() == 2).then_some(())
    })
    .await;
    support::wait_for("a failed end", async || {
        let failed: Option<String> = sqlx::query_scalar("select last_error from queue.jobs")
            .fetch_one(&app.db.pool)
            .await
            .ok()?;
        failed.filter(|error| error.contains("finishing the run"))
    })
    .await;
    sqlx::query("drop trigger no_end on kb.chat_messages")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let frames = log(&app, &posted).await;
    assert_eq!(app.model.requests().len(), 2, "the last word was not asked for again");
    assert_eq!(text(&frames), "That is all.");
    assert_eq!(done(&frames)["status"], "paused");
}

/// Invariant I9.
#[tokio::test]
async fn a_drained_worker_hands_over_at_once() {
    let mut app = TestApp::start().await;
    let agent = app.agent("writer", &[]).await;
    let whole = words(20);
    app.model.script([Reply::hang_after(5), Reply::text(&whole)]);
    let posted = app
        .client()
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let mut reader = app.client().stream(&path).await;
    let mut frames = reader.until("token").await;
    let leaving = app.workers.remove(0);
    app.add_worker();
    let asked = Instant::now();
    leaving.drain().await;
    frames.extend(reader.until("reset").await);
    assert!(
        asked.elapsed() < LEASE,
        "before any lease could expire: {:?}",
        asked.elapsed()
    );
    frames.extend(reader.rest().await);
    assert_eq!(text(&frames), whole);
    let attempts: i64 = sqlx::query_scalar("select attempt::bigint from kb.agent_runs")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(attempts, 2);
}
