//! Connections that the server has ended: the requests that would have used them use others.

use futures::future::join_all;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::Client;
use reqwest::StatusCode;

use rejoin_tests::support;

/// Requests at once: as many connections are in the pool after them.
const AT_ONCE: usize = 6;

async fn all_are_answered(client: &Client, when: &str) {
    let answers = join_all((0..AT_ONCE).map(|_| client.get("/api/conversations"))).await;
    for (status, body) in answers {
        assert_eq!(status, StatusCode::OK, "{when}: {body}");
    }
}

#[tokio::test]
async fn connections_that_the_server_ends_cost_no_request() {
    let (postgres, database) = support::own_server_database().await;
    let app = TestApp::over(
        database,
        AppOptions {
            workers: 0,
            ..AppOptions::default()
        },
    )
    .await;
    let client = app.client();
    all_are_answered(&client, "at first").await;
    // The connection that listens for wake-ups stays, so nothing but the requests meets a lost one.
    let ended: i64 = sqlx::query_scalar(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
         where application_name = 'rejoin-api' and query not ilike 'listen%'",
    )
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert!(ended > 1, "{ended} sessions of the API");
    all_are_answered(&client, "after sessions were ended").await;
    postgres.stop_immediate().await.unwrap();
    postgres.restart().await.unwrap();
    all_are_answered(&client, "after a restart").await;
    drop(app);
    postgres.stop().await.unwrap();
}
