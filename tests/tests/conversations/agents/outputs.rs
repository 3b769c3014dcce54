//! Structured output: a definition or a request requires answers that match a JSON Schema.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, kinds, of_kind, text};
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::{Value, json};

fn city() -> Value {
    json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
        "required": ["city", "people"],
        "additionalProperties": false,
    })
}

async fn run_of(app: &TestApp, events: &[Value]) -> Value {
    let id = events[1]["runId"].as_str().unwrap();
    app.client().get(&format!("/api/runs/{id}")).await.1
}

#[tokio::test]
async fn a_fitting_answer_is_data_and_its_text_is_the_same_json() {
    let app = TestApp::start().await;
    let agent = app.agent("cities", &[]).await;
    app.model
        .script([Reply::tool("final_answer", json!({"city": "Bonn", "people": 330_000}))]);
    let frames = app
        .client()
        .chat(json!({"message": "Which city?", "agentDefinitionId": agent, "outputSchema": city()}))
        .await;
    let events = json_of(&frames);
    let output = of_kind(&events, "output");
    assert_eq!(output.len(), 1, "{:?}", kinds(&frames));
    assert_eq!(output[0]["output"], json!({"city": "Bonn", "people": 330_000}));
    let published: Value = serde_json::from_str(&text(&frames)).unwrap();
    assert_eq!(published, output[0]["output"]);
    let stored = of_kind(&events, "message");
    assert_eq!(stored.last().unwrap()["message"]["content"], text(&frames));
    assert_eq!(events.last().unwrap()["status"], "completed");
    let run = run_of(&app, &events).await;
    assert_eq!((&run["output"], &run["outputSchema"]), (&output[0]["output"], &city()));
    // A model whose provider accepts no schema gets a tool.
    let request = &app.model.requests()[0];
    assert_eq!(request["tools"][0]["function"]["name"], "final_answer");
    assert_eq!(request["tools"][0]["function"]["parameters"], city());
    assert!(request["response_format"].is_null());
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn an_unfitting_answer_is_asked_for_again_and_hidden() {
    let app = TestApp::start().await;
    app.model.script([
        Reply::text("It is Bonn, of course."),
        Reply::text("```json\n{\"city\": \"Bonn\", \"people\": 330000}\n```"),
    ]);
    let frames = app
        .client()
        .chat(json!({"message": "Which city?", "outputSchema": city()}))
        .await;
    assert_eq!(text(&frames), r#"{"city":"Bonn","people":330000}"#);
    let events = json_of(&frames);
    assert_eq!(of_kind(&events, "output")[0]["output"]["city"], "Bonn");
    // The provider of a conversation's model accepts the schema itself.
    let request = &app.model.requests()[1];
    assert_eq!(request["response_format"]["json_schema"]["schema"], city());
    assert!(request["tools"].is_null(), "{request}");
    let asked = request["messages"].as_array().unwrap().clone();
    let again = asked.last().unwrap()["content"].as_str().unwrap();
    assert!(
        again.contains("does not match") && again.contains("not JSON"),
        "{again}"
    );
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_never_fitting_answer_ends_the_turn_with_the_reason() {
    let app = TestApp::start().await;
    app.model.script([
        Reply::text(r#"{"city": "Bonn"}"#),
        Reply::text(r#"{"city": "Bonn", "people": "many"}"#),
    ]);
    let frames = app
        .client()
        .chat(json!({"message": "Which city?", "outputSchema": city()}))
        .await;
    let events = json_of(&frames);
    let error = of_kind(&events, "error")[0];
    assert_eq!(error["code"], "output_invalid");
    assert!(error["error"].as_str().unwrap().contains("people"), "{error}");
    assert_eq!(events.last().unwrap()["status"], "failed");
    assert_eq!(text(&frames), "");
    assert!(of_kind(&events, "output").is_empty());
    assert_eq!(run_of(&app, &events).await["output"], Value::Null);
}

#[tokio::test]
async fn a_schema_holds_after_tool_calls_and_a_crash() {
    let mut app = TestApp::start().await;
    let agent = app
        .agent_with("cities", &["list_entity_types"], |content| {
            content.config = json!({"outputSchema": city()});
        })
        .await;
    app.model.script([
        Reply::text("I look it up. ").then_tool("list_entity_types", json!({})),
        Reply::hang(),
        Reply::tool("final_answer", json!({"city": "Bonn", "people": 1})),
    ]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "Which city?", "agentDefinitionId": agent}))
        .await;
    let run = posted["runId"].as_str().unwrap();
    let stream = client.event_stream(&format!("/api/runs/{run}/events")).await;
    app.model
        .wait_for(std::time::Duration::from_secs(20), |counts| counts.requests == 2)
        .await
        .expect("the model is asked a second time");
    app.crash_workers();
    app.add_worker();
    let frames = stream.rest().await;
    let events = json_of(&frames);
    assert_eq!(
        of_kind(&events, "output")[0]["output"],
        json!({"city": "Bonn", "people": 1})
    );
    let done = events.last().unwrap();
    assert_eq!((&done["type"], &done["status"]), (&json!("done"), &json!("completed")));
    let stored = of_kind(&events, "message");
    assert_eq!(
        stored.last().unwrap()["message"]["content"],
        r#"{"city":"Bonn","people":1}"#
    );
    let (_, definition) = client
        .get(&format!(
            "/api/admin/projects/{}/agent-definitions/{agent}",
            app.db.workspace_id
        ))
        .await;
    assert_eq!(definition["outputSchema"], city());
}

#[tokio::test]
async fn triggered_runs_answer_as_data_and_bad_schemas_are_refused() {
    let app = TestApp::start().await;
    let agent = app.agent("cities", &[]).await;
    app.model.script([Reply::text(r#"{"city": "Bonn", "people": 1}"#)]);
    let client = app.client();
    let path = format!("/api/projects/{}/agents/{agent}/trigger", app.db.workspace_id);
    let (status, accepted) = client
        .post(&path, json!({"input": "Which?", "outputSchema": city()}))
        .await;
    assert_eq!(status, StatusCode::ACCEPTED, "{accepted}");
    let run = accepted["runId"].as_str().unwrap();
    client
        .event_stream(&format!("/api/runs/{run}/events"))
        .await
        .rest()
        .await;
    let (_, detail) = client.get(&format!("/api/runs/{run}")).await;
    assert_eq!(detail["output"], json!({"city": "Bonn", "people": 1}));
    for (schema, word) in [
        (json!({"type": "array"}), "object"),
        (
            json!({"type": "object", "properties": {"a": {"type": "text"}}}),
            "JSON Schema",
        ),
        (json!({"type": "object", "description": "x".repeat(70_000)}), "65536"),
    ] {
        let (status, problem) = client
            .post(&path, json!({"input": "Which?", "outputSchema": schema}))
            .await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{problem}");
        assert_eq!(problem["code"], "invalid_output_schema");
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
        let chat = json!({"message": "Which?", "outputSchema": schema});
        assert_eq!(client.post("/api/chat/stream", chat).await.0, StatusCode::BAD_REQUEST);
    }
}
