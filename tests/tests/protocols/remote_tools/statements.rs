//! How many SQL statements a turn takes that a program's function executes.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::counted::{self, listed, total};
use rejoin_tests::support;
use serde_json::json;

use super::agents::{clerk, path_of, turn};

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
