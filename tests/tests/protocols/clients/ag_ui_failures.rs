//! AG-UI's `HttpAgent` in runs that fail, are cancelled or lose their worker, and over connections that are cut.

use std::sync::Arc;

use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::model_server::Reply;
use rejoin_tests::tools::{Ledger, Payment};
use rejoin_tools::registry::Registry;
use reqwest::StatusCode;
use serde_json::json;
use tokio::sync::Semaphore;

use super::ag_ui::{Page, kinds, replied, stored, words};

/// Number of conversations in which the connection is cut at random places.
const CUT_CONVERSATIONS: u32 = 20;

#[tokio::test]
async fn errors_and_cancels_end_the_clients_run() {
    let app = TestApp::start().await;
    app.agent("writer", &[]).await;
    app.model.on("fail", [Reply::status(400)]);
    app.model.on("hang", [Reply::hang_after(3)]);
    app.model.on("leave", [Reply::text(words(50)).words_every(20)]);
    let actions = json!([{"message": "fail"}]);
    let Some(mut page) = Page::open(&app, "writer", "failed", actions) else {
        return;
    };
    let shown = page.next().await;
    assert!(
        shown["runError"]["message"].is_string() && shown["runError"]["code"].is_string(),
        "{shown:#}"
    );
    let hanging = json!([{"message": "hang", "tellAt": "TEXT_MESSAGE_CONTENT"}]);
    let Some(mut page) = Page::open(&app, "writer", "cancelled", hanging) else {
        return;
    };
    page.next().await;
    let run: uuid::Uuid = sqlx::query_scalar("select id from kb.agent_runs where state = 'running'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    let (status, _) = app.client().post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let mut shown = page.next().await;
    while !shown["told"].is_null() {
        shown = page.next().await;
    }
    assert_eq!(shown["outcome"], "cancelled");
    // A client that leaves cancels nothing; it may come back.
    let leaving = json!([{"message": "leave", "abortAt": "TEXT_MESSAGE_CONTENT"}, {"connect": true}]);
    let Some(mut page) = Page::open(&app, "writer", "left", leaving) else {
        return;
    };
    page.next().await;
    let shown = page.next().await;
    assert_eq!(replied(&shown), words(50));
    assert_eq!(replied(&shown), stored(&app, "left").await);
}

#[tokio::test]
async fn words_of_a_killed_worker_are_taken_back() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    app.agent("writer", &[]).await;
    let whole: String = (0..30).map(|i| format!("other{i} ")).collect();
    app.model.script([Reply::hang_after(10), Reply::text(&whole)]);
    let victim = Process::worker(&app);
    let actions = json!([{"message": "write", "tellAt": "TEXT_MESSAGE_START"}]);
    let Some(mut page) = Page::open(&app, "writer", "t", actions) else {
        return;
    };
    page.next().await;
    victim.kill();
    let _heir = Process::worker(&app);
    let mut shown = page.next().await;
    while !shown["told"].is_null() {
        shown = page.next().await;
    }
    assert!(kinds(&shown).contains(&"MESSAGES_SNAPSHOT"));
    assert_eq!(
        (replied(&shown), shown["outcome"].as_str()),
        (whole.clone(), Some("success"))
    );
    assert_eq!(stored(&app, "t").await, whole);
}

#[tokio::test]
async fn a_cut_connection_costs_and_repeats_nothing() {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(99)));
    let app = TestApp::with(AppOptions {
        tools: Registry::new([Payment::shared(&ledger, &gate, false)]),
        ..AppOptions::default()
    })
    .await;
    app.agent("payer", &["pay"]).await;
    let mut cuts = 0;
    for seed in 0..CUT_CONVERSATIONS {
        app.model.script([
            Reply::text("I will pay. ")
                .reasoning("Pay.")
                .then_tool("pay", json!({"amount": 5})),
            Reply::text(words(40)).words_every(2),
        ]);
        let thread = format!("cut {seed}");
        let script = json!({"cutSeed": seed, "actions": [{"message": "pay"}]});
        let Some(mut page) = Page::with(&app, "payer", &thread, script) else {
            return;
        };
        let shown = page.next().await;
        assert_eq!(replied(&shown), stored(&app, &thread).await, "seed {seed}: {shown:#}");
        assert_eq!(kinds(&shown).iter().filter(|kind| **kind == "RUN_STARTED").count(), 1);
        cuts += shown["cuts"].as_u64().unwrap();
    }
    assert!(cuts > u64::from(CUT_CONVERSATIONS), "{cuts} cuts");
}
