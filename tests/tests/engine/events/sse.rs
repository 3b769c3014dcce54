//! Event streams: cursors, snapshots, and the past that retention has removed. The worker is simulated: its events are
//! appended with SQL.

use std::time::Duration;

use rejoin_db::config::BusKind;
use rejoin_event_log::retention;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Frame, Stream, kinds};
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::support;

/// An app whose runs are not executed.
pub(super) async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

/// A posted message: the ids of its conversation (also its log's) and run.
pub(super) struct Turn {
    pub(super) conversation: Uuid,
    pub(super) run: Uuid,
}

impl Turn {
    pub(super) async fn post(app: &TestApp, body: Value) -> Self {
        let posted = app.client().post_message(body).await;
        let id = |name: &str| posted[name].as_str().unwrap().parse().unwrap();
        Self {
            conversation: id("conversationId"),
            run: id("runId"),
        }
    }

    pub(super) async fn begin(app: &TestApp) -> Self {
        Self::post(app, json!({"message": "hello"})).await
    }

    pub(super) fn conversation_events(&self) -> String {
        format!("/api/conversations/{}/events", self.conversation)
    }

    pub(super) fn run_events(&self) -> String {
        format!("/api/runs/{}/events", self.run)
    }

    pub(super) async fn append(&self, app: &TestApp, kind: &str, count: i32) {
        sqlx::query(
            "select stream.append($1, $2, array_fill($3::text, array[$4]),
                                  array_fill(json_build_object('type', $3::text, 'runId', $2)::text, array[$4]))",
        )
        .bind(self.conversation)
        .bind(self.run)
        .bind(kind)
        .bind(count)
        .execute(&app.db.pool)
        .await
        .unwrap();
    }

    /// Writes `done` and the run's end together.
    pub(super) async fn finish(&self, app: &TestApp) {
        let mut tx = rejoin_db::begin(&app.db.pool).await.unwrap();
        let done = json!({"type": "done", "runId": self.run, "status": "completed"}).to_string();
        sqlx::query(
            "update kb.agent_runs set state = 'completed', finished_at = now(),
                                      done_seq = stream.append($1, $2, array['done'], array[$3])
             where id = $2",
        )
        .bind(self.conversation)
        .bind(self.run)
        .bind(done)
        .execute(&mut *tx)
        .await
        .unwrap();
        sqlx::query("delete from queue.jobs where run_id = $1")
            .bind(self.run)
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
}

pub(super) fn ids(frames: &[Frame]) -> Vec<i64> {
    frames.iter().filter_map(|frame| frame.id).collect()
}

pub(super) async fn take(stream: &mut Stream, count: usize) -> Vec<Frame> {
    let mut frames = Vec::with_capacity(count);
    while frames.len() < count {
        frames.push(stream.next_event().await.expect("the stream goes on"));
    }
    frames
}

#[tokio::test]
async fn a_stream_begins_with_retry_and_marks_the_end_of_the_past() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    let mut stream = app.client().stream(&turn.conversation_events()).await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store, no-transform"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(stream.headers[name], value);
    }
    assert!(!stream.headers.contains_key("content-encoding"));
    assert_eq!(stream.next().await.unwrap().retry.as_deref(), Some("2000"));
    assert_eq!(stream.next().await.unwrap().id, Some(1));
    let caught_up = stream.next().await.unwrap();
    assert_eq!(
        (caught_up.id, caught_up.json()),
        (None, json!({"type": "caught_up", "through": 1}))
    );
}

#[tokio::test]
async fn every_reader_from_every_cursor_reads_the_identical_suffix() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    let mut early = app.client().stream(&turn.conversation_events()).await;
    turn.append(&app, "token", 700).await;
    let whole = take(&mut early, 701).await;
    assert_eq!(ids(&whole), (1..=701).collect::<Vec<_>>());
    for cursor in [0, 1, 499, 500, 501, 700] {
        let mut late = app.client().stream_after(&turn.conversation_events(), cursor).await;
        let suffix = &whole[usize::try_from(cursor).unwrap()..];
        assert_eq!(take(&mut late, suffix.len()).await, suffix, "after {cursor}");
    }
    // New events reach all of them, wherever they began.
    let mut now = app
        .client()
        .stream(&format!("{}?after=now", turn.conversation_events()))
        .await;
    turn.append(&app, "token", 3).await;
    assert_eq!(ids(&take(&mut now, 3).await), [702, 703, 704]);
    assert_eq!(ids(&take(&mut early, 3).await), [702, 703, 704]);
}

#[tokio::test]
async fn without_wake_ups_an_event_is_seen_within_a_second() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        bus: BusKind::Poll,
        ..AppOptions::default()
    })
    .await;
    let turn = Turn::begin(&app).await;
    let mut stream = app.client().stream_after(&turn.conversation_events(), 1).await;
    for seq in 2..=4 {
        turn.append(&app, "token", 1).await;
        let frame = tokio::time::timeout(Duration::from_millis(1_200), stream.next_event()).await;
        assert_eq!(
            frame.expect("within a second, and some for a slow machine").unwrap().id,
            Some(seq)
        );
    }
}

#[tokio::test]
async fn a_snapshot_stands_for_the_past_and_live_events_follow_it() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    sqlx::query("select stream.append($1, $2, array['token'], array[$3])")
        .bind(turn.conversation)
        .bind(turn.run)
        .bind(json!({"type": "token", "runId": turn.run, "token": "Hel"}).to_string())
        .execute(&app.db.pool)
        .await
        .unwrap();
    for path in [turn.conversation_events(), turn.run_events()] {
        let mut stream = app.client().stream(&format!("{path}?from=snapshot")).await;
        let snapshot = stream.next_event().await.unwrap();
        let state = snapshot.json();
        assert_eq!(
            (&state["type"], &state["through"], snapshot.id),
            (&json!("snapshot"), &json!(2), Some(2))
        );
        assert_eq!(
            (&state["messages"][0]["content"], &state["turn"]["text"]),
            (&json!("hello"), &json!("Hel"))
        );
        turn.append(&app, "token", 1).await;
        let live = stream.next_event().await.unwrap();
        assert_eq!(live.kind(), "token");
        // Resets the log for the next path.
        sqlx::query("delete from stream.events where log_id = $1 and seq = 3")
            .bind(turn.conversation)
            .execute(&app.db.pool)
            .await
            .unwrap();
        drop(stream);
        support::wait_for("the log to be followed by nobody", async || {
            let server = app.server.as_ref().unwrap();
            server.state.streams.hub.streams.bases().is_empty().then_some(())
        })
        .await;
    }
    // For an ended run: the snapshot alone.
    turn.finish(&app).await;
    let frames = app
        .client()
        .stream(&format!("{}?from=snapshot", turn.run_events()))
        .await
        .rest()
        .await;
    assert_eq!(kinds(&frames), ["snapshot"]);
}

#[tokio::test]
async fn a_cursor_that_retention_has_overtaken_is_410_or_a_gap() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    turn.append(&app, "token", 9).await;
    turn.finish(&app).await;
    retention::trim_log(&app.db.pool, turn.conversation, 5).await.unwrap();
    for path in [turn.conversation_events(), turn.run_events()] {
        let (status, problem) = app.client().get(&format!("{path}?after=4")).await;
        assert_eq!((status, &problem["oldest"]), (StatusCode::GONE, &json!(6)), "{problem}");
        assert_eq!(
            app.client()
                .stream_status(problem["snapshotUrl"].as_str().unwrap())
                .await,
            StatusCode::OK
        );
        let mut kept = app.client().stream_after(&path, 5).await;
        assert_eq!(kept.next_event().await.unwrap().id, Some(6));
        let mut reply = app.client().stream(&format!("{path}?after=4&on_gap=event")).await;
        assert_eq!(reply.next().await.unwrap().retry.as_deref(), Some("2000"));
        let gap = reply.next().await.unwrap();
        assert_eq!((gap.kind().as_str(), gap.id), ("gap", None));
        assert_eq!(reply.next().await.unwrap().kind(), "snapshot");
    }
}

#[tokio::test]
async fn reading_and_leaving_changes_nothing() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    let state = async || -> Value {
        sqlx::query_scalar(
            "select json_build_array((select json_agg(l) from stream.logs l), (select json_agg(r) from kb.agent_runs r),
                                     (select json_agg(j) from queue.jobs j))",
        )
        .fetch_one(&app.db.pool)
        .await
        .unwrap()
    };
    let before = state().await;
    for path in [
        turn.conversation_events(),
        turn.run_events(),
        format!("{}?from=snapshot", turn.run_events()),
    ] {
        let mut stream = app.client().stream(&path).await;
        stream.next_event().await.unwrap();
        drop(stream);
    }
    let streams = &app.server.as_ref().unwrap().state.streams.hub.streams;
    support::wait_for("the readers' going to be noticed", async || {
        streams.bases().is_empty().then_some(())
    })
    .await;
    assert_eq!(state().await, before);
}
