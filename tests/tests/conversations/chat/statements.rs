//! How many SQL statements a turn takes.

use rejoin_cli::dev::postgres::PrivatePostgres;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::kinds;
use rejoin_tests::counted::{self, listed, total};
use rejoin_tests::model_server::Reply;
use serde_json::json;
use uuid::Uuid;

use rejoin_tests::support;

/// Turns that are counted together: what happens less than once a turn is not the turn's.
const TURNS: i64 = 12;
/// Turns before that: connections, prepared statements, caches.
const WARM_UP: i64 = 3;
/// Tool steps of a turn with tools.
const STEPS: usize = 4;

const TOOLS: [&str; 2] = ["list_entity_types", "schema_version"];

/// Statements of a turn without an agent, of API and worker.
const PLAIN_MAX: i64 = 14;
/// Statements of one tool step. The target is 6.
const TOOL_STEP_MAX: i64 = 3;

async fn app() -> (PrivatePostgres, TestApp) {
    let (server, db) = support::with_counted_statements().await;
    let app = TestApp::over(db, AppOptions::default()).await;
    (server, app)
}

/// Takes turns, and returns the statements of each: how often a turn executes it, and its text.
async fn statements(app: &TestApp, agent: Option<Uuid>, steps: usize) -> Vec<(i64, String)> {
    let turns = async |count: i64| {
        for _ in 0..count {
            // In turns: the same call again and again would be refused.
            let step = |nth: usize| Reply::tool(TOOLS[nth % TOOLS.len()], json!({}));
            let answer = Reply::text("one two three four five");
            app.model.script((0..steps).map(step).chain([answer]));
            let frames = app.client().ask(agent, "hello").await;
            assert_eq!(kinds(&frames).last().map(String::as_str), Some("done"));
            app.wait_until_idle().await;
        }
    };
    turns(WARM_UP).await;
    counted::reset(app).await;
    turns(TURNS).await;
    counted::per_turn(app, TURNS).await
}

#[tokio::test]
async fn a_plain_turn_keeps_to_its_budget_of_statements() {
    let (_server, app) = app().await;
    let plain = statements(&app, None, 0).await;
    assert!(
        total(&plain) <= PLAIN_MAX,
        "{} statements:\n{}",
        total(&plain),
        listed(&plain)
    );
}

#[tokio::test]
async fn a_tool_step_keeps_to_its_budget_of_statements() {
    let (_server, app) = app().await;
    let agent = app.agent("worker", &TOOLS).await;
    let without = total(&statements(&app, Some(agent), 0).await);
    let with = statements(&app, Some(agent), STEPS).await;
    let of_tool = |query: &String| ["kb.graph_", "kb.template_"].iter().any(|table| query.contains(table));
    let of_steps: Vec<_> = with.into_iter().filter(|(_, query)| !of_tool(query)).collect();
    let step = (total(&of_steps) - without).div_euclid(i64::try_from(STEPS).expect("a small number"));
    assert!(
        step <= TOOL_STEP_MAX,
        "{step} statements of a step:\n{}",
        listed(&of_steps)
    );
}
