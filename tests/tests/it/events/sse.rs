//! Event streams: cursors, ends, refusals, drains, readers that don't read. The worker is simulated: its events are
//! appended with SQL.

use std::time::Duration;

use rejoin_db::config::BusKind;
use rejoin_event_log::retention;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Frame, Stream, answer, kinds};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use crate::support;

/// An app whose runs are not executed.
async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

/// A posted message: the ids of its conversation (also its log's) and run.
struct Turn {
    conversation: Uuid,
    run: Uuid,
}

impl Turn {
    async fn post(app: &TestApp, body: Value) -> Self {
        let posted = app.client().post_message(body).await;
        let id = |name: &str| posted[name].as_str().unwrap().parse().unwrap();
        Self {
            conversation: id("conversationId"),
            run: id("runId"),
        }
    }

    async fn begin(app: &TestApp) -> Self {
        Self::post(app, json!({"message": "hello"})).await
    }

    fn conversation_events(&self) -> String {
        format!("/api/conversations/{}/events", self.conversation)
    }

    fn run_events(&self) -> String {
        format!("/api/runs/{}/events", self.run)
    }

    async fn append(&self, app: &TestApp, kind: &str, count: i32) {
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
    async fn finish(&self, app: &TestApp) {
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

fn ids(frames: &[Frame]) -> Vec<i64> {
    frames.iter().filter_map(|frame| frame.id).collect()
}

async fn take(stream: &mut Stream, count: usize) -> Vec<Frame> {
    let mut frames = Vec::with_capacity(count);
    while frames.len() < count {
        frames.push(stream.next_event().await.expect("the stream goes on"));
    }
    frames
}

#[tokio::test]
async fn a_stream_begins_with_retry_and_tells_when_the_past_is_sent() {
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
async fn a_runs_stream_shows_that_run_alone_and_closes_after_its_done() {
    let app = quiet().await;
    let first = Turn::begin(&app).await;
    let second = Turn::post(
        &app,
        json!({"message": "and then?", "conversationId": first.conversation}),
    )
    .await;
    let live = app.client().stream(&first.run_events()).await;
    first.append(&app, "token", 2).await;
    first.finish(&app).await;
    second.append(&app, "token", 1).await;
    assert_eq!(ids(&live.rest().await), [1, 3, 4, 5]);
    assert_eq!(
        ids(&app.client().stream(&first.run_events()).await.rest().await),
        [1, 3, 4, 5]
    );
    // The same run again, from the middle; and the other one continues.
    assert_eq!(
        ids(&app.client().stream_after(&first.run_events(), 3).await.rest().await),
        [4, 5]
    );
    let mut other = app.client().stream(&second.run_events()).await;
    assert_eq!(ids(&take(&mut other, 2).await), [2, 6]);
    assert!(other.is_silent_for(Duration::from_millis(300)).await);
}

#[tokio::test]
async fn a_sub_agents_done_does_not_close_its_roots_stream() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    let live = app.client().stream(&turn.run_events()).await;
    let done = json!({"type": "done", "runId": Uuid::now_v7(), "status": "completed"}).to_string();
    sqlx::query("select stream.append($1, $2, array['done'], array[$3])")
        .bind(turn.conversation)
        .bind(turn.run)
        .bind(done)
        .execute(&app.db.pool)
        .await
        .unwrap();
    turn.finish(&app).await;
    assert_eq!(ids(&live.rest().await), [1, 2, 3]);
}

#[tokio::test]
async fn a_sub_agents_own_stream_shows_its_events_alone() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    let child = Uuid::now_v7();
    sqlx::query(
        "insert into kb.agent_runs (id, project_id, conversation_id, user_id, parent_run_id, root_run_id, depth, log_id, input,
                                    state, first_seq)
         select $1, project_id, conversation_id, user_id, id, id, 1, log_id, 'part', 'running', 1 from kb.agent_runs where id = $2",
    )
    .bind(child)
    .bind(turn.run)
    .execute(&app.db.pool)
    .await
    .unwrap();
    let of_child = app.client().stream(&format!("/api/runs/{child}/events")).await;
    turn.append(&app, "token", 1).await;
    for kind in ["token", "done"] {
        sqlx::query("select stream.append($1, $2, array[$3], array[$4])")
            .bind(turn.conversation)
            .bind(turn.run)
            .bind(kind)
            .bind(json!({"type": kind, "runId": child, "parentRunId": turn.run}).to_string())
            .execute(&app.db.pool)
            .await
            .unwrap();
    }
    assert_eq!(ids(&of_child.rest().await), [3, 4]);
    let mut of_root = app.client().stream(&turn.run_events()).await;
    assert_eq!(ids(&take(&mut of_root, 4).await), [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_finished_run_is_204_and_an_impossible_cursor_is_400() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    turn.finish(&app).await;
    let client = app.client();
    let run = turn.run_events();
    assert_eq!(
        client.stream_status(&format!("{run}?after=2")).await,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        client.stream_status(&format!("{run}?after=now")).await,
        StatusCode::NO_CONTENT
    );
    let again = client
        .request(Method::GET, &run)
        .header("last-event-id", "2")
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), StatusCode::NO_CONTENT);
    for (query, code) in [
        ("after=3", "cursor_ahead"),
        ("after=-1", "cursor_malformed"),
        ("after=x", "cursor_malformed"),
    ] {
        for path in [&run, &turn.conversation_events()] {
            let (status, problem) = client.get(&format!("{path}?{query}")).await;
            assert_eq!(
                (status, &problem["code"]),
                (StatusCode::BAD_REQUEST, &json!(code)),
                "{path}?{query}"
            );
        }
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
        let mut told = app.client().stream(&format!("{path}?after=4&on_gap=event")).await;
        assert_eq!(told.next().await.unwrap().retry.as_deref(), Some("2000"));
        let gap = told.next().await.unwrap();
        assert_eq!((gap.kind().as_str(), gap.id), ("gap", None));
        assert_eq!(told.next().await.unwrap().kind(), "snapshot");
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

#[tokio::test]
async fn a_draining_server_says_goaway_and_readers_move_on() {
    let mut app = quiet().await;
    let turn = Turn::begin(&app).await;
    let mut stream = app.client().stream(&turn.conversation_events()).await;
    assert_eq!(stream.next_event().await.unwrap().id, Some(1));
    app.server.take().unwrap().stop().await.unwrap();
    let mut last = None;
    while let Some(frame) = stream.next().await {
        last = Some(frame);
    }
    assert_eq!(last.unwrap().json(), json!({"type": "goaway"}));
    app.server = Some(app.another_api().await);
    turn.append(&app, "token", 1).await;
    let elsewhere = rejoin_tests::client::Client::new(app.server.as_ref().unwrap().url(), &app.db.api_key);
    let mut stream = elsewhere.stream_after(&turn.conversation_events(), 1).await;
    assert_eq!(stream.next_event().await.unwrap().id, Some(2));
}

#[tokio::test]
async fn a_silent_stream_says_that_it_is_alive() {
    let options = AppOptions {
        workers: 0,
        api: |config| config.streams.heartbeat_s = 1,
        ..AppOptions::default()
    };
    let app = TestApp::with(options).await;
    let turn = Turn::begin(&app).await;
    let mut stream = app.client().stream_after(&turn.conversation_events(), 1).await;
    let comment = support::wait_for("a heartbeat", async || stream.next().await.unwrap().comment).await;
    assert_eq!(comment, "hb");
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_and_nobody_waits_for_it() {
    let options = AppOptions {
        workers: 0,
        api: |config| config.streams.stall_timeout_ms = 500,
        ..AppOptions::default()
    };
    let app = TestApp::with(options).await;
    let turn = Turn::begin(&app).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stuck = socket.connect(app.address).await.unwrap();
    let head = format!(
        "GET {} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {}\r\n\r\n",
        turn.conversation_events(),
        app.db.api_key
    );
    stuck.write_all(head.as_bytes()).await.unwrap();
    let streams = &app.server.as_ref().unwrap().state.streams.hub.streams;
    support::wait_for("the stream to open", async || {
        (!streams.bases().is_empty()).then_some(())
    })
    .await;
    // More than is buffered for it.
    let token = json!({"type": "token", "runId": turn.run, "token": "x".repeat(20_000)}).to_string();
    for _ in 0..100 {
        sqlx::query("select stream.append($1, $2, array['token', 'token'], array[$3, $3])")
            .bind(turn.conversation)
            .bind(turn.run)
            .bind(&token)
            .execute(&app.db.pool)
            .await
            .unwrap();
    }
    support::wait_for("the stuck reader to be cut", async || {
        streams.bases().is_empty().then_some(())
    })
    .await;
    let mut other = app.client().stream(&turn.conversation_events()).await;
    assert_eq!(ids(&take(&mut other, 201).await), (1..=201).collect::<Vec<_>>());
    drop(stuck);
}

#[tokio::test]
async fn a_long_run_costs_far_fewer_queries_than_events() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(app.client().stream_after(&turn.conversation_events(), 1).await);
    }
    let queries = async || {
        let of_reading = ["rejoin_tail_queries_total", "rejoin_log_reads_total"];
        app.client().metric_sum(&of_reading).await
    };
    let before = queries().await;
    for _ in 0..100 {
        turn.append(&app, "token", 100).await;
    }
    // All at once: one that reads nothing for ten seconds is disconnected.
    futures::future::join_all(readers.iter_mut().map(|reader| take(reader, 10_000))).await;
    // Other tests' servers count in the same process, so the limit is generous.
    let spent = queries().await - before;
    assert!(spent < 5_000.0, "{spent} queries for 10,000 events and 20 readers");
}

#[tokio::test]
async fn a_deleted_conversations_readers_are_let_go() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    let mut stream = app.client().stream(&turn.conversation_events()).await;
    // A reader of it before it is deleted.
    let first = stream.next_event().await.expect("the first event");
    assert_eq!(ids(&[first]), [1]);
    let (status, _) = app
        .client()
        .delete(&format!("/api/conversations/{}", turn.conversation))
        .await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(ids(&stream.rest().await), [] as [i64; 0]);
    assert_eq!(
        app.client().stream_status(&turn.conversation_events()).await,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_user_has_a_bounded_number_of_streams() {
    let options = AppOptions {
        workers: 0,
        api: |config| config.streams.max_streams_per_user = 2,
        ..AppOptions::default()
    };
    let app = TestApp::with(options).await;
    let turn = Turn::begin(&app).await;
    let _first = app.client().stream(&turn.conversation_events()).await;
    let second = app.client().stream(&turn.conversation_events()).await;
    let refused = app
        .client()
        .request(Method::GET, &turn.conversation_events())
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key("retry-after"));
    // A message that could not be streamed is not stored.
    let request = app
        .client()
        .request(Method::POST, "/api/chat/stream")
        .json(&json!({"message": "x"}));
    assert_eq!(
        answer(request.send().await.unwrap()).await.0,
        StatusCode::TOO_MANY_REQUESTS
    );
    let conversations: i64 = sqlx::query_scalar("select count(*) from kb.chat_conversations")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(conversations, 1);
    drop(second);
    support::wait_for("room for another stream", async || {
        (app.client().stream_status(&turn.conversation_events()).await == StatusCode::OK).then_some(())
    })
    .await;
}
