//! Connections of readers: drains, silence, readers that don't read, their cost, and their number.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::answer;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::sse::{Turn, ids, quiet, take};
use rejoin_tests::support;

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
async fn a_reader_that_does_not_read_is_cut_and_delays_no_other() {
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

/// Returns how many queries wait for the table of conversations.
async fn waiting(db: &mut sqlx::PgConnection) -> i64 {
    sqlx::query_scalar(
        "select count(*) from pg_locks where not granted and relation = 'kb.chat_conversations'::regclass",
    )
    .fetch_one(db)
    .await
    .unwrap()
}

#[tokio::test]
async fn streams_are_opened_in_turn_and_all_of_them() {
    let options = AppOptions {
        workers: 0,
        api: |config| config.max_opening_streams = 1,
        ..AppOptions::default()
    };
    let app = TestApp::with(options).await;
    let turn = Turn::begin(&app).await;
    let client = app.client();
    let events = turn.conversation_events();
    // One waits for the database, and holds the only turn; the others wait for it until their readers leave.
    let mut lock = rejoin_db::begin(&app.db.pool).await.unwrap();
    sqlx::query("lock table kb.chat_conversations in access exclusive mode")
        .execute(&mut *lock)
        .await
        .unwrap();
    let opening = [(); 5].map(|()| tokio::spawn(client.request(Method::GET, &events).send()));
    support::wait_for("the query that waits", async || {
        (waiting(&mut lock).await > 0).then_some(())
    })
    .await;
    // Enough for the others to come as far: these requests, sent later, read the database, too.
    for _ in 0..20 {
        assert_eq!(client.get("/api/me").await.0, StatusCode::OK);
    }
    assert_eq!(waiting(&mut lock).await, 1);
    for reader in opening {
        reader.abort();
    }
    let all = (0..20).map(|_| client.stream_status(&events));
    let (statuses, unlocked) = tokio::join!(futures::future::join_all(all), lock.rollback());
    unlocked.unwrap();
    assert_eq!(statuses, [StatusCode::OK; 20]);
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
