//! The limits of a run, as seen by its readers and its model.

use std::sync::Arc;

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use serde_json::{Value, json};
use tokio::sync::Notify;

use rejoin_tests::replies::spawn;

/// Requirements: C19, A30.
#[tokio::test]
async fn at_the_step_limit_a_last_call_without_tools_then_a_pause() {
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

/// Requirements: C22.
#[tokio::test]
async fn the_third_identical_call_is_skipped_the_fifth_ends_the_run() {
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

/// Requirements: C22.
#[tokio::test]
async fn deferred_calls_are_checked_for_repetition_too() {
    let app = TestApp::start().await;
    let boss = app
        .agent_with("boss", &["spawn_agents"], |content| content.max_steps = None)
        .await;
    app.agent("leaf", &[]).await;
    app.model
        .on("go", (0..6).map(|_| spawn(&[("leaf", "little")])).collect::<Vec<_>>());
    app.model.always("little", Reply::text("nothing new"));
    let events = json_of(&app.client().ask(Some(boss), "go").await);
    let ends: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .map(|event| &event["status"])
        .filter(|status| **status != "started")
        .collect();
    assert_eq!(ends, ["completed", "completed", "error", "error", "error"]);
    assert_eq!(of_kind(&events, "error")[0]["code"], "doom_loop");
    assert_eq!(events.last().unwrap()["status"], "failed");
    let started: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs where parent_run_id is not null")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(started, 2, "the third call starts nobody");
}

/// Requirements: C22.
#[tokio::test]
async fn a_sub_agent_that_finds_something_new_each_time_is_no_loop() {
    let app = TestApp::start().await;
    let boss = app
        .agent_with("boss", &["spawn_agents"], |content| content.max_steps = None)
        .await;
    app.agent("leaf", &[]).await;
    let again = (0..6).map(|_| spawn(&[("leaf", "little")]));
    app.model
        .on("go", again.chain([Reply::text("Enough.")]).collect::<Vec<_>>());
    app.model.on(
        "little",
        (0..6).map(|n| Reply::text(format!("found {n}"))).collect::<Vec<_>>(),
    );
    let events = json_of(&app.client().ask(Some(boss), "go").await);
    assert_eq!(events.last().unwrap()["status"], "completed");
    assert_eq!(of_kind(&events, "error").len(), 0);
}

/// An agent with a turn limit of one second exceeds it during an answer.
async fn late(grace_s: u64) -> (TestApp, Vec<Value>) {
    let app = TestApp::with(AppOptions {
        worker: match grace_s {
            0 => |config| config.run_grace_s = 0,
            _ => |config| config.run_grace_s = 300,
        },
        ..AppOptions::default()
    })
    .await;
    let agent = app
        .agent_with("slow", &["schema_version"], |content| content.default_timeout = Some(1))
        .await;
    let gate = Arc::new(Notify::new());
    app.model.script([
        Reply::tool("schema_version", json!({})).gate(gate.clone()),
        Reply::text("This is what I have."),
    ]);
    let client = app.client();
    let asking = client.ask(Some(agent), "go");
    let opening = async {
        support::wait_for("its time to be over", async || {
            sqlx::query_scalar::<_, bool>(
                "select clock_timestamp() > started_at + interval '1500 ms' from kb.agent_runs where started_at is not null",
            )
            .fetch_optional(&app.db.pool)
            .await
            .unwrap()
            .filter(|is_over| *is_over)
        })
        .await;
        gate.notify_one();
    };
    let (frames, ()) = tokio::join!(asking, opening);
    let events = json_of(&frames);
    (app, events)
}

/// Requirements: C21.
#[tokio::test]
async fn at_the_timeout_the_model_has_a_last_word_within_the_grace() {
    let (app, events) = late(300).await;
    let requests = app.model.requests();
    assert_eq!(requests.len(), 2, "it is asked once more");
    let last = sent(&requests[1]).last().unwrap().1.clone();
    assert!(last.starts_with("Your time limit is reached."), "{last}");
    assert!(
        requests[1]["tools"].as_array().is_none_or(Vec::is_empty),
        "tools are off"
    );
    assert_eq!(of_kind(&events, "limit")[0]["limit"], "timeout");
    assert_eq!(events.last().unwrap()["status"], "paused");
    let message = of_kind(&events, "message").pop().unwrap();
    assert_eq!(message["message"]["content"], "This is what I have.");
}

/// Requirements: C21.
#[tokio::test]
async fn without_a_grace_the_run_is_cut_at_its_timeout() {
    let (app, events) = late(0).await;
    assert_eq!(app.model.requests().len(), 1, "no last word");
    assert_eq!(events.last().unwrap()["status"], "paused");
    assert_eq!(of_kind(&events, "error")[0]["code"], "timeout");
}

/// Requirements: C21.
#[tokio::test]
async fn a_run_that_ignores_its_grace_is_cut_at_the_end_of_it() {
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

/// Requirements: C25.
#[tokio::test]
async fn steps_are_counted_and_not_what_they_cost() {
    let app = TestApp::start().await;
    let agent = app
        .agent_with("thrifty", &["find_path"], |content| content.max_steps = Some(3))
        .await;
    for (question, words) in [("say little", 1), ("say much", 5_000)] {
        let call = |n: usize| {
            let ends = json!({"from_entity": format!("a{n}"), "to_entity": "b"});
            Reply::tokens(words).then_tool("find_path", ends)
        };
        let replies: Vec<Reply> = (0..3).map(call).chain([Reply::text("That is all.")]).collect();
        app.model.on(question, replies);
        let events = json_of(&app.client().ask(Some(agent), question).await);
        let limits: Vec<&Value> = of_kind(&events, "limit").iter().map(|event| &event["limit"]).collect();
        assert_eq!(limits, ["step_limit"], "{question}");
        let end = events.last().unwrap();
        assert_eq!(
            (&end["status"], &end["usage"]["steps"]),
            (&json!("paused"), &json!(4)),
            "three steps and a last word, however long they were"
        );
    }
}
