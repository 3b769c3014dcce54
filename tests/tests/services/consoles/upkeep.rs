//! Consoles: which one a tool uses without a pinned one, their connection, and their removal by workers.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use serde_json::{Value, json};
use uuid::Uuid;

async fn console(client: &Client, title: &str, content: &str) -> Uuid {
    let body = json!({"title": title, "content": content});
    let (status, made) = client.post("/api/consoles", body).await;
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().parse().unwrap()
}

async fn get(client: &Client, id: Uuid) -> Value {
    let (status, console) = client.get(&format!("/api/consoles/{id}")).await;
    assert_eq!(status, 200, "{console}");
    console
}

/// Requirements: D31.
#[tokio::test]
async fn with_none_pinned_the_console_that_the_user_sees_is_meant() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", &["modify_console"]).await;
    let (seen, other) = (
        console(&client, "Seen", "1").await,
        console(&client, "Other", "2").await,
    );
    app.model.script([
        Reply::tool(
            "modify_console",
            json!({"action": "append", "content": "agent", "consoleId": null}),
        ),
        Reply::text("Done."),
    ]);
    // Sent with the message as the active one, without being attached.
    let body = json!({"message": "write", "agentDefinitionId": agent, "consoleId": seen});
    let events = json_of(&client.chat(body).await);
    let calls = of_kind(&events, "mcp_tool").into_iter();
    let errors: Vec<&Value> = calls
        .map(|event| &event["error"])
        .filter(|error| error.is_string())
        .collect();
    assert_eq!(errors, Vec::<&Value>::new());
    let conversation = events[1]["conversationId"].as_str().unwrap();
    let (_, opened) = client.get(&format!("/api/conversations/{conversation}")).await;
    assert_eq!(opened["attachedConsole"], Value::Null);
    assert_eq!(get(&client, seen).await["content"], "1\nagent");
    assert_eq!(get(&client, other).await["content"], "2");
}

/// Requirements: D44.
#[tokio::test]
async fn temporary_consoles_are_removed_after_thirty_idle_days() {
    let mut app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let make = async |title: &str, is_temporary: bool, days: i32| {
        let body = json!({"title": title, "content": "select 1", "isTemporary": is_temporary});
        let (status, made) = client.post("/api/consoles", body).await;
        assert_eq!(status, 201, "{made}");
        let id: Uuid = made["id"].as_str().unwrap().parse().unwrap();
        sqlx::query("update kb.consoles set updated_at = now() - make_interval(days => $2) where id = $1")
            .bind(id)
            .bind(days)
            .execute(&app.db.pool)
            .await
            .unwrap();
        id
    };
    let old = make("Old", true, 31).await;
    let recent = make("Recent", true, 29).await;
    let saved = make("Saved", false, 31).await;
    app.add_worker();
    let client = app.client();
    support::wait_for("the worker's upkeep", async || {
        let (status, _) = client.get(&format!("/api/consoles/{old}")).await;
        (status == 404).then_some(())
    })
    .await;
    assert_eq!(get(&client, recent).await["title"], "Recent");
    assert_eq!(get(&client, saved).await["title"], "Saved");
}

/// Requirements: D14.
#[tokio::test]
async fn a_client_neither_hides_nor_forges_console_facts() {
    let app = TestApp::start().await;
    let client = app.client();
    let source = Uuid::now_v7();
    sqlx::query(
        "insert into kb.data_sources (id, project_id, name, kind, settings) values ($1, $2, 'sales', 'bigquery', $3)",
    )
    .bind(source)
    .bind(app.db.workspace_id)
    .bind(json!({"cloudProject": "acme", "database": "shop"}))
    .execute(&app.db.pool)
    .await
    .unwrap();
    let schema = json!({"columns": [{"name": "id", "type": "INT64"}]});
    for (database, table, revision) in [("shop", "orders", 1), ("shop", "people", 1), ("shop", "old_orders", 0)] {
        sqlx::query(
            "insert into kb.data_source_schemas (data_source_id, project_id, database, table_name, revision, schema) values ($1, $2, $3, $4, $5, $6)",
        )
        .bind(source)
        .bind(app.db.workspace_id)
        .bind(database)
        .bind(table)
        .bind(revision)
        .bind(&schema)
        .execute(&app.db.pool)
        .await
        .unwrap();
    }
    // The format of earlier chat pages: the database is in the metadata.
    let id = Uuid::now_v7();
    let metadata = json!({"databaseType": "bigquery", "databaseId": source, "mine": 1, "connectionDetails": {"projectId": "forged"}});
    let reply =
        json!({"id": id, "title": "Orders", "content": "select id from shop.orders, old_orders", "metadata": metadata});
    app.model.always("hi", Reply::text("Hello."));
    client.chat(json!({"message": "hi", "consoles": [reply]})).await;
    let path = format!("/api/consoles/{id}");
    let (_, now) = client.get(&path).await;
    assert_eq!(
        (&now["kind"], &now["dataSourceId"]),
        (&json!("bigquery"), &json!(source))
    );
    let read_at = now["metadata"]["cachedSchema"]["timestamp"].clone();
    assert!(read_at.is_string(), "{now}");
    let known = |last_query: Value, mine: i32| {
        let mut known = json!({
            "databaseId": source, "databaseType": "bigquery", "databaseName": "shop", "mine": mine,
            "connectionDetails": {"projectId": "acme", "datasetId": "shop"},
            "cachedSchema": {"timestamp": read_at, "schema": {"shop.orders": schema}},
        });
        if last_query.is_string() {
            known["lastQuery"] = last_query;
        }
        known
    };
    assert_eq!(now["metadata"], known(Value::Null, 1));
    rejoin_runs::consoles::ran(&app.db.pool, id, "select 1").await.unwrap();
    let patch = json!({"metadata": {"mine": 2, "cachedSchema": "forged"}});
    assert_eq!(client.patch(&path, patch).await.0, 200);
    assert_eq!(get(&client, id).await["metadata"], known(json!("select 1"), 2));
    // Lists omit looked-up metadata.
    let (_, listed) = client.get("/api/consoles").await;
    assert_eq!(
        listed["items"][0]["metadata"],
        json!({"lastQuery": "select 1", "mine": 2})
    );
}
