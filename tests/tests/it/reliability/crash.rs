//! Effects of a crash, a cancellation, a drain and a restart on a turn: nothing is lost, nothing happens twice.

use std::sync::Arc;
use std::time::Duration;

use rejoin_db::config::BusKind;
use rejoin_event_log::retention;
use rejoin_tests::app::{AppOptions, LEASE, Process, TestApp};
use rejoin_tests::client::{Client, Frame, apply_resets, kinds, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::tools::{Ledger, Payment};
use rejoin_tools::registry::Registry;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use uuid::Uuid;

use crate::support;

fn words(n: usize) -> String {
    (0..n).map(|i| format!("word{i} ")).collect()
}

fn done(frames: &[Frame]) -> Value {
    frames.last().expect("frames").json()
}

fn seqs(frames: &[Frame]) -> Vec<i64> {
    frames.iter().map(|frame| frame.id.unwrap()).collect()
}

/// The whole log of a posted message's conversation.
async fn log(app: &TestApp, posted: &Value) -> Vec<Frame> {
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

/// Invariant I11.
#[tokio::test]
async fn with_wake_ups_off_everything_arrives_within_a_second_or_two() {
    let app = TestApp::with(AppOptions {
        bus: BusKind::Poll,
        ..AppOptions::default()
    })
    .await;
    app.model
        .script([Reply::text("found by looking"), Reply::hang_after(2)]);
    let asked = Instant::now();
    let frames = app.client().ask(None, "hello").await;
    assert_eq!(text(&frames), "found by looking");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let posted = app.client().post_message(json!({"message": "again"})).await;
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let mut reader = app.client().stream(&path).await;
    reader.until("token").await;
    app.client()
        .post(
            &format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap()),
            json!({}),
        )
        .await;
    assert_eq!(done(&reader.rest().await)["status"], "cancelled");
}

#[tokio::test]
async fn an_api_that_is_restarted_goes_on_from_the_cursor() {
    let mut app = TestApp::start().await;
    let gate = Arc::new(Notify::new());
    let whole = words(30);
    app.model.script([Reply::text(&whole).gate(gate.clone())]);
    let posted = app.client().post_message(json!({"message": "write"})).await;
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let mut reader = app.client().stream(&path).await;
    let mut frames = reader.until("token").await;
    let restarting = app.restart_api();
    // It announces its stop, then the connection ends.
    let (_, rest) = tokio::join!(restarting, async {
        let mut frames = Vec::new();
        while let Some(frame) = reader.next().await {
            frames.push(frame);
        }
        frames
    });
    assert!(
        rest.iter().any(|frame| frame.id.is_none() && frame.kind() == "goaway"),
        "{rest:?}"
    );
    frames.extend(rest.into_iter().filter(|frame| frame.id.is_some()));
    gate.notify_one();
    let cursor = frames.last().unwrap().id.unwrap();
    frames.extend(app.client().stream_after(&path, cursor).await.rest().await);
    assert_eq!(seqs(&frames), (1..=frames.len() as i64).collect::<Vec<_>>());
    assert_eq!(text(&frames), whole);
}

#[tokio::test]
async fn an_api_process_that_is_killed_is_replaced_by_any_other() {
    let app = TestApp::start().await;
    let (victim, url) = Process::api(&app).await;
    let client = Client::new(url, &app.db.api_key);
    let gate = Arc::new(Notify::new());
    let whole = words(30);
    app.model.script([Reply::text(&whole).gate(gate.clone())]);
    let posted = client.post_message(json!({"message": "write"})).await;
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let mut reader = client.stream(&path).await;
    let mut frames = reader.until("token").await;
    victim.kill();
    while let Some(frame) = reader.next_event().await {
        frames.push(frame);
    }
    assert_ne!(
        done(&frames)["type"],
        "done",
        "a connection that ends without done means: reconnect"
    );
    gate.notify_one();
    let cursor = frames.last().unwrap().id.unwrap();
    frames.extend(app.client().stream_after(&path, cursor).await.rest().await);
    assert_eq!(seqs(&frames), (1..=frames.len() as i64).collect::<Vec<_>>());
    assert_eq!(text(&frames), whole);
    assert_eq!(done(&frames)["status"], "completed");
}

#[tokio::test]
async fn old_events_leave_by_age_and_their_readers_are_told() {
    let app = TestApp::start().await;
    app.model.script([Reply::text("one"), Reply::text("two")]);
    let client = app.client();
    let frames = client.ask(None, "first").await;
    app.wait_until_idle().await;
    let conversation = frames[1].json()["conversationId"].as_str().unwrap().to_owned();
    sqlx::query("update kb.agent_runs set finished_at = now() - interval '2 hours'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    client
        .chat(json!({"message": "second", "conversationId": conversation}))
        .await;
    app.wait_until_idle().await;
    let trimmed = retention::trim(&app.db.pool, 3_600.0).await.unwrap();
    assert_eq!((trimmed.events, trimmed.more), (frames.len() as i64, true));
    assert_eq!(
        retention::trim(&app.db.pool, 3_600.0).await.unwrap(),
        retention::Trimmed::default()
    );
    let removed = trimmed.events;
    let path = format!("/api/conversations/{conversation}/events");
    let (status, problem) = client.get(&format!("{path}?after=1")).await;
    assert_eq!(
        (status, &problem["oldest"]),
        (StatusCode::GONE, &json!(removed + 1)),
        "{problem}"
    );
    let (_, messages) = client.get(&format!("/api/conversations/{conversation}/messages")).await;
    assert_eq!(messages["items"].as_array().unwrap().len(), 4, "what was said stays");
    let mut reader = client.stream_after(&path, removed).await;
    assert_eq!(text(&reader.until("done").await), "two");
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
