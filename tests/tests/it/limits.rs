//! The limits of a run, as its readers and its model see them.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use serde_json::{Value, json};

#[tokio::test]
async fn c19_a30_at_the_step_limit_the_model_has_one_last_word_without_tools_and_the_run_pauses() {
    let app = TestApp::start().await;
    let agent = app
        .agent_with("wanderer", &["list_*", "schema_version"], |content| {
            content.max_steps = Some(2)
        })
        .await;
    app.model.script([
        Reply::tool("schema_version", json!({})),
        Reply::tool("list_entity_types", json!({})),
        Reply::text("This is as far as I got.").then_tool("schema_version", json!({})),
    ]);
    let frames = app.client().ask(Some(agent), "go").await;
    let requests = app.model.requests();
    assert_eq!(requests.len(), 3);
    assert!(
        requests[2]["tools"].as_array().is_none_or(Vec::is_empty),
        "tools are off"
    );
    assert!(
        sent(&requests[2]).last().unwrap().1.contains("Summarize"),
        "it was told to stop"
    );
    let events = json_of(&frames);
    assert_eq!(events.last().unwrap()["status"], "paused");
    assert_eq!(text(&frames), "This is as far as I got.");
    assert_eq!(of_kind(&events, "mcp_tool").len(), 4, "the last call was not executed");
}

#[tokio::test]
async fn c22_the_third_identical_call_is_not_executed_and_the_fifth_ends_the_run() {
    let app = TestApp::start().await;
    let agent = app.agent("stuck", &["schema_version"]).await;
    app.model
        .script((0..6).map(|_| Reply::tool("schema_version", json!({}))));
    let frames = app.client().ask(Some(agent), "go").await;
    let events = json_of(&frames);
    let ends: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .map(|event| &event["status"])
        .filter(|s| **s != "started")
        .collect();
    assert_eq!(ends, ["completed", "completed", "error", "error", "error"]);
    assert_eq!(of_kind(&events, "error")[0]["code"], "doom_loop");
    assert_eq!(events.last().unwrap()["status"], "failed");
    assert_eq!(app.model.requests().len(), 5);
}

#[tokio::test]
async fn c21_at_the_timeout_a_run_has_its_grace_and_then_pauses() {
    let app = TestApp::with(AppOptions {
        worker: |config| config.run_grace_s = 1,
        ..AppOptions::default()
    })
    .await;
    let agent = app
        .agent_with("slow", &[], |content| content.default_timeout = Some(1))
        .await;
    app.model.script([Reply::hang_after(2)]);
    let frames = app.client().ask(Some(agent), "go").await;
    let events = json_of(&frames);
    assert_eq!(events.last().unwrap()["status"], "paused");
    assert_eq!(of_kind(&events, "error")[0]["code"], "timeout");
}
