//! Extensions: the guestbook of `examples/guestbook` in the whole product. An agent calls its tool, a worker runs its job, a program reads
//! its route, and `rejoin migrate up` creates its table once.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::StatusCode;
use rejoin_extension::route::{Method, RouteHandler};
use rejoin_extension::{Extension, Extensions, Migration, Route, RouteError, RouteRequest, migration};
use rejoin_guestbook::Guestbook;
use rejoin_identity::{auth, workspaces};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use rejoin_types::access::Scope;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

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
    let published = of_kind(&events, "token")
        .into_iter()
        .filter_map(|event| event["token"].as_str());
    assert_eq!(published.collect::<String>(), "Signed.");
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
    let writer = key(&app, app.db.workspace_id, &[Scope::Write]).await;
    assert_eq!(writer.get(path).await.0, StatusCode::FORBIDDEN);
    // Row-level security: the handler's query has no condition on the project.
    let mut connection = app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut connection, "other").await.unwrap();
    workspaces::add_member(&mut connection, other, app.db.user_id, workspaces::Role::Owner)
        .await
        .unwrap();
    drop(connection);
    let elsewhere = key(&app, other, &Scope::ALL).await;
    assert_eq!(elsewhere.get(path).await, (StatusCode::OK, json!({"items": []})));
}

/// A client with a key of the test's user for a project.
async fn key(app: &TestApp, workspace_id: Uuid, scopes: &[Scope]) -> Client {
    let mut connection = app.db.pool.acquire().await.unwrap();
    let key = auth::create_key(
        &mut connection,
        app.db.user_id,
        Some(workspace_id),
        "other",
        scopes,
        None,
    );
    let (_, key) = key.await.unwrap();
    Client::new(app.url(), &key)
}

/// Stores notes, and refuses some after it has stored them.
struct Notes;

impl Extension for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn routes(&self) -> Vec<Route> {
        vec![Route {
            method: Method::Put,
            path: "/notes/{name}",
            scope: Scope::Write,
            handler: Arc::new(Store),
        }]
    }

    fn migrations(&self) -> &'static [Migration] {
        &[Migration {
            version: 1,
            sql: "create schema notes;
                  create table notes.notes (name text, text text);
                  grant usage on schema notes to rejoin_app;
                  grant insert on notes.notes to rejoin_app",
        }]
    }
}

struct Store;

#[async_trait]
impl RouteHandler for Store {
    async fn handle(&self, db: &mut PgConnection, request: RouteRequest) -> Result<Value, RouteError> {
        let Some(text) = request.body["text"].as_str() else {
            return Err(RouteError::BadRequest("text is missing".to_owned()));
        };
        sqlx::query("insert into notes.notes (name, text) values ($1, $2)")
            .bind(&request.path["name"])
            .bind(text)
            .execute(db)
            .await?;
        match request.query.get("then").map(String::as_str) {
            Some("conflict") => Err(RouteError::Conflict("there is another note".to_owned())),
            Some("not_found") => Err(RouteError::NotFound("Note not found".to_owned())),
            _ => Ok(json!({"stored": text})),
        }
    }
}

#[tokio::test]
async fn a_route_that_refuses_has_changed_nothing() {
    let db = support::database().await;
    let mut connection = db.pool.acquire().await.unwrap();
    let notes = Extensions::new(vec![Arc::new(Notes)]);
    migration::migrate(&mut connection, &notes).await.unwrap();
    drop(connection);
    let options = AppOptions {
        workers: 0,
        extension: Some(Arc::new(Notes)),
        ..AppOptions::default()
    };
    let app = TestApp::over(db, options).await;
    let client = app.client();
    let body = || json!({"text": "buy milk"});
    for (query, status, code) in [
        ("?then=conflict", StatusCode::CONFLICT, "conflict"),
        ("?then=not_found", StatusCode::NOT_FOUND, "not_found"),
    ] {
        let (answered, problem) = client
            .put(&format!("/api/extensions/notes/notes/list{query}"), body())
            .await;
        assert_eq!((answered, problem["code"].as_str()), (status, Some(code)), "{problem}");
    }
    let path = "/api/extensions/notes/notes/list";
    let (status, problem) = client.put(path, json!({})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_request"))
    );
    let reader = key(&app, app.db.workspace_id, &[Scope::Read]).await;
    assert_eq!(reader.put(path, body()).await.0, StatusCode::FORBIDDEN);
    assert_eq!(
        client.put(path, body()).await,
        (StatusCode::OK, json!({"stored": "buy milk"}))
    );
    let stored: Vec<(String, String)> = sqlx::query_as("select name, text from notes.notes")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(stored, [("list".to_owned(), "buy milk".to_owned())]);
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
