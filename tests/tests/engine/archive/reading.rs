//! Readers of archived logs: each cursor reads what it would have read from the table, or an error that says to try again.

use std::time::Duration;

use rejoin_tests::client::{Client, text};
use rejoin_tests::model_server::Reply;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Archiving, end, read_through};

/// All messages of a conversation, page by page, as a client of Durable Streams reads them.
async fn durable(client: &Client, id: Uuid) -> Vec<Value> {
    let (mut all, mut offset) = (Vec::new(), "-1".to_owned());
    loop {
        let path = format!("/api/durable-streams/conversations/{id}?offset={offset}");
        let response = client.request(Method::GET, &path).send().await.expect("an answer");
        let headers = response.headers().clone();
        all.extend(response.json::<Vec<Value>>().await.expect("messages"));
        if headers.contains_key("stream-up-to-date") {
            return all;
        }
        headers["stream-next-offset"]
            .to_str()
            .expect("an offset")
            .clone_into(&mut offset);
    }
}

#[tokio::test]
async fn every_cursor_reads_archived_events_as_before() {
    let archiving = Archiving::start().await;
    let client = archiving.app.client();
    let (id, run) = archiving.conversation().await;
    let last = end(&archiving, id).await;
    let before = read_through(&client, id, 0, last).await;
    let messages = durable(&client, id).await;
    let run_path = format!("/api/runs/{run}/events");
    let of_run = client.stream(&run_path).await.rest().await;

    assert_eq!(archiving.archive_all().await, last.unsigned_abs());
    assert_eq!(archiving.count("select count(*) from stream.events").await, 0);
    assert!(archiving.objects().len() > 2, "{:?}", archiving.objects());
    assert_eq!(end(&archiving, id).await, last, "the log ends where it ended");
    for cursor in 0..last {
        let skipped = usize::try_from(cursor).expect("small");
        let read = read_through(&client, id, cursor, last).await;
        assert_eq!(read, before[skipped..], "after {cursor}");
    }
    assert_eq!(durable(&client, id).await, messages);
    assert_eq!(client.stream(&run_path).await.rest().await, of_run);
    let (status, problem) = client
        .get(&format!("/api/conversations/{id}/events?after={}", last + 1))
        .await;
    assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("cursor_ahead")));
}

#[tokio::test]
async fn a_message_after_archiving_continues_the_log() {
    let archiving = Archiving::start().await;
    let client = archiving.app.client();
    let (id, _) = archiving.conversation().await;
    let last = end(&archiving, id).await;
    let before = read_through(&client, id, 0, last).await;
    archiving.archive_all().await;
    archiving.app.model.script([Reply::text("It goes on.")]);
    let frames = client.chat(json!({"message": "four", "conversationId": id})).await;
    assert_eq!(text(&frames), "It goes on.");
    assert_eq!(frames.iter().find_map(|frame| frame.id), Some(last + 1));
    archiving.app.wait_until_idle().await;
    // From the objects into the table.
    let now = end(&archiving, id).await;
    let whole = read_through(&client, id, 0, now).await;
    assert_eq!(whole[..before.len()], before);
    let seqs: Vec<i64> = whole.iter().filter_map(|frame| frame.id).collect();
    assert_eq!(seqs, (1..=now).collect::<Vec<_>>());
    // The rest follows on.
    assert_eq!(archiving.archive_all().await, (now - last).unsigned_abs());
    assert_eq!(read_through(&client, id, 0, now).await, whole);
}

/// Makes a run active, or ended again.
async fn set_active(archiving: &Archiving, run: Uuid, is_active: bool) {
    sqlx::query(
        "update kb.agent_runs set state = case when $2 then 'running' else 'completed' end,
                finished_at = case when $2 then null else now() - interval '1 hour' end
         where id = $1",
    )
    .bind(run)
    .bind(is_active)
    .execute(&archiving.app.db.pool)
    .await
    .expect("the run");
}

async fn snapshot(archiving: &Archiving, id: Uuid) -> Value {
    let path = format!("/api/conversations/{id}/events?from=snapshot");
    let frames = archiving.app.client().stream(&path).await.until("snapshot").await;
    frames.last().expect("a snapshot").json()
}

#[tokio::test]
async fn a_snapshot_of_a_resumed_turn_has_archived_events() {
    let mut archiving = Archiving::start().await;
    let (id, run) = archiving.conversation().await;
    archiving.app.crash_workers();
    set_active(&archiving, run, true).await;
    let before = snapshot(&archiving, id).await;
    assert!(
        before["turn"]["text"]
            .as_str()
            .is_some_and(|text| text.contains("word2.39")),
        "{before}"
    );
    set_active(&archiving, run, false).await;
    assert!(archiving.archive_all().await > 0);
    set_active(&archiving, run, true).await;
    assert_eq!(snapshot(&archiving, id).await, before);
}

#[tokio::test]
async fn without_the_store_readers_wait_or_get_503() {
    let archiving = Archiving::start().await;
    let client = archiving.app.client();
    let (id, _) = archiving.conversation().await;
    let last = end(&archiving, id).await;
    let whole = read_through(&client, id, 0, last).await;
    archiving.archive_all().await;
    let parts = archiving.parts(id).await;
    let (first_missing, _, name) = &parts[1];
    let (path, aside) = (archiving.folder.join(name), archiving.folder.join("aside"));
    std::fs::rename(&path, &aside).expect("the object");

    // A stream that has begun gets what is there, then waits.
    let events = format!("/api/conversations/{id}/events");
    let mut reader = client.stream_after(&events, 0).await;
    let mut frames = Vec::new();
    while frames.len() < usize::try_from(first_missing - 1).expect("small") {
        frames.push(reader.next_event().await.expect("the stream goes on"));
    }
    assert!(
        reader.is_silent_for(Duration::from_millis(500)).await,
        "no event is left out"
    );
    // What begins there is refused.
    let there = format!("{events}?after={}", first_missing - 1);
    let response = client.request(Method::GET, &there).send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key("retry-after"));
    let problem: Value = response.json().await.expect("JSON");
    assert_eq!(problem["code"], "archive_unavailable");
    std::fs::rename(&aside, &path).expect("the object");
    while frames.len() < whole.len() {
        frames.push(reader.next_event().await.expect("the stream goes on"));
    }
    assert_eq!(frames, whole);

    // An object that was changed is not taken for the archived one.
    std::fs::write(&path, b"something else").expect("the object");
    assert_eq!(client.stream_status(&there).await, StatusCode::SERVICE_UNAVAILABLE);
}
