//! A database that is restored to an earlier state: its readers are reset, and no log contains two histories.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rejoin_cli::dev::postgres::PrivatePostgres;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Frame, Stream, answer, json_of, kinds, of_kind, text};
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

/// Makes the server that starts with these data recover them as a backup, with another timeline.
fn recover(copy: &Path) {
    let settings = copy.join("postgresql.auto.conf");
    let text = std::fs::read_to_string(&settings).unwrap();
    // It serves nothing before it is promoted, which happens at the end of its own log.
    std::fs::write(
        &settings,
        format!("{text}restore_command = 'false'\nhot_standby = off\n"),
    )
    .unwrap();
    // The server's user owns the copy.
    let status = Command::new("cp")
        .arg("-a")
        .args([copy.join("PG_VERSION"), copy.join("recovery.signal")])
        .status()
        .unwrap();
    assert!(status.success());
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

fn epoch_of(stream: &Stream) -> String {
    stream.headers["x-log-epoch"].to_str().unwrap().to_owned()
}

/// Reads up to a frame that is an event or about the log.
async fn first_of(stream: &mut Stream) -> Frame {
    loop {
        let frame = stream.next().await.expect("the stream goes on");
        if frame.data.is_some() {
            return frame;
        }
    }
}

#[tokio::test]
async fn a_restored_log_that_grew_again_rewinds_its_readers() {
    let (postgres, database) = support::own_server_database().await;
    let app = TestApp::over(database, AppOptions::default()).await;
    let agent = app.agent("writer", &[]).await;
    let gate = Arc::new(Notify::new());
    app.model.script([
        Reply::tokens(400).words_every(10).gate(gate.clone()),
        // As slowly: words that come together are one event, and the log must become longer than it was.
        Reply::tokens(400).words_every(10),
    ]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "write", "agentDefinitionId": agent}))
        .await;
    let path = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    let (reader, seen) = until_word(&client, &path, "t20 ").await;
    let (epoch, kept) = (epoch_of(&reader), seen.last().unwrap().id.unwrap());
    drop(reader);
    let copy = back_up(&postgres).await;
    let (mut reader, seen) = until_word(&client, &path, "t199 ").await;
    // A crash begins no epoch.
    assert_eq!(epoch_of(&reader), epoch);
    let lost = seen.last().unwrap().id.unwrap();
    recover(&copy);
    restore(&postgres, &copy).await;
    gate.notify_one();

    // The log has all words again, and is longer than it was.
    let frames = log_of(&client, &events_of(&posted)).await;
    assert_eq!(text(&frames), tokens(400));
    assert_eq!((count(&frames, "reset"), count(&frames, "done")), (1, 1));
    let end = frames.last().unwrap().id.unwrap();
    assert!(end > lost, "{end} > {lost}");

    // The connected reader got nothing of it behind what it had.
    while let Some(frame) = reader.next().await {
        assert_eq!(frame.id, None, "an event of the other history: {frame:?}");
    }
    // With the epoch of what it has, it is notified when it comes back.
    let after = |epoch: &str, on_gap: &str| format!("{path}?epoch={epoch}{on_gap}");
    let back = client
        .request(Method::GET, &after(&epoch, ""))
        .header("last-event-id", lost.to_string())
        .send()
        .await
        .unwrap();
    let (status, problem) = answer(back).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("cursor_rewound")),
        "{problem}"
    );
    assert_eq!(problem["lastSeq"], json!(end));
    assert_eq!(problem["snapshotUrl"], format!("{path}?from=snapshot"));
    // An epoch that is not known here was lost itself.
    for epoch in [epoch.as_str(), "00000000-0000-0000-0000-000000000000"] {
        let mut reply = client.stream_after(&after(epoch, "&on_gap=event"), lost).await;
        let rewound = first_of(&mut reply).await;
        assert_eq!(
            rewound.json(),
            json!({"type": "rewound", "after": lost, "last": end}),
            "{epoch}"
        );
        let snapshot = first_of(&mut reply).await;
        assert_eq!((snapshot.kind().as_str(), snapshot.id), ("snapshot", Some(end)));
    }
    // What was there before the restore's moment is the same.
    let mut reply = client.stream_after(&after(&epoch, ""), kept).await;
    let new = epoch_of(&reply);
    assert_ne!(new, epoch);
    assert_eq!(first_of(&mut reply).await.id, Some(kept + 1));
    let mut reply = client.stream_after(&after(&new, ""), lost).await;
    assert_eq!(first_of(&mut reply).await.id, Some(lost + 1));
    drop(app);
    postgres.stop().await.unwrap();
}
