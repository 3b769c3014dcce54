//! Users' messages about operations of the graph and web tools: they name the entity.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::Reply;
use rejoin_tests::web::{PLACE, Site, html};
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns `action entity_type "entity_name" status` of each operation, in order.
fn operations(events: &[Value]) -> Vec<String> {
    of_kind(events, "operation")
        .into_iter()
        .map(|event| {
            let operation = &event["operation"];
            let word = |name: &str| operation[name].as_str().unwrap();
            assert!(word("entity_name").parse::<Uuid>().is_err(), "no ids: {operation}");
            format!(
                "{} {} \"{}\" {}",
                word("action"),
                word("entity_type"),
                word("entity_name"),
                word("status")
            )
        })
        .collect()
}

/// Requirements: E21, E22.
#[tokio::test]
async fn calls_of_the_graphs_tools_are_described_by_objects_names() {
    let app = TestApp::start().await;
    let client = app.client();
    let path = format!("/api/projects/{}/graph/objects", app.db.workspace_id);
    let body = json!({"type": "Package", "key": "libssl3", "properties": {"name": "OpenSSL"}});
    let (_, made) = client.post(&path, body).await;
    let id = &made["id"];
    let agent = app.agent("helper", &["*"]).await;
    app.model.script([
        Reply::tool("hybrid_search", json!({"query": "openssl"})),
        Reply::tool("get_entity_edges", json!({"entity_id": id})),
        Reply::tool("query_entities", json!({"type_name": "Package"})),
        Reply::tool(
            "create_entity",
            json!({"type": "Task", "key": "t", "properties": {"title": "Upgrade"}}),
        ),
        Reply::tool("update_entity", json!({"entity_id": id, "properties": {"seen": true}})),
        Reply::tool("delete_entity", json!({"entity_id": "Package:libssl3"})),
        Reply::tool("get_entity_edges", json!({"entity_id": Uuid::now_v7()})),
        // It concerns no entity.
        Reply::tool("schema_version", json!({})),
        Reply::text("Done."),
    ]);
    let events = json_of(&client.ask(Some(agent), "go").await);
    assert_eq!(
        operations(&events),
        [
            "search entity \"openssl\" start",
            "search entity \"openssl\" success",
            "read Package \"OpenSSL\" start",
            "read Package \"OpenSSL\" success",
            "list Package \"Package\" start",
            "list Package \"Package\" success",
            "create Task \"Upgrade\" start",
            "create Task \"Upgrade\" success",
            "update Package \"OpenSSL\" start",
            "update Package \"OpenSSL\" success",
            "delete Package \"OpenSSL\" start",
            "delete Package \"OpenSSL\" success",
            "read entity \"an entity\" start",
            "read entity \"an entity\" error",
        ]
    );
    let published = of_kind(&events, "operation");
    assert_eq!(published[2]["operation"]["entity_id"], *id);
    // A page that knows eight entity types gets no others.
    let conversation = events[1]["conversationId"].as_str().unwrap();
    let request = client
        .request(
            reqwest::Method::GET,
            &format!("/api/agent/stream?sessionId={conversation}"),
        )
        .header("accept", "text/event-stream")
        .header("last-event-id", "0");
    let frames = rejoin_tests::client::Stream::of(request.send().await.unwrap())
        .until("done")
        .await;
    let kinds: Vec<Value> = of_kind(&json_of(&frames), "operation")
        .into_iter()
        .map(|event| event["operation"]["entity_type"].clone())
        .collect();
    assert_eq!(kinds.len(), 14);
    assert!(
        kinds
            .iter()
            .enumerate()
            .all(|(nth, kind)| kind == if (6..8).contains(&nth) { "task" } else { "document" }),
        "{kinds:?}"
    );
}

/// Requirements: E21.
#[tokio::test]
async fn visits_and_searches_of_the_web_are_described() {
    let site = Site::start(|what, _| match what {
        "GET /page" => html("<title>A page</title><p>hello"),
        _ => StatusCode::NOT_FOUND.into_response(),
    })
    .await;
    let app = TestApp::with(AppOptions {
        worker: |config| config.web.web_hosts = vec![PLACE.to_owned()],
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let path = format!("/api/admin/projects/{}/web", app.db.workspace_id);
    let web = json!({"visit": true, "provider": "searxng", "baseUrl": site.url});
    let (status, on) = client.put(&path, web).await;
    assert_eq!(status, 200, "{on}");
    let agent = app.agent("reader", &["web_*"]).await;
    let page = format!("{}/page?token=secret", site.url);
    app.model.script([
        Reply::tool("web_visit", json!({"url": format!("{}/page", site.url)})),
        Reply::tool("web_search", json!({"query": "open ssl"})),
        Reply::tool("web_visit", json!({"url": page})),
        Reply::text("Done."),
    ]);
    let events = json_of(&client.ask(Some(agent), "go").await);
    let host = site.url.trim_start_matches("http://").to_owned();
    assert_eq!(
        operations(&events),
        [
            format!("read document \"{host}/page\" start"),
            format!("read document \"{host}/page\" success"),
            "search document \"open ssl\" start".to_owned(),
            "search document \"open ssl\" error".to_owned(),
            format!("read document \"{host}/page\" start"),
            format!("read document \"{host}/page\" error"),
        ],
        "without what an address says behind its path"
    );
}
