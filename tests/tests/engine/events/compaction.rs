//! The storage format of events is invisible: packed when written, repacked after their run, removed when old, each
//! cursor reads the same frames.

use std::sync::Arc;

use rejoin_event_log::compaction::{self, Compacted};
use rejoin_event_log::log;
use rejoin_event_log::retention;
use rejoin_event_log::rows::StoredEvent;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Frame, kinds, text};
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::json;
use tokio::sync::Notify;
use uuid::Uuid;

const WORDS: usize = 60;

fn words(turn: usize) -> String {
    (0..WORDS).map(|i| format!("word{turn}.{i} ")).collect()
}

/// An app whose events are committed one by one, unless they wait together.
async fn app() -> TestApp {
    TestApp::with(AppOptions {
        worker: |config| config.flush_ms = 0,
        ..AppOptions::default()
    })
    .await
}

/// A conversation of three turns with reasoning, text and a tool call.
async fn conversation(app: &TestApp, agent: &str) -> Uuid {
    let agent = app.agent(agent, &["*"]).await;
    app.model.script([
        Reply::text(words(0))
            .reasoning("let me see")
            .words_every(1)
            .then_tool("no_such_tool", json!({})),
        Reply::text(words(1)).words_every(1),
        Reply::text(words(2)),
        Reply::text(words(3)).words_every(1),
    ]);
    let client = app.client();
    let first = client.ask(Some(agent), "one").await;
    let id = first[1].json()["conversationId"].as_str().expect("an id").to_owned();
    for message in ["two", "three"] {
        client.chat(json!({"message": message, "conversationId": id})).await;
    }
    app.wait_until_idle().await;
    id.parse().expect("an id")
}

/// Everything after a cursor, page by page.
async fn after(app: &TestApp, log_id: Uuid, cursor: i64) -> Vec<StoredEvent> {
    let mut events: Vec<StoredEvent> = Vec::new();
    loop {
        let at = events.last().map_or(cursor, |last| last.seq);
        let page = log::read(&app.db.db.pool_pg, log_id, at).await.expect("a page");
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}

async fn count(app: &TestApp, sql: &str) -> i64 {
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
        .fetch_one(&app.db.pool)
        .await
        .expect("a count")
}

/// Compacts all ended runs, and returns the total.
async fn compact_all(app: &TestApp) -> Compacted {
    let mut all = Compacted::default();
    loop {
        let some = compaction::compact(&app.db.pool, 0.0).await.expect("compaction works");
        if some.runs == 0 {
            return all;
        }
        all.runs += some.runs;
        all.rows_before += some.rows_before;
        all.rows_after += some.rows_after;
    }
}

/// Reads on until the event `last`.
async fn through(reader: &mut rejoin_tests::client::Stream, last: i64) -> Vec<Frame> {
    let mut frames = Vec::new();
    while frames.last().and_then(|frame: &Frame| frame.id) != Some(last) {
        frames.push(reader.next_event().await.expect("the stream goes on"));
    }
    frames
}

#[tokio::test]
async fn every_cursor_sees_the_same_events_throughout_compaction() {
    let app = app().await;
    let id = conversation(&app, "talker").await;
    let path = format!("/api/conversations/{id}/events");
    let before = after(&app, id, 0).await;
    let last = before.len() as i64;
    assert_eq!(
        before.iter().map(|event| event.seq).collect::<Vec<_>>(),
        (1..=last).collect::<Vec<_>>()
    );
    assert!(
        before.iter().filter(|event| event.kind == "token").count() > WORDS / 4,
        "some came one by one, also where the machine is busy"
    );
    let client = app.client();
    let whole = through(&mut client.stream(&path).await, last).await;
    let rows = count(&app, "select count(*) from stream.events").await;
    // Readers at every position, while their rows change.
    let mut midway = Vec::new();
    for cursor in (0..last - 1).step_by(7) {
        let mut reader = client.stream_after(&path, cursor).await;
        let first = reader.next_event().await.expect("an event");
        midway.push((reader, first));
    }

    let compacted = compact_all(&app).await;
    assert_eq!(compacted.runs, 3);
    let left = count(&app, "select count(*) from stream.events").await;
    assert_eq!(left, rows - compacted.rows_before + compacted.rows_after);
    assert!(left < rows, "{rows} rows became {left}");
    assert_eq!(compact_all(&app).await, Compacted::default(), "nothing is done twice");

    for (mut reader, first) in midway {
        let mut seen = vec![first];
        seen.extend(through(&mut reader, last).await);
        assert_eq!(seen, whole[whole.len() - seen.len()..]);
    }
    for cursor in 0..=last {
        let skipped = usize::try_from(cursor).expect("small");
        assert_eq!(after(&app, id, cursor).await, before[skipped..], "after {cursor}");
        let tailed = log::tail(&app.db.db.pool_pg, &[(id, cursor)])
            .await
            .expect("the tail's query");
        let tailed: Vec<StoredEvent> = tailed.into_iter().map(|(_, event)| event).collect();
        assert_eq!(tailed, before[skipped..], "after {cursor}");
        if cursor < last {
            let mut reader = client.stream_after(&path, cursor).await;
            assert_eq!(through(&mut reader, last).await, whole[skipped..]);
        }
    }
    let shown: Vec<(i64, String, String)> =
        sqlx::query_as("select seq, type, data from stream.each_event where log_id = $1 order by seq")
            .bind(id)
            .fetch_all(&app.db.pool)
            .await
            .expect("the view");
    let stored: Vec<(i64, String, String)> = before
        .iter()
        .map(|event| {
            (
                event.seq,
                event.kind.clone(),
                String::from_utf8(event.data.to_vec()).expect("text"),
            )
        })
        .collect();
    assert_eq!(shown, stored);
}

#[tokio::test]
async fn several_workers_compact_beside_each_other_and_beside_writers() {
    let app = app().await;
    let mut all = Vec::new();
    for agent in ["a", "b", "c", "d"] {
        let id = conversation(&app, agent).await;
        all.push((id, after(&app, id, 0).await));
    }
    app.model.script([Reply::text(words(4)).words_every(1)]);
    let client = app.client();
    let turn = client.chat(json!({"message": "four", "conversationId": all[0].0.to_string()}));
    let workers = (0..4).map(async |_| {
        let mut runs = 0;
        for _ in 0..10 {
            runs += compaction::compact(&app.db.pool, 0.0)
                .await
                .expect("compaction works")
                .runs;
        }
        runs
    });
    let (frames, runs) = tokio::join!(turn, futures::future::join_all(workers));
    assert!(
        (12..=13).contains(&runs.iter().sum::<usize>()),
        "each run is done once: {runs:?}"
    );
    assert_eq!(text(&frames), words(4));
    app.wait_until_idle().await;
    compact_all(&app).await;
    for (nth, (id, before)) in all.iter().enumerate() {
        let now = after(&app, *id, 0).await;
        assert_eq!(now[..before.len()], before[..]);
        assert_eq!(now.len() > before.len(), nth == 0);
    }
}

#[tokio::test]
async fn compaction_keeps_running_turns_and_foreign_rows() {
    let app = app().await;
    let gate = Arc::new(Notify::new());
    app.model
        .script([Reply::text(words(0)).words_every(1).gate(gate.clone())]);
    let client = app.client();
    let posted = client.post_message(json!({"message": "go"})).await;
    let id: Uuid = posted["conversationId"]
        .as_str()
        .expect("an id")
        .parse()
        .expect("an id");
    let mut reader = client.stream(&format!("/api/conversations/{id}/events")).await;
    let mut frames = reader.until("token").await;
    assert_eq!(compact_all(&app).await, Compacted::default());
    // An event of several lines, twice.
    let run: Uuid = posted["runId"].as_str().expect("an id").parse().expect("an id");
    let foreign = "{\"type\":\"token\",\n\"token\":\"foreign \"}";
    sqlx::query("select stream.append($1, $2, array['token', 'token'], array[$3, $3])")
        .bind(id)
        .bind(run)
        .bind(foreign)
        .execute(&app.db.pool)
        .await
        .expect("an append");
    gate.notify_one();
    frames.extend(reader.until("done").await);
    app.wait_until_idle().await;
    let before = after(&app, id, 0).await;
    assert!(compact_all(&app).await.rows_after > 0);
    assert_eq!(after(&app, id, 0).await, before);
    assert_eq!(before.iter().filter(|event| event.data == foreign).count(), 2);
    let late = through(
        &mut client.stream(&format!("/api/conversations/{id}/events")).await,
        before.len() as i64,
    )
    .await;
    assert_eq!(late, frames);
}

#[tokio::test]
async fn retention_removes_packed_rows_as_a_whole() {
    let app = app().await;
    let id = conversation(&app, "talker").await;
    let before = after(&app, id, 0).await;
    compact_all(&app).await;
    let (first, last): (i64, i64) = sqlx::query_as(
        "select first_seq, seq from stream.events where first_seq is not null order by seq desc limit 1",
    )
    .fetch_one(&app.db.pool)
    .await
    .expect("a packed row");
    let removed = retention::trim_log(&app.db.pool, id, last - 1)
        .await
        .expect("retention works");
    assert_eq!(removed, first - 1, "the row that goes on stays");
    let path = format!("/api/conversations/{id}/events");
    let client = app.client();
    let (status, problem) = client.get(&format!("{path}?after={}", first - 2)).await;
    assert_eq!((status, &problem["oldest"]), (StatusCode::GONE, &json!(first)));
    let kept = through(&mut client.stream_after(&path, first - 1).await, before.len() as i64).await;
    assert_eq!(kept.len(), before.len() - usize::try_from(first - 1).expect("small"));
    assert_eq!(kinds(&kept).last().map(String::as_str), Some("done"));

    let rest = retention::trim(&app.db.pool, 0.0).await.expect("retention works");
    assert_eq!(rest.events, kept.len() as i64);
    assert_eq!(
        retention::trim(&app.db.pool, 0.0).await.expect("retention works"),
        retention::Trimmed::default()
    );
    assert_eq!(count(&app, "select count(*) from stream.events").await, 0);
    // The log continues.
    app.model.script([Reply::text("again")]);
    let frames = client
        .chat(json!({"message": "four", "conversationId": id.to_string()}))
        .await;
    assert_eq!(frames[0].id, Some(before.len() as i64 + 1));
    let (_, messages) = client.get(&format!("/api/conversations/{id}/messages")).await;
    assert_eq!(messages["items"].as_array().map(Vec::len), Some(8), "{messages}");
}

#[tokio::test]
async fn retention_stops_before_a_turn_that_has_not_ended() {
    let app = app().await;
    let id = conversation(&app, "talker").await;
    let before = after(&app, id, 0).await.len() as i64;
    let gate = Arc::new(Notify::new());
    app.model.script([Reply::text(words(4)).gate(gate.clone())]);
    let client = app.client();
    let path = format!("/api/conversations/{id}/events");
    let mut reader = client.stream_after(&path, before).await;
    client
        .post_message(json!({"message": "four", "conversationId": id.to_string()}))
        .await;
    let mut frames = reader.until("token").await;
    assert_eq!(
        retention::trim(&app.db.pool, 0.0)
            .await
            .expect("retention works")
            .events,
        before
    );
    gate.notify_one();
    frames.extend(reader.until("done").await);
    assert_eq!(frames[0].id, Some(before + 1));
    assert_eq!(text(&frames), words(4));
    app.wait_until_idle().await;
    assert_eq!(
        retention::trim(&app.db.pool, 0.0)
            .await
            .expect("retention works")
            .events,
        frames.len() as i64
    );
}
