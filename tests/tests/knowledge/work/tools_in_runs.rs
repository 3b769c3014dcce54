//! The work tools in runs and over MCP, once the template pack is installed.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::projects::{get, start};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::tools::names;

/// Requirements: E53, E54.
#[tokio::test]
async fn agents_use_the_tools_once_the_pack_is_installed() {
    let app = TestApp::start().await;
    let client: Client = app.client();
    let agent = app.agent("planner", &["*onto*", "get_buildos_overview"]).await;
    let offered = |request: &Value| -> Vec<String> {
        let tools = request["tools"].as_array().into_iter().flatten();
        tools
            .filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned))
            .collect()
    };
    app.model.script([Reply::text("Nothing yet.")]);
    client.ask(Some(agent), "what is there?").await;
    assert!(
        offered(&app.model.requests()[0])
            .iter()
            .all(|name| !name.contains("onto"))
    );
    assert_eq!(client.post("/api/onto/install", json!({})).await.0, 204);
    // The worker reloads within two seconds.
    rejoin_tests::support::wait_for("the tools to be offered", async || {
        app.model.script([Reply::text("Wait.")]);
        client.ask(Some(agent), "and now?").await;
        let names = offered(&app.model.requests().pop()?);
        names.iter().any(|name| name == "create_onto_project").then_some(())
    })
    .await;
    app.model.script([
        Reply::tool(
            "create_onto_project",
            json!({"project": {"name": "Boat"}, "entities": [{"temp_id": "t", "kind": "task", "title": "Saw", "description": null, "fields": null}],
                   "relationships": [], "context_document": null, "clarifications": null, "meta": null}),
        ),
        Reply::tool("list_onto_tasks", json!({"project_id": null, "state_key": null, "type_key": null, "limit": null})),
        Reply::tool("update_onto_task", json!({"task_id": Uuid::nil(), "title": "x"})),
        Reply::text("Made."),
    ]);
    let events = json_of(&client.ask(Some(agent), "build a boat").await);
    let ends: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter(|event| event["status"] != "started")
        .collect();
    assert_eq!(ends[0]["result"]["project"]["name"], "Boat", "{}", ends[0]);
    assert_eq!(names(&ends[1]["result"]["tasks"]), ["Saw"]);
    assert!(
        ends[2]["error"].as_str().unwrap().contains("there is no task"),
        "{}",
        ends[2]
    );
    let shift = of_kind(&events, "context_shift");
    assert_eq!(shift[0]["context_shift"]["entity_name"], "Boat");
    let last = app.model.requests().pop().unwrap();
    assert!(sent(&last).iter().any(|(_, text)| text.contains("Saw")));
    assert_eq!(get(&client, "/api/onto/projects").await["items"][0]["name"], "Boat");
}

/// Requirements: E53.
#[tokio::test]
async fn mcp_clients_have_the_tools_once_the_pack_is_installed() {
    let (_app, client) = start().await;
    let say = async |session: Option<&str>, message: Value| {
        let mut request = client
            .request(Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        request.json(&message).send().await.unwrap()
    };
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let answer = say(None, hello).await;
    let session = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    say(
        Some(&session),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    )
    .await;
    let ask = async |method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
        say(Some(&session), message).await.text().await.unwrap()
    };
    let create = json!({"name": "create_onto_project", "arguments": {"project": {"name": "Boat"}, "entities": [], "relationships": []}});
    assert!(!ask("tools/list", json!({})).await.contains("create_onto_project"));
    let unknown = ask("tools/call", create.clone()).await;
    assert!(unknown.contains("there is no tool create_onto_project"), "{unknown}");
    assert_eq!(client.post("/api/onto/install", json!({})).await.0, 204);
    assert!(ask("tools/list", json!({})).await.contains("create_onto_project"));
    let made = ask("tools/call", create).await;
    assert!(made.contains("context_shift"), "{made}");
    let project = get(&client, "/api/onto/projects").await["items"][0].clone();
    assert_eq!(project["name"], "Boat");
    let history = get(
        &client,
        &format!("/api/onto/projects/{}/history", project["id"].as_str().unwrap()),
    )
    .await;
    assert_eq!(
        (&history["items"][0]["changeSource"], &history["items"][0]["actorType"]),
        (&json!("mcp"), &json!("user"))
    );
}
