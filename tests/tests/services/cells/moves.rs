//! Moves of a project: its rows, its logs with their numbers, and what happens when the command is killed.

use std::process::Stdio;
use std::time::Duration;

use rejoin_db::rls::{self, Scope};
use rejoin_identity::cells::copying::{self, Ends};
use rejoin_identity::cells::moving::{self, Limits, MoveError, Phase};
use rejoin_tests::app::binary;
use rejoin_tests::client::{Frame, Stream, kinds, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{CELL, Fleet, limits, rows};

fn seqs(frames: &[Frame]) -> Vec<i64> {
    frames.iter().filter_map(|frame| frame.id).collect()
}

/// The epoch of a stream's events.
fn epoch(stream: &Stream) -> String {
    stream.headers["x-log-epoch"].to_str().expect("text").to_owned()
}

/// Reads a conversation's log up to this number of ended turns.
async fn log(fleet: &Fleet, conversation: &Value, turns: usize) -> Vec<Frame> {
    let path = format!("/api/conversations/{}/events", conversation.as_str().expect("an id"));
    let mut stream = fleet.app.client().stream(&path).await;
    let mut frames = Vec::new();
    for _ in 0..turns {
        frames.extend(stream.until("done").await);
    }
    frames
}

#[tokio::test]
async fn a_conversation_goes_on_after_its_project_has_moved() {
    let fleet = Fleet::start().await;
    let (client, project) = (fleet.app.client(), fleet.app.db.workspace_id);
    fleet.app.model.always("turn", Reply::text("one two three"));
    let first = client.post_message(json!({"message": "turn 1"})).await;
    let conversation = first["conversationId"].clone();
    let before = log(&fleet, &conversation, 1).await;

    fleet.move_to(Some(CELL)).await;
    assert_eq!(
        log(&fleet, &conversation, 1).await,
        before,
        "the same log, byte for byte"
    );
    client
        .chat(json!({"message": "turn 2", "conversationId": conversation}))
        .await;
    let after = log(&fleet, &conversation, 2).await;
    assert_eq!(seqs(&after), (1..=after.len() as i64).collect::<Vec<_>>());
    assert_eq!(text(&after), "one two threeone two three");
    assert_eq!(rows(&fleet.cell, "kb.agent_runs", project).await, 2);
    assert_eq!(
        rows(&fleet.app.db, "kb.agent_runs", project).await,
        1,
        "the old rows are there"
    );

    // Deleted, and back again.
    let old = moving::to_clean(&fleet.app.db.pool, 0.0).await.expect("the moves");
    let [mut old] = <[_; 1]>::try_from(old).expect("one move");
    moving::step(&fleet.databases(&old), &limits(), &mut old)
        .await
        .expect("a step");
    assert_eq!(old.phase, Phase::Cleaned);
    assert_eq!(rows(&fleet.app.db, "kb.agent_runs", project).await, 0);
    assert_eq!(
        rows(&fleet.app.db, "kb.project_members", project).await,
        1,
        "identity stays"
    );
    fleet.move_to(None).await;
    assert_eq!(log(&fleet, &conversation, 2).await, after);
    let third = client
        .chat(json!({"message": "turn 3", "conversationId": conversation}))
        .await;
    assert_eq!(kinds(&third).last().map(String::as_str), Some("done"));
    assert_eq!(rows(&fleet.app.db, "kb.agent_runs", project).await, 3);
}

#[tokio::test]
async fn a_reader_reconnects_with_its_cursor_when_its_project_moves() {
    let fleet = Fleet::start().await;
    let client = fleet.app.client();
    fleet.app.model.always("turn", Reply::text("one two three"));
    let posted = client.post_message(json!({"message": "turn 1"})).await;
    let path = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().expect("an id")
    );
    let mut reader = client.stream(&path).await;
    let of_directory = epoch(&reader);
    let mut frames = reader.until("done").await;
    fleet.move_to(Some(CELL)).await;
    assert_eq!(reader.next_event().await, None, "it is asked to reconnect");
    let cursor = frames.last().and_then(|frame| frame.id).expect("a number");
    let mut reader = client
        .stream_after(&format!("{path}?epoch={of_directory}"), cursor)
        .await;
    let of_cell = epoch(&reader);
    assert_ne!(of_cell, of_directory);
    client
        .chat(json!({"message": "turn 2", "conversationId": posted["conversationId"]}))
        .await;
    frames.extend(reader.until("done").await);
    assert_eq!(seqs(&frames), (1..=frames.len() as i64).collect::<Vec<_>>());
    assert_eq!(text(&frames), "one two threeone two three");

    // Back again: the events of both databases are those of the log.
    fleet.move_to(None).await;
    let cursor = frames.last().and_then(|frame| frame.id).expect("a number");
    for known in [&of_directory, &of_cell] {
        let reader = client.stream_after(&format!("{path}?epoch={known}"), cursor).await;
        assert_eq!(epoch(&reader), of_directory);
    }
    let unknown = format!("{path}?epoch={}", Uuid::now_v7());
    let refused = client
        .request(Method::GET, &unknown)
        .header("last-event-id", cursor.to_string());
    let refused = refused.send().await.expect("an answer");
    assert_eq!(refused.status(), 400);
}

#[tokio::test]
async fn a_held_project_is_read_and_not_changed() {
    let fleet = Fleet::start().await;
    let (client, project) = (fleet.app.client(), fleet.app.db.workspace_id);
    let mut moved = moving::begin(&fleet.app.db.pool, project, Some(CELL))
        .await
        .expect("a move");
    let refused = support::wait_for("a refusal", async || {
        let request = client
            .request(Method::POST, "/api/chat/stream")
            .json(&json!({"message": "turn"}));
        let response = request.send().await.expect("an answer");
        (response.status() == 503).then_some(response)
    })
    .await;
    assert_eq!(refused.headers()["retry-after"], "1");
    let refused: Value = refused.json().await.expect("a problem");
    assert_eq!(refused["code"], "project_moving");
    assert_eq!(client.get("/api/conversations").await.0, 200);

    // Undone: as if nothing had been.
    let databases = fleet.databases(&moved);
    moving::undo(&databases, &mut moved, "a test")
        .await
        .expect("it is undone");
    fleet.app.model.always("turn", Reply::text("one"));
    support::wait_for("a turn", async || {
        let (status, _) = client
            .post_for_json("/api/chat/stream", json!({"message": "turn"}))
            .await;
        status.is_success().then_some(())
    })
    .await;
    fleet.app.wait_until_idle().await;
}

#[tokio::test]
async fn a_move_waits_for_what_began_before_its_hold() {
    let fleet = Fleet::start().await;
    let (client, project) = (fleet.app.client(), fleet.app.db.workspace_id);
    fleet.app.model.always("turn", Reply::text("one"));
    let posted = client.post_message(json!({"message": "turn"})).await;
    fleet.app.wait_until_idle().await;
    // Requests whose process is suspended in their transactions, for longer than all others need to notice the hold.
    let mut late = Vec::new();
    for scope in [Scope::User(fleet.app.db.owner()), Scope::Workspace(project)] {
        late.push(rls::begin(&fleet.app.db.pool, scope).await.expect("a transaction"));
    }
    let mut moved = moving::begin(&fleet.app.db.pool, project, Some(CELL))
        .await
        .expect("a move");
    let databases = fleet.databases(&moved);
    let limits = limits();
    let write = async {
        support::wait_for("the hold", async || {
            (rows(&fleet.app.db, "cells.holds", project).await == 1).then_some(())
        })
        .await;
        for mut late in late {
            tokio::time::sleep(3 * limits.settle).await;
            sqlx::query("update kb.chat_conversations set title = title || ' late'")
                .execute(&mut *late)
                .await
                .expect("it began before the hold");
            late.commit().await.expect("a commit");
        }
    };
    let (stopped, ()) = tokio::join!(moving::step(&databases, &limits, &mut moved), write);
    stopped.expect("a step");
    while moved.phase != Phase::Moved {
        moving::step(&databases, &limits, &mut moved).await.expect("a step");
    }
    fleet.wait_until_asked().await;
    let conversation = posted["conversationId"].as_str().expect("an id");
    let (_, read) = client.get(&format!("/api/conversations/{conversation}")).await;
    assert_eq!(read["title"], "turn late late");
}

#[tokio::test]
async fn a_move_waits_for_runs_or_takes_their_leases() {
    let fleet = Fleet::start().await;
    let (client, project) = (fleet.app.client(), fleet.app.db.workspace_id);
    fleet
        .app
        .model
        .script([Reply::hang_after(2), Reply::text("one two three")]);
    let posted = client.post_message(json!({"message": "turn"})).await;
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().expect("an id"));
    let mut reader = client.stream(&path).await;
    reader.until("token").await;
    let mut moved = moving::begin(&fleet.app.db.pool, project, Some(CELL))
        .await
        .expect("a move");
    let databases = fleet.databases(&moved);
    let hasty = Limits {
        wait: Duration::ZERO,
        ..limits()
    };
    let refused = moving::step(&databases, &hasty, &mut moved).await;
    assert!(matches!(refused, Err(MoveError::Running(1))), "{refused:?}");
    let taking = Limits {
        interrupt: true,
        ..hasty
    };
    while moved.phase != Phase::Moved {
        moving::step(&databases, &taking, &mut moved).await.expect("a step");
    }
    // The next attempt, on the new cell, discards the half-written step.
    let frames = support::wait_for("the end of the run", async || {
        let response = client.request(Method::GET, &path).send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let frames = rejoin_tests::client::Stream::of(response).rest().await;
        (frames.last()?.kind() == "done").then_some(frames)
    })
    .await;
    assert_eq!(text(&frames), "one two three");
    assert_eq!(seqs(&frames), (1..=frames.len() as i64).collect::<Vec<_>>());
    assert_eq!(rows(&fleet.cell, "kb.agent_runs", project).await, 1);
}

#[tokio::test]
async fn a_killed_move_goes_on_where_it_was() {
    let fleet = Fleet::start().await;
    let (client, project) = (fleet.app.client(), fleet.app.db.workspace_id);
    fleet.app.model.always("turn", Reply::text("one two three"));
    let posted = client.post_message(json!({"message": "turn 1"})).await;
    let before = log(&fleet, &posted["conversationId"], 1).await;
    fleet.app.wait_until_idle().await;

    // Killed while the workspace was held.
    let mut command = tokio::process::Command::new(binary())
        .args(["cells", "move", &project.to_string(), CELL, "--settle-ms", "600000"])
        .env("DATABASE_URL", &fleet.app.db.url)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the command starts");
    support::wait_for("the hold", async || {
        (rows(&fleet.app.db, "cells.holds", project).await == 1).then_some(())
    })
    .await;
    command.kill().await.expect("a process of ours");

    // Killed after the commit of the copy, before it was recorded.
    let mut moved = moving::begin(&fleet.app.db.pool, project, Some(CELL))
        .await
        .expect("the same move");
    assert_eq!(moved.phase, Phase::Holding);
    let databases = fleet.databases(&moved);
    moving::step(&databases, &limits(), &mut moved).await.expect("a step");
    let ends = Ends {
        directory: &databases.directory,
        from: &databases.from,
        to: &databases.to,
        to_directory: false,
    };
    let counts = copying::copy(ends, project, moved.id).await.expect("a copy");
    assert_eq!(counts["kb.agent_runs"], 1, "{counts:?}");

    let mut again = moving::begin(&fleet.app.db.pool, project, Some(CELL))
        .await
        .expect("the same move");
    assert_eq!((again.id, again.phase), (moved.id, Phase::Copying));
    let decided = moving::undo(&databases, &mut again, "too late").await;
    assert!(matches!(decided, Err(MoveError::Decided)), "{decided:?}");
    while again.phase != Phase::Moved {
        moving::step(&databases, &limits(), &mut again).await.expect("a step");
    }
    fleet.wait_until_asked().await;
    assert_eq!(log(&fleet, &posted["conversationId"], 1).await, before);
    client
        .chat(json!({"message": "turn 2", "conversationId": posted["conversationId"]}))
        .await;
    let after = log(&fleet, &posted["conversationId"], 2).await;
    assert_eq!(text(&after), "one two threeone two three");
    assert_eq!(rows(&fleet.cell, "kb.agent_runs", project).await, 2);
}
