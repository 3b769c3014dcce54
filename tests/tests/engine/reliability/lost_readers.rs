//! Readers that lose their API, their wake-ups, or the events behind their cursor.

use std::sync::Arc;
use std::time::Duration;

use rejoin_db::config::BusKind;
use rejoin_event_log::retention;
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::{Client, text};
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::crash::{done, seqs, words};

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
async fn old_events_are_deleted_by_age_and_their_readers_informed() {
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
