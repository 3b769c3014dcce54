//! Extensions: the guestbook of `examples/guestbook` in the whole product. An agent calls its tool, a worker runs its job, a program reads
//! its route, and `rejoin migrate up` creates its table once.

use std::sync::Arc;

use axum::http::StatusCode;
use rejoin_extension::{Extension, Extensions, Migration, migration};
use rejoin_guestbook::Guestbook;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use serde_json::json;

/// A database with the guestbook's table.
async fn database() -> support::TestDatabase {
    let db = support::database().await;
    let extensions = Extensions::new(vec![Arc::new(Guestbook)]);
    let mut connection = db.pool.acquire().await.unwrap();
    assert_eq!(migration::migrate(&mut connection, &extensions).await.unwrap(), 1);
    // Applied once.
    assert_eq!(migration::migrate(&mut connection, &extensions).await.unwrap(), 0);
    db
}

#[tokio::test]
async fn a_tool_a_job_a_route_and_a_table_come_with_an_extension() {
    let options = AppOptions {
        extension: Some(Arc::new(Guestbook)),
        ..AppOptions::default()
    };
    let app = TestApp::over(database().await, options).await;
    let agent = app.agent("guest", &["sign_guestbook"]).await;
    app.model.script([
        Reply::tool("sign_guestbook", json!({"text": "it was a pleasure"})),
        Reply::text("Signed."),
    ]);
    let frames = app.client().ask(Some(agent), "sign the guestbook").await;
    let events = json_of(&frames);
    let said = of_kind(&events, "token")
        .into_iter()
        .filter_map(|event| event["token"].as_str());
    assert_eq!(said.collect::<String>(), "Signed.");
    let path = "/api/extensions/guestbook/entries";
    let listed = support::wait_for("the job to count the words", async || {
        let (status, listed) = app.client().get(path).await;
        assert_eq!(status, StatusCode::OK);
        (listed["items"][0]["words"] == 4).then_some(listed)
    })
    .await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["items"][0]["text"], "it was a pleasure");

    let stranger = Client::new(app.url(), "rejoin_unknown");
    assert_eq!(stranger.get(path).await.0, StatusCode::UNAUTHORIZED);
}

struct Changed;

impl Extension for Changed {
    fn name(&self) -> &'static str {
        "guestbook"
    }

    fn migrations(&self) -> &'static [Migration] {
        &[Migration {
            version: 1,
            sql: "create schema other",
        }]
    }
}

struct Broken;

impl Extension for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn migrations(&self) -> &'static [Migration] {
        &[
            Migration {
                version: 1,
                sql: "create schema broken",
            },
            Migration {
                version: 2,
                sql: "create table broken.things (id nonsense)",
            },
        ]
    }
}

#[tokio::test]
async fn a_migration_that_fails_or_was_changed_changes_nothing() {
    let db = database().await;
    let mut connection = db.pool.acquire().await.unwrap();
    let changed = Extensions::new(vec![Arc::new(Changed)]);
    let error = migration::migrate(&mut connection, &changed).await.unwrap_err();
    assert!(
        error.to_string().contains("was changed after it had been applied"),
        "{error}"
    );

    let broken = Extensions::new(vec![Arc::new(Broken)]);
    let error = migration::migrate(&mut connection, &broken).await.unwrap_err();
    assert_eq!(error.to_string(), "migration 2 of the extension broken failed");
    let schemas: i64 = sqlx::query_scalar("select count(*) from pg_namespace where nspname in ('broken', 'other')")
        .fetch_one(&db.pool)
        .await
        .unwrap();
    assert_eq!(schemas, 0);
}
