//! Requests whose clients give up: what they leave behind.

use std::time::Duration;

use rejoin_tests::app::TestApp;
use rejoin_tests::support::wait_for;
use serde_json::json;
use sqlx::Connection as _;

/// Requests that are abandoned at once: more than there are connections.
const REQUESTS: usize = 40;
/// How long their clients wait.
const PATIENCE: Duration = Duration::from_millis(300);

/// PostgreSQL pays far more for a new connection than for a query. A storm of readers that give up, each of whom costs one, would outlive its cause.
#[tokio::test]
async fn readers_that_give_up_cost_no_connections() {
    let app = TestApp::start().await;
    let client = app.client();
    let posted = client.post_message(json!({"message": "hello"})).await;
    app.wait_until_idle().await;
    let path = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    let storm = async || {
        let reading = (0..REQUESTS).map(|_| client.request(reqwest::Method::GET, &path).timeout(PATIENCE).send());
        futures::future::join_all(reading).await
    };
    // All connections are open.
    storm().await;
    let sessions = async || -> Vec<i32> {
        sqlx::query_scalar(
            "select pid from pg_stat_activity where datname = current_database() and application_name = 'rejoin-api'",
        )
        .fetch_all(&app.db.pool)
        .await
        .unwrap()
    };
    let before = sessions().await;
    assert!(before.len() > 1, "{before:?}");
    let mut blocker = sqlx::PgConnection::connect(&app.db.url).await.unwrap();
    let mut blocking = blocker.begin().await.unwrap();
    sqlx::query("lock table kb.chat_conversations in access exclusive mode")
        .execute(&mut *blocking)
        .await
        .unwrap();
    let answers = storm().await;
    assert!(answers.iter().all(Result::is_err), "none was answered");
    blocking.rollback().await.unwrap();
    wait_for("a reader that is answered", async || {
        let answer = client
            .request(reqwest::Method::GET, &path)
            .timeout(PATIENCE)
            .send()
            .await;
        answer.is_ok_and(|answer| answer.status().is_success()).then_some(())
    })
    .await;
    let after = sessions().await;
    let gone: Vec<&i32> = before.iter().filter(|pid| !after.contains(pid)).collect();
    assert!(gone.is_empty(), "{gone:?} of {before:?} were closed");
}
