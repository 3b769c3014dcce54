//! Turns in which a tool, the model or its key fails: readers get the error in words, and nothing follows `done`.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, kinds, of_kind, text};
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};
use uuid::Uuid;

use super::turns::rows;

/// Requirements: B16, B17.
#[tokio::test]
async fn a_failing_tool_is_an_error_event_and_the_agent_goes_on() {
    let app = TestApp::start().await;
    let agent = app.agent("clumsy", &["get_entity_edges"]).await;
    app.model.script([
        Reply::tools([
            ("get_entity_edges", json!({"entity_id": Uuid::now_v7()})),
            ("no_such_tool", json!({})),
            ("get_entity_edges", json!({"wrong": true})),
        ]),
        Reply::text("I could not find it."),
    ]);
    let frames = app.client().ask(Some(agent), "edges?").await;
    let events = json_of(&frames);
    let tools = of_kind(&events, "mcp_tool");
    let statuses: Vec<&Value> = tools.iter().map(|event| &event["status"]).collect();
    assert_eq!(statuses, ["started", "error", "started", "error", "started", "error"]);
    assert!(tools[1]["error"].as_str().is_some_and(|error| !error.is_empty()));
    assert!(
        tools[3]["error"].as_str().unwrap().contains("get_entity_edges"),
        "it names what there is: {}",
        tools[3]
    );
    assert_eq!(of_kind(&events, "done")[0]["status"], "completed");
    assert_eq!(text(&frames), "I could not find it.");
    let calls = rows(
        &app,
        "select to_jsonb(c) from kb.agent_run_tool_calls c order by position",
    )
    .await;
    assert!(
        calls
            .iter()
            .all(|call| call["status"] == "error" && call["error"].is_string()),
        "{calls:?}"
    );
    assert!(app.model.violations().is_empty(), "{:?}", app.model.violations());
}

/// Requirements: B09.
#[tokio::test]
async fn a_failing_model_is_an_error_before_done() {
    let app = TestApp::start().await;
    let agent = app.agent("unlucky", &[]).await;
    app.model.script([Reply::status(401)]);
    let frames = app.client().ask(Some(agent), "hello").await;
    let events = json_of(&frames);
    assert_eq!(kinds(&frames), ["message", "meta", "error", "done"]);
    assert_eq!(
        (&events[2]["code"], &events[2]["retryable"]),
        (&json!("model_key_rejected"), &json!(false))
    );
    assert_eq!(events[3]["status"], "failed");
    // Cut after the first token: reported, and the partial text is kept.
    app.model.script([Reply::cut_after(3)]);
    let frames = app.client().ask(Some(agent), "again").await;
    let events = json_of(&frames);
    assert_eq!(of_kind(&events, "error")[0]["code"], "model_stream_cut");
    assert_eq!(of_kind(&events, "done")[0]["status"], "failed");
    let kept = rows(
        &app,
        "select to_jsonb(content) from kb.chat_messages where role = 'assistant'",
    )
    .await;
    assert_eq!(kept, [json!(text(&frames))]);
    app.wait_until_idle().await;
}

/// Invariant I2.
#[tokio::test]
async fn nothing_of_a_turn_comes_after_its_done_however_it_ends() {
    let app = TestApp::with(AppOptions {
        worker: |config| config.flush_ms = 200,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("hasty", &[]).await;
    // Interrupted while its last words are still waiting to be written.
    for words in [1, 2, 3, 5, 8] {
        app.model.script([Reply::cut_after(words)]);
        let frames = app.client().ask(Some(agent), "go").await;
        let conversation = frames[1].json()["conversationId"].as_str().unwrap().to_owned();
        app.wait_until_idle().await;
        let log: Vec<String> =
            sqlx::query_scalar("select type from stream.each_event where log_id = $1::uuid order by seq")
                .bind(&conversation)
                .fetch_all(&app.db.pool)
                .await
                .unwrap();
        assert_eq!(
            log.iter().position(|kind| kind == "done"),
            Some(log.len() - 1),
            "{log:?}"
        );
        assert_eq!(text(&frames).split_whitespace().count(), words);
        assert_eq!(frames.len(), log.len(), "the reader got all of it");
    }
}

#[tokio::test]
async fn a_model_that_is_busy_is_asked_again_before_its_first_token() {
    let app = TestApp::start().await;
    let agent = app.agent("patient", &[]).await;
    app.model.script([
        Reply::status(429).retry_after(1),
        Reply::status(500),
        Reply::text("here I am"),
    ]);
    let frames = app.client().ask(Some(agent), "hello").await;
    assert_eq!(text(&frames), "here I am");
    assert_eq!(kinds(&frames), ["message", "meta", "token", "usage", "message", "done"]);
}

#[tokio::test]
async fn a_missing_model_key_names_its_variable() {
    let app = TestApp::start().await;
    let agent = app
        .agent_with("keyless", &[], |content| {
            content.model = Some(rejoin_models::choice::ModelChoice::named("anthropic:claude-x"));
        })
        .await;
    let frames = app.client().ask(Some(agent), "hello").await;
    let events = json_of(&frames);
    let error = of_kind(&events, "error")[0];
    assert_eq!(error["code"], "model_key_missing");
    assert!(
        error["error"].as_str().unwrap().contains("ANTHROPIC_API_KEY"),
        "{error}"
    );
    assert_eq!(events.last().unwrap()["status"], "failed");
}
