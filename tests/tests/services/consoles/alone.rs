//! Consoles of runs without a conversation, triggered by programs.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::Reply;
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

fn append(console: Value) -> Reply {
    let arguments = json!({"action": "append", "content": "x", "consoleId": console});
    Reply::tool("modify_console", arguments)
}

#[tokio::test]
async fn a_run_outside_conversations_changes_only_consoles_outside() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", &["*console*"]).await;
    let (loose, kept) = (
        console(&client, "Loose", "loose").await,
        console(&client, "Kept", "kept").await,
    );
    // Created in a conversation, to which it belongs.
    let unsaved = Uuid::now_v7();
    app.model.script([Reply::text("Fine.")]);
    let body = json!({"message": "look", "agentDefinitionId": agent,
        "consoles": [{"id": unsaved, "title": "Unsaved", "content": "unsaved"}]});
    client.chat(body).await;

    app.model.script([
        append(json!(loose)),
        append(json!(unsaved)),
        Reply::tool(
            "set_console_connection",
            json!({"consoleId": unsaved, "dataSourceId": null}),
        ),
        Reply::tool("read_console", json!({"consoleId": unsaved})),
        append(json!(null)),
        Reply::text("Done."),
    ]);
    let trigger = format!("/api/projects/{}/agents/{agent}/trigger", app.db.workspace_id);
    let (_, begun) = client.post(&trigger, json!({"input": "work"})).await;
    let path = format!("/api/runs/{}/events", begun["runId"].as_str().unwrap());
    let events = json_of(&client.stream(&path).await.rest().await);
    let refused: Vec<&str> = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter_map(|event| event["error"].as_str())
        .collect();
    assert_eq!(refused.len(), 3, "{refused:?}");
    for told in &refused[..2] {
        assert!(told.contains("belongs to a conversation"), "{told}");
    }
    assert!(refused[2].contains("create_console"), "{}", refused[2]);
    assert_eq!(get(&client, loose).await["content"], "loose\nx");
    assert_eq!(get(&client, kept).await["content"], "kept");
    assert_eq!(get(&client, unsaved).await["content"], "unsaved");
}
