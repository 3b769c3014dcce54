//! The commands of docs/operations/cells.md, as an operator runs them.

use rejoin_tests::app::binary;
use rejoin_tests::client::kinds;
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};

use super::{CELL, Fleet, UrlFile, rows};

/// Runs `rejoin --json cells` on the directory, and returns whether it succeeded, its lines, and what it said.
async fn cells(fleet: &Fleet, words: &[&str]) -> (bool, Vec<Value>, String) {
    let output = tokio::process::Command::new(binary())
        .args(["--json", "cells"])
        .args(words)
        .env("DATABASE_URL", &fleet.app.db.url)
        .env("REJOIN_CELLS_SETTLE_MS", "400")
        .kill_on_drop(true)
        .output()
        .await
        .expect("the command runs");
    let lines = String::from_utf8(output.stdout).expect("text");
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let said = String::from_utf8(output.stderr).expect("text");
    (output.status.success(), lines, said)
}

#[tokio::test]
async fn operators_place_projects_on_cells_by_commands() {
    let fleet = Fleet::start().await;
    let project = fleet.app.db.workspace_id.to_string();
    fleet.app.model.always("turn", Reply::text("one two three"));
    fleet.app.client().ask(None, "turn").await;
    fleet.app.wait_until_idle().await;

    let source = fleet.url.source().to_string();
    let (done, _, said) = cells(&fleet, &["add", CELL, "--url-from", &source]).await;
    assert!(done, "{said}");
    let (done, _, said) = cells(&fleet, &["add", "c", "--url-from", "env:REJOIN_TEST_NO_SUCH_URL"]).await;
    assert!(!done && said.contains("is not set"), "{said}");
    let own = UrlFile::new(&fleet.app.db.url);
    let (done, _, said) = cells(&fleet, &["add", "c", "--url-from", &own.source().to_string()]).await;
    assert!(!done && said.contains("cell"), "the directory itself: {said}");
    let (done, moved, said) = cells(&fleet, &["move", &project, CELL]).await;
    assert!(done, "{said}");
    assert_eq!((&moved[0]["phase"], &moved[0]["to"]), (&json!("moved"), &json!(CELL)));
    let (done, _, said) = cells(&fleet, &["move", &project, CELL]).await;
    assert!(!done && said.contains("already"), "{said}");
    let (_, listed, _) = cells(&fleet, &["list"]).await;
    let shown: Vec<(&Value, &Value)> = listed.iter().map(|cell| (&cell["name"], &cell["projects"])).collect();
    assert_eq!(shown, [(&json!("directory"), &json!(0)), (&json!(CELL), &json!(1))]);
    let (done, cleaned, said) = cells(&fleet, &["clean", "--older-than-s", "0"]).await;
    assert!(done, "{said}");
    assert_eq!(cleaned[0]["phase"], "cleaned");
    assert_eq!(rows(&fleet.app.db, "kb.agent_runs", fleet.app.db.workspace_id).await, 0);

    let frames = fleet.app.client().ask(None, "turn").await;
    assert_eq!(kinds(&frames).last().map(String::as_str), Some("done"));
    let (done, _, said) = cells(&fleet, &["drain", CELL, "--to", "directory"]).await;
    assert!(done, "{said}");
    assert_eq!(rows(&fleet.app.db, "kb.agent_runs", fleet.app.db.workspace_id).await, 2);
    let (done, _, said) = cells(&fleet, &["move", &project, CELL]).await;
    assert!(!done && said.contains("draining"), "{said}");
    let (done, _, said) = cells(&fleet, &["move", &project, "--undo"]).await;
    assert!(!done && said.contains("no move"), "{said}");
}
