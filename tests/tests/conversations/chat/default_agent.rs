//! The default agent: its endpoint installs it, once.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::json;

use rejoin_tests::support;

/// Requirements: A22, A23, A24, A25, A26.
#[tokio::test]
async fn the_default_agent_is_installed_by_its_endpoint_once() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let path = format!("/api/admin/projects/{}/install-default-agents", app.db.workspace_id);
    for _ in 0..2 {
        let (status, body) = client.post(&path, json!({})).await;
        assert!(status.is_success(), "{body}");
    }
    let (_, list) = client
        .get(&format!(
            "/api/admin/projects/{}/agent-definitions",
            app.db.workspace_id
        ))
        .await;
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    let agent = &items[0];
    assert_eq!(agent["name"], "graph-query-agent");
    assert_eq!(
        (&agent["flowType"], &agent["isDefault"], &agent["maxSteps"]),
        (&json!("single"), &json!(true), &json!(15))
    );
    assert_eq!(
        (&agent["visibility"], &agent["model"]["name"]),
        (&json!("project"), &json!("gemini-2.0-flash"))
    );
    assert_eq!(agent["model"]["temperature"], 0.1);
    let mut tools: Vec<&str> = agent["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool.as_str().unwrap())
        .collect();
    tools.sort_unstable();
    assert_eq!(
        tools,
        [
            "find_similar",
            "get_entity_edges",
            "hybrid_search",
            "list_entity_types",
            "list_relationships",
            "query_entities",
            "schema_version",
            "search_entities",
            "semantic_search",
            "traverse_graph"
        ]
    );
    // A27: the content of its prompt.
    let prompt = agent["systemPrompt"].as_str().unwrap().to_lowercase();
    for word in ["tools", "cite", "nothing was found", "never make up"] {
        assert!(prompt.contains(word), "{word}");
    }
}

/// Requirements: A23.
#[tokio::test]
async fn only_its_endpoint_installs_the_default_agent() {
    let mut app = TestApp::start().await;
    let client = app.client();
    app.model.script([Reply::text("one"), Reply::text("two")]);
    let (status, made) = client.post("/api/conversations", json!({})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    client.ask(None, "hello").await;
    app.restart_api().await;
    app.crash_workers();
    app.add_worker();
    app.client().ask(None, "hello again").await;
    let (_, list) = app
        .client()
        .get(&format!(
            "/api/admin/projects/{}/agent-definitions?visibility=all",
            app.db.workspace_id
        ))
        .await;
    assert_eq!(list["items"], json!([]));
    // Nor do migrations.
    let empty = support::empty_database().await;
    rejoin_cli::migrate::up(&empty).await.unwrap();
    let pool = sqlx::PgPool::connect(&empty).await.unwrap();
    let there: i64 = sqlx::query_scalar("select count(*) from kb.agent_definitions")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(there, 0);
}
