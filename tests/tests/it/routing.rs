//! Who takes a new conversation, wired: chosen before the first token, told, remembered, counted; and what all agents are told.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, kinds, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use serde_json::{Value, json};
use uuid::Uuid;

/// The specialists, asking the scripted model.
async fn specialists(app: &TestApp) {
    let client = app.client();
    let path = format!(
        "/api/admin/projects/{}/install-default-agents?set=databases",
        app.db.project_id
    );
    let (status, installed) = client.post(&path, json!({})).await;
    assert_eq!(status, 200, "{installed}");
    sqlx::query("update kb.agent_definitions set model = '{\"name\": \"openai:scripted\"}'")
        .execute(&app.db.pool)
        .await
        .unwrap();
}

async fn route(app: &TestApp, body: Value) {
    let path = format!("/api/admin/projects/{}/routing", app.db.project_id);
    let (status, set) = app.client().put(&path, body).await;
    assert_eq!(status, 200, "{set}");
}

/// (agent of the turn, its telemetry)
async fn first_turn(app: &TestApp, client: &Client, body: Value) -> (Value, Value) {
    app.model.script([Reply::text("Hello.")]);
    let frames = client.chat(body).await;
    let events = json_of(&frames);
    let told = of_kind(&events, "telemetry").first().map(|event| event["data"].clone());
    (of_kind(&events, "meta")[0]["agent"].clone(), told.unwrap_or_default())
}

#[tokio::test]
async fn d04_d09_d12_d13_a_new_conversation_finds_its_agent_and_says_why() {
    let app = TestApp::start().await;
    let client = app.client();
    specialists(&app).await;
    let mongodb = "count the documents of the orders collection in mongodb";
    // A project that has said nothing is not routed.
    let (agent, told) = first_turn(&app, &client, json!({ "message": mongodb })).await;
    assert_eq!((agent, told), (Value::Null, Value::Null));
    route(&app, json!({"percent": 100})).await;

    let (agent, told) = first_turn(&app, &client, json!({ "message": mongodb })).await;
    assert_eq!(agent, "mongodb-analyst");
    assert_eq!(
        (&told["agent"], &told["reason"], &told["confidence"]),
        (&json!("mongodb-analyst"), &json!("message"), &json!("medium"))
    );
    assert!(told["because"].as_str().unwrap().contains("mongodb-analyst"), "{told}");
    assert!(told["tookUs"].as_u64().is_some(), "{told}");
    let console = json!({"id": Uuid::now_v7(), "title": "c", "content": "", "databaseType": "bigquery"});
    let (agent, told) = first_turn(
        &app,
        &client,
        json!({"message": "how many users are there?", "consoles": [console]}),
    )
    .await;
    assert_eq!(
        (&agent, &told["confidence"]),
        (&json!("bigquery-analyst"), &json!("high"))
    );
    let (agent, told) = first_turn(&app, &client, json!({"message": "hello there"})).await;
    assert_eq!((&agent, &told["reason"]), (&json!("triage"), &json!("triage")));
    // Whoever names an agent has it.
    let (_, page) = client.get(&format!("/api/projects/{}/agents", app.db.project_id)).await;
    let postgres = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "postgres-analyst")
        .unwrap();
    let body = json!({"message": mongodb, "agentDefinitionId": postgres["id"]});
    let (agent, told) = first_turn(&app, &client, body).await;
    assert_eq!((agent, told), (json!("postgres-analyst"), Value::Null));

    let path = format!("/api/admin/projects/{}/routing", app.db.project_id);
    for (body, code) in [
        (json!({"percent": 101}), "invalid_routing"),
        (
            json!({"percent": 1, "preferredAgent": "nobody"}),
            "agent_definition_not_found",
        ),
    ] {
        let (status, told) = client.put(&path, body).await;
        assert_eq!((status.as_u16(), &told["code"]), (400, &json!(code)));
    }
    route(&app, json!({"percent": 0})).await;
    let (agent, _) = first_turn(&app, &client, json!({ "message": mongodb })).await;
    assert_eq!(agent, Value::Null);
}

#[tokio::test]
async fn d05_d08_d50_d52_what_is_pinned_preferred_and_usual_counts() {
    let app = TestApp::start().await;
    let client = app.client();
    specialists(&app).await;
    route(&app, json!({"percent": 100, "preferredAgent": "sql-analyst"})).await;
    let path = format!("/api/projects/{}/routing/preview", app.db.project_id);
    let preview = async |client: &Client| {
        let (status, choice) = client
            .post(&path, json!({"message": "how many users signed up last week?"}))
            .await;
        assert_eq!(status, 200, "{choice}");
        choice
    };
    let choice = preview(&client).await;
    assert_eq!(
        (&choice["agent"], &choice["reason"]),
        (&json!("sql-analyst"), &json!("preference"))
    );
    route(&app, json!({"percent": 100})).await;
    for _ in 0..3 {
        first_turn(
            &app,
            &client,
            json!({"message": "which collections does mongodb have?"}),
        )
        .await;
    }
    let choice = preview(&client).await;
    assert_eq!(
        (&choice["agent"], &choice["reason"]),
        (&json!("mongodb-analyst"), &json!("history"))
    );
    // Another user has no such habit.
    let (_, key) = app.db.another_user().await;
    assert_eq!(preview(&Client::new(app.url(), &key)).await["reason"], "triage");
    // An existing conversation keeps its agent, whatever is said.
    app.model.script([Reply::text("Hello."), Reply::text("Still me.")]);
    let events = json_of(&client.chat(json!({"message": "ask mongodb"})).await);
    let conversation = &events[1]["conversationId"];
    let events = json_of(
        &client
            .chat(json!({"message": "now SELECT from postgres", "conversationId": conversation}))
            .await,
    );
    assert_eq!(of_kind(&events, "meta")[0]["agent"], "mongodb-analyst");
    assert!(of_kind(&events, "telemetry").is_empty());
}

#[tokio::test]
async fn d15_d51_d55_d58_triage_hands_over_at_once_asks_once_and_is_counted() {
    let app = TestApp::start().await;
    let client = app.client();
    specialists(&app).await;
    route(&app, json!({"percent": 100})).await;
    app.model.script([
        Reply::tool("transfer_to_mongodb", json!({"reason": "documents"})),
        Reply::text("There are three."),
    ]);
    let frames = client.chat(json!({"message": "how many are there?"})).await;
    let events = json_of(&frames);
    assert_eq!(of_kind(&events, "handoff")[0]["to"], "mongodb-analyst");
    assert_eq!(kinds(&frames)[..3], ["message", "meta", "telemetry"]);
    // It has no tool that writes or asks a database.
    let offered: Vec<String> = app.model.requests()[0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect();
    let is_harmless =
        |name: &String| name.starts_with("list_") || name.starts_with("transfer_to_") || name == "ask_user";
    assert!(offered.iter().all(is_harmless), "{offered:?}");
    let answer = of_kind(&events, "message")[1]["message"]["id"].as_str().unwrap();
    let feedback = format!("/api/messages/{answer}/feedback");
    assert_eq!(
        client
            .put(&feedback, json!({"helped": false, "comment": "wrong"}))
            .await
            .0,
        204
    );
    assert_eq!(client.put(&feedback, json!({"helped": true})).await.0, 204);
    let (_, key) = app.db.another_user().await;
    let stranger = Client::new(app.url(), &key);
    assert_eq!(stranger.put(&feedback, json!({"helped": false})).await.0, 404);
    let (status, stats) = client
        .get(&format!("/api/projects/{}/routing/stats", app.db.project_id))
        .await;
    assert_eq!(status, 200, "{stats}");
    let of_triage = &stats["items"][0];
    for (name, value) in [
        ("agent", json!("triage")),
        ("reason", json!("triage")),
        ("conversations", json!(1)),
        ("handedOver", json!(1)),
        ("helped", json!(1)),
        ("didNotHelp", json!(0)),
    ] {
        assert_eq!(of_triage[name], value, "{name}");
    }

    // A second question of one turn is refused.
    app.model.script([
        Reply::tool("ask_user", json!({"question": "Which?", "options": []})),
        Reply::tool("ask_user", json!({"question": "And which then?", "options": []})),
        Reply::text("Then I can't tell."),
    ]);
    let posted = client.post_message(json!({"message": "hm?"})).await;
    let question = rejoin_tests::support::wait_for("the question", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        page["items"].as_array().unwrap().first().cloned()
    })
    .await;
    let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    assert_eq!(client.post(&path, json!({"answer": "that one"})).await.0, 200);
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let frames = client.stream(&path).await.rest().await;
    assert_eq!(text(&frames), "Then I can't tell.");
    let events = json_of(&frames);
    let mut errors = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter_map(|event| event["error"].as_str());
    assert!(errors.next().is_some_and(|error| error.contains("may ask 1")));
}

#[tokio::test]
async fn d47_what_the_project_and_its_users_tell_all_agents_is_told_to_each() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("helper", &[]).await;
    let path = format!("/api/workspaces/{}/custom-prompt", app.db.project_id);
    assert_eq!(client.get(&path).await.1, json!({"customPrompt": "", "userPrompt": ""}));
    let (status, set) = client
        .put(&path, json!({"customPrompt": "Amounts are in cents."}))
        .await;
    assert_eq!(status, 200, "{set}");
    let (_, set) = client.put(&path, json!({"userPrompt": "Answer in French."})).await;
    assert_eq!(
        set,
        json!({"customPrompt": "Amounts are in cents.", "userPrompt": "Answer in French."})
    );
    app.model.script([Reply::text("Oui."), Reply::text("Yes.")]);
    client.ask(Some(agent), "is it?").await;
    let prompt = &sent(&app.model.requests()[0])[0].1;
    assert!(
        prompt.contains("Amounts are in cents.") && prompt.contains("Answer in French."),
        "{prompt}"
    );
    // Another user has words of their own.
    let (_, key) = app.db.another_user().await;
    Client::new(app.url(), &key).ask(Some(agent), "is it?").await;
    let prompt = &sent(&app.model.requests()[1])[0].1;
    assert!(
        prompt.contains("Amounts are in cents.") && !prompt.contains("French"),
        "{prompt}"
    );
    let (status, told) = client.put(&path, json!({"userPrompt": "x".repeat(10_001)})).await;
    assert_eq!((status.as_u16(), &told["code"]), (400, &json!("invalid_prompt")));
    assert_eq!(
        client
            .get(&format!("/api/workspaces/{}/custom-prompt", Uuid::now_v7()))
            .await
            .0,
        404
    );
}
