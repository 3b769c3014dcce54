//! How many SQL statements turns take whose calls programs execute.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::counted::{self, listed, total};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use serde_json::json;

use super::agents::{clerk, path_of, turn};
use super::{Program, events_of, tool};

const TURNS: i64 = 12;
/// Turns before that: connections, prepared statements, caches.
const WARM_UP: i64 = 3;
/// Statements of a turn without steps, of API and worker.
const TURN_MAX: i64 = 54;

#[tokio::test]
async fn a_function_s_turn_keeps_to_its_budget_of_statements() {
    let (_server, db) = support::with_counted_statements().await;
    let app = TestApp::over(db, AppOptions::default()).await;
    let (program, agent) = clerk(&app).await;
    let turns = async |count: i64| {
        for _ in 0..count {
            let (posted, call) = turn(&app, &program, &agent).await;
            let (status, state) = program.complete(&call, json!("Refunded.")).await;
            assert!(status.is_success(), "{state}");
            app.client().stream(&path_of(&posted)).await.rest().await;
            app.wait_until_idle().await;
        }
    };
    turns(WARM_UP).await;
    counted::reset(&app).await;
    turns(TURNS).await;
    let found = counted::per_turn(&app, TURNS).await;
    assert!(
        total(&found) <= TURN_MAX,
        "{} statements:\n{}",
        total(&found),
        listed(&found)
    );
}

#[tokio::test]
async fn calls_of_a_step_that_end_together_take_one_statement() {
    let (_server, db) = support::with_counted_statements().await;
    let options = AppOptions {
        worker: |config| config.remote_hold_ms = 60_000,
        ..AppOptions::default()
    };
    let app = TestApp::over(db, options).await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let agent = app.agent("clerk", &["refund"]).await;
    let orders = ["1", "2", "3"].map(|order| ("refund", json!({ "order": order })));
    app.model.script([Reply::tools(orders), Reply::text("Done.")]);
    counted::reset(&app).await;
    let message = json!({"agentDefinitionId": agent, "message": "refund all"});
    let posted = app.client().post_message(message).await;
    let mut calls = Vec::new();
    while calls.len() < 3 {
        calls.extend(program.claim(10, 20).await);
    }
    let outputs: Vec<_> = calls
        .iter()
        .map(|call| json!({"callId": call["id"], "attempt": call["attempt"], "output": "refunded"}))
        .collect();
    let (status, answer) = program.send("records", json!({ "records": outputs })).await;
    assert!(status.is_success(), "{answer}");
    let events = events_of(&app, &posted).await;
    let ends = events
        .iter()
        .filter(|event| event["status"] == "completed" && event["type"] == "mcp_tool");
    assert_eq!(ends.count(), 3, "{events:?}");
    let found = counted::per_turn(&app, 1).await;
    let times = |statement: &str| {
        total(
            &found
                .iter()
                .filter(|(_, query)| query.contains(statement))
                .cloned()
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(times("kb.end_tool_calls("), 1, "{}", listed(&found));
    // None of them can have been asked about.
    assert_eq!(times("from kb.questions"), 0, "{}", listed(&found));
}
