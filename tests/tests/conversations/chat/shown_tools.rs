//! The tools shown to an agent: selected by its context, within its whitelist.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};

use super::contexts::compass;

/// Requirements: E49, E50, E64, E68.
#[tokio::test]
async fn tools_are_shown_by_context_within_the_whitelist() {
    let options = AppOptions {
        tools: compass(),
        worker: |config| config.debug_agent_context = true,
        ..AppOptions::default()
    };
    let app = TestApp::with(options).await;
    let agent = app
        .agent_with("helper", &["where_am_i", "list_tags", "schema_version"], |content| {
            content.config = json!({"toolSelection": "context"});
        })
        .await;
    let client = app.client();
    let settings = format!("/api/admin/projects/{}/contexts/brain_dump", app.db.workspace_id);
    let (status, set) = client
        .put(&settings, json!({"prompt": "Listen.", "tools": ["list_*"]}))
        .await;
    assert_eq!(status, 200, "{set}");
    app.model.script([
        Reply::tool("where_am_i", json!({})),
        Reply::tool("delete_entity", json!({"entity_id": "x"})),
        Reply::text("Done."),
    ]);
    let events = json_of(
        &client
            .chat(json!({"message": "go", "agentDefinitionId": agent, "contextType": "brain_dump"}))
            .await,
    );
    let offered = |n: usize| -> Vec<String> {
        let request = &app.model.requests()[n];
        let tools = request["tools"].as_array().into_iter().flatten();
        tools
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(offered(0), ["list_tags"]);
    assert_eq!(
        offered(1),
        ["list_tags", "where_am_i"],
        "called, and shown from then on"
    );
    assert_eq!(
        offered(2),
        ["list_tags", "where_am_i"],
        "what the whitelist does not have is never had"
    );
    let refused = of_kind(&events, "mcp_tool").last().unwrap()["error"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(refused.contains("there is no tool delete_entity"), "{refused}");
    let names: Vec<&str> = of_kind(&events, "telemetry")
        .iter()
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "tool_selection",
            "tool_selection_miss",
            "tool_execution",
            "tool_execution"
        ]
    );
    assert!(
        of_kind(&events, "debug_context")[0]["debug"]["system"]
            .as_str()
            .unwrap()
            .contains("Listen.")
    );
}

/// Requirements: E64.
#[tokio::test]
async fn an_agents_choice_is_stored_and_shown_in_development_only() {
    for is_on in [false, true] {
        let worker: fn(&mut rejoin_worker::WorkerConfig) = if is_on {
            |config| config.debug_agent_context = true
        } else {
            |config| config.debug_agent_context = false
        };
        let app = TestApp::with(AppOptions {
            worker,
            ..AppOptions::default()
        })
        .await;
        let client = app.client();
        let admin = format!("/api/admin/projects/{}", app.db.workspace_id);
        client
            .post(&format!("{admin}/install-default-agents?set=databases"), json!({}))
            .await;
        sqlx::query("update kb.agent_definitions set model = '{\"name\": \"openai:scripted\"}'")
            .execute(&app.db.pool)
            .await
            .unwrap();
        client.put(&format!("{admin}/routing"), json!({"percent": 100})).await;
        app.model.script([Reply::text("Hello.")]);
        let question = "count the documents of the orders collection in mongodb";
        let events = json_of(&client.chat(json!({ "message": question })).await);
        assert_eq!(of_kind(&events, "meta")[0]["agent"], "mongodb-analyst");
        let published: Vec<&Value> = of_kind(&events, "telemetry")
            .into_iter()
            .filter(|event| event["name"] == "routing")
            .collect();
        assert_eq!(published.len(), usize::from(is_on), "{published:?}");
        let stored: Value = sqlx::query_scalar("select routing from kb.agent_runs")
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
        assert_eq!(stored["agent"], "mongodb-analyst");
    }
}
