//! Agent routing, end to end: the choice before the first token, published, stored, counted; and prompts for all
//! agents. (Reports: `routing_reports`.)

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, kinds, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use serde_json::{Value, json};
use uuid::Uuid;

/// Installs the specialists, with the scripted model.
pub(super) async fn specialists(app: &TestApp) {
    let client = app.client();
    let path = format!(
        "/api/admin/projects/{}/install-default-agents?set=databases",
        app.db.workspace_id
    );
    let (status, installed) = client.post(&path, json!({})).await;
    assert_eq!(status, 200, "{installed}");
    sqlx::query("update kb.agent_definitions set model = '{\"name\": \"openai:scripted\"}'")
        .execute(&app.db.pool)
        .await
        .unwrap();
}

pub(super) async fn route(app: &TestApp, body: Value) {
    let path = format!("/api/admin/projects/{}/routing", app.db.workspace_id);
    let (status, set) = app.client().put(&path, body).await;
    assert_eq!(status, 200, "{set}");
}

/// (agent of the turn, its telemetry)
pub(super) async fn first_turn(app: &TestApp, client: &Client, body: Value) -> (Value, Value) {
    app.model.script([Reply::text("Hello.")]);
    let frames = client.chat(body).await;
    let events = json_of(&frames);
    let published = of_kind(&events, "telemetry")
        .into_iter()
        .find(|event| event["name"] == "routing")
        .map(|event| event["data"].clone());
    (
        of_kind(&events, "meta")[0]["agent"].clone(),
        published.unwrap_or_default(),
    )
}

/// Requirements: D04, D09, D12, D13.
#[tokio::test]
async fn a_new_conversation_finds_its_agent_and_says_why() {
    let app = TestApp::developing().await;
    let client = app.client();
    specialists(&app).await;
    let mongodb = "count the documents of the orders collection in mongodb";
    // Without settings there is no routing.
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
    // An attached database is an equal signal.
    let attached = json!([{"id": "warehouse", "type": "database", "title": "Warehouse", "metadata": {"databaseType": "bigquery"}}]);
    let (agent, told) = first_turn(
        &app,
        &client,
        json!({"message": "how many users are there?", "attachedContext": attached}),
    )
    .await;
    assert_eq!(
        (&agent, &told["reason"]),
        (&json!("bigquery-analyst"), &json!("console_database"))
    );
    let counted = client.metric_sum(&["rejoin_routed_total"]).await;
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
    // Other tests count in the same process: it grows by at least one.
    assert!(client.metric_sum(&["rejoin_routed_total"]).await >= counted + 1.0);
    let metrics = client.metrics().await;
    let labels = ["reason=\"console_database\"", "confidence=\"high\""];
    let is_it =
        |line: &&str| line.starts_with("rejoin_routed_total{") && labels.iter().all(|label| line.contains(label));
    assert!(metrics.lines().any(|line| is_it(&line)), "{metrics}");
    let (agent, told) = first_turn(&app, &client, json!({"message": "hello there"})).await;
    assert_eq!((&agent, &told["reason"]), (&json!("triage"), &json!("triage")));
    // A named agent is used.
    let (_, page) = client
        .get(&format!("/api/projects/{}/agents", app.db.workspace_id))
        .await;
    let postgres = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "postgres-analyst")
        .unwrap();
    let body = json!({"message": mongodb, "agentDefinitionId": postgres["id"]});
    let (agent, told) = first_turn(&app, &client, body).await;
    assert_eq!((agent, told), (json!("postgres-analyst"), Value::Null));

    let path = format!("/api/admin/projects/{}/routing", app.db.workspace_id);
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

/// Requirements: D05, D08, D50, D52.
#[tokio::test]
async fn what_is_pinned_preferred_and_usual_counts() {
    let app = TestApp::developing().await;
    let client = app.client();
    specialists(&app).await;
    route(&app, json!({"percent": 100, "preferredAgent": "sql-analyst"})).await;
    let path = format!("/api/projects/{}/routing/preview", app.db.workspace_id);
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
    // An existing conversation keeps its agent, whatever the message.
    app.model.script([Reply::text("Hello."), Reply::text("Still me.")]);
    let events = json_of(&client.chat(json!({"message": "ask mongodb"})).await);
    let conversation = &events[1]["conversationId"];
    let events = json_of(
        &client
            .chat(json!({"message": "now SELECT from postgres", "conversationId": conversation}))
            .await,
    );
    assert_eq!(of_kind(&events, "meta")[0]["agent"], "mongodb-analyst");
    assert!(
        of_kind(&events, "telemetry")
            .iter()
            .all(|event| event["name"] != "routing")
    );
}

/// Requirements: D15, D16, D51, D58.
#[tokio::test]
async fn triage_hands_over_at_once_asks_once_and_is_counted() {
    let app = TestApp::developing().await;
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
    // D16: its prompt explains the vocabulary, before any user message.
    let prompt = &sent(&app.model.requests()[0])[0];
    assert_eq!(prompt.0, "system");
    for hint in [
        "\"Collection\", \"document\" and \"aggregate\" mean MongoDB",
        "\"SQL\", \"table\" and \"SELECT\" mean a relational database",
    ] {
        assert!(prompt.1.contains(hint), "{}", prompt.1);
    }
    // It has no tool that writes or queries a database.
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
        .get(&format!("/api/projects/{}/routing/stats", app.db.workspace_id))
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

    // A second question in one turn is refused.
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
    assert!(errors.next().is_some_and(|error| error.contains("may ask at most 1")));
}

/// Requirements: D47.
#[tokio::test]
async fn shared_instructions_reach_every_agent() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("helper", &[]).await;
    let path = format!("/api/workspaces/{}/custom-prompt", app.db.workspace_id);
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
    // Another user has a separate prompt.
    let (_, key) = app.db.another_user().await;
    Client::new(app.url(), &key).ask(Some(agent), "is it?").await;
    let prompt = &sent(&app.model.requests()[1])[0].1;
    assert!(
        prompt.contains("Amounts are in cents.") && !prompt.contains("French"),
        "{prompt}"
    );
    // The project's prompt is set by its admins; a user's, by the user.
    let keys = format!("/api/admin/projects/{}/keys", app.db.workspace_id);
    let (status, made) = client
        .post(&keys, json!({"name": "writer", "scopes": ["read", "write"]}))
        .await;
    assert_eq!(status, 201, "{made}");
    let writer = Client::new(app.url(), made["key"].as_str().unwrap());
    let (status, told) = writer
        .put(
            &path,
            json!({"customPrompt": "Amounts are in pounds.", "userPrompt": "x"}),
        )
        .await;
    assert_eq!((status.as_u16(), &told["code"]), (403, &json!("scope_missing")));
    let (status, set) = writer.put(&path, json!({"userPrompt": "Answer in Dutch."})).await;
    assert_eq!(status, 200, "{set}");
    assert_eq!(
        client.get(&path).await.1,
        json!({"customPrompt": "Amounts are in cents.", "userPrompt": "Answer in Dutch."})
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

/// Requirements: D47.
#[tokio::test]
async fn an_agent_that_takes_over_gets_the_prompts_of_all_agents() {
    let app = TestApp::start().await;
    let client = app.client();
    specialists(&app).await;
    route(&app, json!({"percent": 100})).await;
    let path = format!("/api/workspaces/{}/custom-prompt", app.db.workspace_id);
    let body = json!({"customPrompt": "Amounts are in cents.", "userPrompt": "Answer in French."});
    assert_eq!(client.put(&path, body).await.0, 200);
    app.model.script([
        Reply::tool("transfer_to_sql", json!({"reason": "tables"})),
        Reply::text("Trois."),
    ]);
    let console = json!({"id": Uuid::now_v7(), "title": "Orders", "content": "-- of this year"});
    client
        .chat(json!({"message": "how many are there?", "consoles": [console]}))
        .await;
    let taker = &sent(&app.model.requests()[1])[0].1;
    assert!(taker.starts_with("You answer questions from MySQL"), "{taker}");
    for body in ["Amounts are in cents.", "Answer in French.", "-- of this year"] {
        assert!(taker.contains(body), "{taker}");
    }
}
