//! Trees of runs: they finish on one slot, are cancelled as a whole, and join once while workers die.

use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::{json_of, kinds, of_kind};
use rejoin_tests::model_server::{Reply, last_user_message};
use rejoin_tests::replies::spawn;
use rejoin_tests::support;
use serde_json::{Value, json};

use super::spawning::{events, runs};

/// Requirements: C05, C60.
#[tokio::test]
async fn a_tree_of_twenty_sub_agents_finishes_on_one_slot() {
    let app = TestApp::with(AppOptions {
        slots: 1,
        ..AppOptions::default()
    })
    .await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("middle", &["spawn_agents"]).await;
    app.agent("leaf", &[]).await;
    app.model.on(
        "go",
        [
            spawn(&[
                ("middle", "part 0"),
                ("middle", "part 1"),
                ("middle", "part 2"),
                ("middle", "part 3"),
            ]),
            Reply::text("Joined."),
        ],
    );
    for part in 0..4 {
        let leaves = ["leaf"; 4].map(|leaf| (leaf, "little"));
        app.model.on(
            &format!("part {part}"),
            [spawn(&leaves), Reply::text(format!("Part {part}."))],
        );
    }
    app.model.always("little", Reply::text("Done."));
    let frames = app.client().ask(Some(boss), "go").await;
    let events = json_of(&frames);
    assert_eq!(events.last().unwrap()["status"], "completed");
    let runs = runs(&app).await;
    assert_eq!(runs.len(), 1 + 4 + 16);
    assert!(runs.iter().all(|(_, state, _)| state == "completed"), "{runs:?}");
    assert_eq!(of_kind(&events, "done").len(), 1);
    let left: i64 = sqlx::query_scalar("select count(*) from queue.jobs")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn cancelling_a_parent_cancels_its_tree() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("middle", &["spawn_agents"]).await;
    app.agent("leaf", &[]).await;
    app.model
        .on("go", [spawn(&[("middle", "part"), ("leaf", "hang here")])]);
    app.model.on("part", [spawn(&[("leaf", "hang there")])]);
    app.model.on("hang", [Reply::hang_after(1), Reply::hang_after(1)]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "go", "agentDefinitionId": boss}))
        .await;
    let run = posted["runId"].as_str().unwrap().to_owned();
    support::wait_for("both leaves to speak", async || {
        let speaking: i64 = sqlx::query_scalar(
            "select count(distinct data::jsonb ->> 'runId') from stream.each_event where type = 'token'",
        )
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
        (speaking == 2).then_some(())
    })
    .await;
    client.post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    let frames = client.stream(&format!("/api/runs/{run}/events")).await.rest().await;
    let events = json_of(&frames);
    assert_eq!(events.last().unwrap()["type"], "done");
    assert_eq!(events.last().unwrap()["status"], "cancelled");
    let runs = runs(&app).await;
    assert!(
        runs.len() == 4 && runs.iter().all(|(_, state, _)| state == "cancelled"),
        "{runs:?}"
    );
    let calls = of_kind(&events, "mcp_tool");
    let (begun, ended): (Vec<&Value>, Vec<&Value>) = calls.into_iter().partition(|event| event["status"] == "started");
    assert_eq!(begun.len(), ended.len(), "whatever readers saw begin also ended");
    app.wait_until_idle().await;
}

/// Invariant I12.
#[tokio::test]
async fn every_parent_joins_once_while_workers_die() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("middle", &["spawn_agents"]).await;
    app.agent("leaf", &[]).await;
    // By the request alone: a dying worker uses up no reply.
    app.model.answer_by(|request| {
        let asked = last_user_message(request);
        let has_joined = request["messages"]
            .as_array()?
            .iter()
            .any(|message| message["role"] == "tool");
        Some(match (asked.as_str(), has_joined) {
            ("little", _) => Reply::text("one two three four five").words_every(100),
            ("go", false) => spawn(&[("middle", "part a"), ("middle", "part b"), ("leaf", "little")]),
            (_, false) => spawn(&[("leaf", "little"), ("leaf", "little")]),
            (_, true) => Reply::text("Joined."),
        })
    });
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "go", "agentDefinitionId": boss}))
        .await;
    let run = posted["runId"].as_str().unwrap();
    let mut worker = Process::worker(&app);
    for _ in 0..4 {
        let before: i64 = events(&app).await;
        support::wait_for("some progress", async || {
            (events(&app).await > before + 4).then_some(())
        })
        .await;
        worker.kill();
        worker = Process::worker(&app);
    }
    let frames = client.stream(&format!("/api/runs/{run}/events")).await.rest().await;
    let published = json_of(&frames);
    assert_eq!(published.last().unwrap()["status"], "completed");
    assert_eq!(kinds(&frames).iter().filter(|kind| *kind == "done").count(), 1);
    let runs = runs(&app).await;
    assert_eq!(runs.len(), 1 + 3 + 4);
    assert!(runs.iter().all(|(_, state, _)| state == "completed"), "{runs:?}");
    let joins: Vec<(i64,)> = sqlx::query_as(
        "select count(*) from kb.agent_run_messages where content ->> 'tool' = 'spawn_agents' and role = 'tool_result' group by run_id",
    )
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(joins, [(1,), (1,), (1,)], "each parent read its results once");
    worker.kill();
}
