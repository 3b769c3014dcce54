//! A database that is restored to an earlier state: its readers are reset, and no log contains two histories.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rejoin_cli::dev::postgres::PrivatePostgres;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{answer, json_of, kinds, of_kind, text};
use rejoin_tests::model_server::Reply;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::sync::Notify;

use super::outages::{count, events_of, log_of, seqs, tokens, until_word};
use rejoin_tests::support;

/// Copies the server's data as after a crash at this moment; the server continues.
async fn back_up(postgres: &PrivatePostgres) -> PathBuf {
    let copy = postgres.cluster_dir().with_extension("backup");
    postgres.stop_immediate().await.unwrap();
    copy_dir(postgres.cluster_dir(), &copy);
    postgres.restart().await.unwrap();
    copy
}

/// Restores the server's data, at the same address.
async fn restore(postgres: &PrivatePostgres, copy: &Path) {
    postgres.stop_immediate().await.unwrap();
    std::fs::remove_dir_all(postgres.cluster_dir()).unwrap();
    std::fs::rename(copy, postgres.cluster_dir()).unwrap();
    // The minimum duration of a restore: everyone notices the outage.
    tokio::time::sleep(Duration::from_secs(2)).await;
    postgres.restart().await.unwrap();
}

fn copy_dir(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn a_restored_older_database_resets_its_readers() {
    let (postgres, database) = support::own_server_database().await;
    let app = TestApp::over(database, AppOptions::default()).await;
    let agent = app.agent("writer", &[]).await;
    let gate = Arc::new(Notify::new());
    app.model.script([
        Reply::tokens(400).words_every(10).gate(gate.clone()),
        Reply::tokens(400).words_every(1),
    ]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    let path = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    until_word(&client, &path, "t20 ").await;
    let copy = back_up(&postgres).await;
    // It continues: a crash alone loses nothing.
    let (mut reader, seen) = until_word(&client, &path, "t199 ").await;
    assert_eq!(count(&seen, "reset"), 0);
    let cursor = seen.last().unwrap().id.unwrap();
    restore(&postgres, &copy).await;

    // Connected readers are disconnected, and notified when they reconnect with their cursor.
    let mut last = None;
    while let Some(frame) = reader.next().await {
        assert_eq!(frame.id, None, "nothing of the other history: {frame:?}");
        if frame.data.is_some() {
            last = Some(frame.kind());
        }
    }
    assert_eq!(last.as_deref(), Some("goaway"));
    let back = client
        .request(Method::GET, &path)
        .header("last-event-id", cursor.to_string())
        .send()
        .await
        .unwrap();
    let (status, problem) = answer(back).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("cursor_ahead")),
        "{problem}"
    );
    assert!(problem["lastSeq"].as_i64().unwrap() < cursor);
    assert_eq!(problem["snapshotUrl"], format!("{path}?from=snapshot"));
    let mut reply = client.stream_after(&format!("{path}?on_gap=event"), cursor).await;
    let mut opening = Vec::new();
    while opening.len() < 2 {
        let frame = reply.next().await.expect("a gap, then a snapshot");
        if frame.data.is_some() {
            opening.push(frame);
        }
    }
    assert_eq!(kinds(&opening), ["gap", "snapshot"]);

    // The worker would continue a lost history, which it must not.
    gate.notify_one();
    let rest = reply.until("done").await;
    assert_eq!(count(&rest, "reset"), 1);
    let frames = log_of(&client, &events_of(&posted)).await;
    assert_eq!(seqs(&frames), (1..=frames.len() as i64).collect::<Vec<_>>());
    assert_eq!(text(&frames), tokens(400));
    assert_eq!((count(&frames, "reset"), count(&frames, "done")), (1, 1));
    let events = json_of(&frames);
    assert_eq!(of_kind(&events, "message")[1]["message"]["content"], tokens(400));
    drop(app);
    postgres.stop().await.unwrap();
}
