//! A project moves back and forth while its users write and read: every message is answered once, and every reader gets every event once.

use std::time::Instant;

use futures::future::join_all;
use rejoin_tests::client::{Client, Frame, Stream, answer, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::{self, LIMIT};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{CELL, Fleet};

/// Conversations at the same time.
const CONVERSATIONS: usize = 6;
/// Turns of each.
const TURNS: usize = 4;
/// The reply of each turn.
const WORDS: usize = 30;

/// Posts a message, repeated while the project is held.
async fn post(client: &Client, body: &Value, key: &str) -> Value {
    support::wait_for("the message to be accepted", async || {
        let request = client
            .request(Method::POST, "/api/chat/stream")
            .header("idempotency-key", key)
            .header("accept", "application/json")
            .json(body);
        let (status, posted) = answer(request.send().await.ok()?).await;
        match status {
            StatusCode::OK | StatusCode::ACCEPTED => Some(posted),
            StatusCode::SERVICE_UNAVAILABLE => None,
            other => panic!("{other}: {posted}"),
        }
    })
    .await
}

/// Reads a log until this number of turns has ended, reconnecting with the cursor.
async fn follow(client: &Client, path: &str, turns: usize) -> Vec<Frame> {
    let began = Instant::now();
    let mut frames: Vec<Frame> = Vec::new();
    loop {
        let cursor = frames.last().and_then(|frame| frame.id);
        let response = support::wait_for("a stream", async || {
            let mut request = client.request(Method::GET, path);
            if let Some(cursor) = cursor {
                request = request.header("last-event-id", cursor.to_string());
            }
            let response = request.send().await.ok()?;
            match response.status() {
                StatusCode::OK => Some(response),
                StatusCode::SERVICE_UNAVAILABLE => None,
                other => panic!("{path} after {cursor:?}: {other}"),
            }
        })
        .await;
        let mut stream = Stream::of(response);
        while let Some(frame) = stream.next_event().await {
            frames.push(frame);
            if frames.iter().filter(|frame| frame.kind() == "done").count() == turns {
                return frames;
            }
        }
        assert!(began.elapsed() < 4 * LIMIT, "{path}: {} events", frames.len());
    }
}

/// Takes the turns of a conversation, and returns what a reader of it got.
async fn converse(client: &Client, number: usize) -> Vec<Frame> {
    let first = post(client, &json!({"message": "turn 0"}), &format!("{number}-0")).await;
    let conversation = first["conversationId"].as_str().expect("an id").to_owned();
    let path = format!("/api/conversations/{conversation}/events");
    let write = async {
        let mut run = first["runId"].as_str().expect("an id").to_owned();
        for turn in 1..=TURNS {
            let frames = follow(client, &format!("/api/runs/{run}/events"), 1).await;
            assert_eq!(frames.last().expect("its end").json()["status"], "completed");
            if turn < TURNS {
                let body = json!({"message": format!("turn {turn}"), "conversationId": conversation});
                let posted = post(client, &body, &format!("{number}-{turn}")).await;
                run = posted["runId"].as_str().expect("an id").to_owned();
            }
        }
    };
    let ((), frames) = tokio::join!(write, follow(client, &path, TURNS));
    frames
}

#[tokio::test]
async fn moves_under_load_lose_and_repeat_nothing() {
    let fleet = Fleet::start().await;
    let client = fleet.app.client();
    let whole: String = (0..WORDS).map(|n| format!("word{n} ")).collect();
    fleet.app.model.always("turn", Reply::text(&whole).words_every(10));
    let moves = async {
        for cell in [Some(CELL), None, Some(CELL)] {
            fleet.move_to(cell).await;
        }
    };
    let conversations = join_all((0..CONVERSATIONS).map(|number| converse(&client, number)));
    let ((), logs) = tokio::join!(moves, conversations);
    for frames in logs {
        let seqs: Vec<i64> = frames.iter().filter_map(|frame| frame.id).collect();
        assert_eq!(seqs, (1..=frames.len() as i64).collect::<Vec<_>>());
        assert_eq!(text(&frames), whole.repeat(TURNS));
        let ends = frames.iter().filter(|frame| frame.kind() == "done").count();
        assert_eq!(ends, TURNS);
    }
    assert_eq!(fleet.app.model.violations(), Vec::<String>::new());
}
