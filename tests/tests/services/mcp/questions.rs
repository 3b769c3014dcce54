//! Questions of a run that an MCP client started: put to the client's user, or returned; and what the client reads as resources.

use rejoin_tests::app::TestApp;
use rejoin_tests::mcp;
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};

use super::endpoint::Client;

fn question() -> Value {
    let options = json!([{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}]);
    json!({"question": "Which colour?", "options": options})
}

async fn app_with_asker() -> TestApp {
    let app = TestApp::start().await;
    app.agent("asker", &["ask_user"]).await;
    app.model
        .script([Reply::tool("ask_user", question()), Reply::text("Blue it is.")]);
    app
}

fn ask(more: Value) -> Value {
    let mut arguments = json!({"message": "Paint it", "agent": "asker"});
    for (name, value) in more.as_object().unwrap() {
        arguments[name] = value.clone();
    }
    json!({"call": "ask_agent", "arguments": arguments})
}

#[tokio::test]
async fn the_clients_user_answers_the_question_of_a_run() {
    if !mcp::are_there() {
        return;
    }
    let app = app_with_asker().await;
    let steps = json!([
        {"answers": [{"action": "accept", "content": {"answer": "blue"}}]},
        ask(json!({})),
    ]);
    let mut client = Client::start(&format!("{}/mcp", app.url()), &app.db.api_key, steps);
    client.next().await;
    let asked = client.next().await;
    assert_eq!(asked["asked"]["message"], "Which colour?", "{asked}");
    let options = &asked["asked"]["requestedSchema"]["properties"]["answer"]["oneOf"];
    assert_eq!(options[1], json!({"const": "blue", "title": "Blue"}), "{asked}");
    let answer = client.next().await;
    assert_eq!(answer["structuredContent"]["status"], "completed", "{answer}");
    assert_eq!(answer["structuredContent"]["reply"], "Blue it is.");
}

#[tokio::test]
async fn a_client_without_forms_answers_with_its_next_call() {
    if !mcp::are_there() {
        return;
    }
    let app = app_with_asker().await;
    let url = format!("{}/mcp", app.url());
    let mut client = Client::start(&url, &app.db.api_key, json!([ask(json!({}))]));
    client.next().await;
    let waiting = client.next().await["structuredContent"].clone();
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    assert_eq!(waiting["questions"][0]["question"], "Which colour?");
    let answer = ask(json!({"message": "Blue", "conversation_id": waiting["conversation_id"]}));
    let mut client = Client::start(&url, &app.db.api_key, json!([answer]));
    client.next().await;
    let answered = client.next().await["structuredContent"].clone();
    assert_eq!(answered["status"], "completed", "{answered}");
    assert_eq!(answered["run_id"], waiting["run_id"]);
    assert_eq!(answered["reply"], "Blue it is.");
}

#[tokio::test]
async fn a_user_who_declines_leaves_the_question_open() {
    if !mcp::are_there() {
        return;
    }
    let app = app_with_asker().await;
    let steps = json!([{"answers": [{"action": "decline"}]}, ask(json!({}))]);
    let mut client = Client::start(&format!("{}/mcp", app.url()), &app.db.api_key, steps);
    client.next().await;
    client.next().await;
    let declined = client.next().await;
    assert_eq!(declined["structuredContent"]["status"], "waiting", "{declined}");
    let (_, open) = app.client().get("/api/questions?status=pending").await;
    assert_eq!(open["items"].as_array().unwrap().len(), 1, "{open}");
}

#[tokio::test]
async fn conversations_runs_and_entities_are_read_as_resources() {
    if !mcp::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("librarian", &[]).await;
    app.model.script([Reply::text("Hello.")]);
    let url = format!("{}/mcp", app.url());
    let entity = json!({"call": "create_entity", "arguments": {"type": "Package", "key": "curl", "properties": {}}});
    let steps = json!([{"call": "ask_agent", "arguments": {"message": "Hi", "agent": "librarian"}}, entity,
        {"resources": true}, {"templates": true}]);
    let mut client = Client::start(&url, &app.db.api_key, steps);
    client.next().await;
    let answer = client.next().await["structuredContent"].clone();
    let made = client.next().await;
    let listed = client.next().await;
    let conversation = format!("rejoin://conversations/{}", answer["conversation_id"].as_str().unwrap());
    assert_eq!(listed["resources"][0]["uri"], json!(conversation), "{listed}");
    let templates = client.next().await;
    assert_eq!(
        templates["resourceTemplates"].as_array().unwrap().len(),
        3,
        "{templates}"
    );

    let run = format!("rejoin://runs/{}", answer["run_id"].as_str().unwrap());
    let id = made["structuredContent"]["entity"]["id"].as_str();
    let entity = format!("rejoin://entities/{}", id.unwrap_or_else(|| panic!("{made}")));
    let reads = json!([{"read": conversation}, {"read": run}, {"read": entity}, {"read": "rejoin://keys/1"}]);
    let mut client = Client::start(&url, &app.db.api_key, reads.clone());
    client.next().await;
    let mut documents = Vec::new();
    for _ in 0..3 {
        let read = client.next().await;
        let text = read["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
        documents.push(serde_json::from_str::<Value>(text).unwrap());
    }
    assert_eq!(documents[0]["messages"][1]["content"], "Hello.");
    assert_eq!(documents[1]["run"]["state"], "completed", "{}", documents[1]);
    assert_eq!(documents[2]["key"], "curl");
    let unknown = client.next().await;
    assert!(
        unknown["failed"].as_str().unwrap().contains("there is no resource"),
        "{unknown}"
    );

    // Another user of the workspace sees the entity, which is shared, and neither conversation nor run.
    let (_, other) = app.db.another_user().await;
    let mut client = Client::start(&url, &other, reads);
    client.next().await;
    for _ in 0..2 {
        let read = client.next().await;
        assert!(
            read["failed"]
                .as_str()
                .is_some_and(|why| why.contains("there is no resource")),
            "{read}"
        );
    }
    assert!(client.next().await["contents"][0]["text"].is_string());
}
