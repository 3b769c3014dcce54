//! Branches: a message is edited, or answered again, also by another model or agent; each version goes on by itself.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, text};
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::{Value, json};

/// The contents of a conversation's messages.
async fn said(client: &Client, conversation: &str) -> Vec<String> {
    let (_, page) = client.get(&format!("/api/conversations/{conversation}/messages")).await;
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

/// Forks a run, waits for its end, and returns its conversation and its run.
async fn forked(client: &Client, run: &str, body: Value) -> (String, String) {
    let (status, forked) = client.post(&format!("/api/runs/{run}/fork"), body).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{forked}");
    let id = forked["runId"].as_str().unwrap().to_owned();
    client.stream(&format!("/api/runs/{id}/events")).await.rest().await;
    let (_, detail) = client.get(&format!("/api/runs/{id}")).await;
    (detail["conversationId"].as_str().unwrap().to_owned(), id)
}

/// The points of a conversation with several versions: for each, the previews, and which one is current.
async fn points(client: &Client, conversation: &str) -> Vec<(Vec<String>, usize)> {
    let (status, body) = client.get(&format!("/api/conversations/{conversation}/branches")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let items = body["items"].as_array().unwrap();
    let point = |point: &Value| {
        let versions = point["versions"].as_array().unwrap();
        let previews = versions
            .iter()
            .map(|version| version["preview"].as_str().unwrap().to_owned());
        let current = versions.iter().position(|version| version["isCurrent"] == true);
        (previews.collect(), current.unwrap())
    };
    items.iter().map(point).collect()
}

/// A conversation with two turns: its id, and their runs.
async fn talked(app: &TestApp) -> (String, [String; 2]) {
    let client = app.client();
    app.model.script([Reply::text("Hello."), Reply::text("Blue.")]);
    let first = json_of(&client.chat(json!({"message": "Hi."})).await);
    let id = first[1]["conversationId"].as_str().unwrap().to_owned();
    let second = json_of(
        &client
            .chat(json!({"message": "Which colour?", "conversationId": id}))
            .await,
    );
    let run = |events: &[Value]| events[0]["runId"].as_str().unwrap().to_owned();
    (id, [run(&first), run(&second)])
}

#[tokio::test]
async fn an_edited_message_goes_on_with_the_earlier_ones() {
    let app = TestApp::start().await;
    let client = app.client();
    let (original, [_, second]) = talked(&app).await;
    app.model
        .script([Reply::text("Loud."), Reply::text("You asked which sound.")]);
    let (branch, _) = forked(&client, &second, json!({"step": 0, "message": "Which sound?"})).await;
    assert_eq!(said(&client, &branch).await, ["Hi.", "Hello.", "Which sound?", "Loud."]);
    assert_eq!(
        said(&client, &original).await,
        ["Hi.", "Hello.", "Which colour?", "Blue."]
    );
    // The next turn of the branch knows all of it.
    let more = json!({"message": "What did I ask?", "conversationId": branch});
    assert_eq!(text(&client.chat(more).await), "You asked which sound.");
    let sent = app.model.requests().pop().unwrap()["messages"].to_string();
    for known in ["Hi.", "Hello.", "Which sound?", "Loud."] {
        assert!(sent.contains(known), "{known}: {sent}");
    }
    assert!(!sent.contains("Which colour?"), "{sent}");
    // Its log has the copies, without gaps.
    let frames = client
        .stream(&format!("/api/conversations/{branch}/events"))
        .await
        .until("done")
        .await;
    let events = json_of(&frames);
    assert_eq!(
        (&events[0]["message"]["content"], &events[1]["message"]["content"]),
        (&json!("Hi."), &json!("Hello."))
    );
    assert_eq!(frames[0].id, Some(1));
}

#[tokio::test]
async fn versions_of_a_message_are_listed_in_each_branch() {
    let app = TestApp::start().await;
    let client = app.client();
    let (original, [first, second]) = talked(&app).await;
    assert!(points(&client, &original).await.is_empty());
    app.model
        .script([Reply::text("Loud."), Reply::text("Soft."), Reply::text("Good day.")]);
    let (sound, sound_run) = forked(&client, &second, json!({"step": 0, "message": "Which sound?"})).await;
    // A version of a version.
    let (touch, _) = forked(&client, &sound_run, json!({"step": 0, "message": "Which touch?"})).await;
    let names = ["Which colour?", "Which sound?", "Which touch?"].map(str::to_owned);
    for (conversation, current) in [(&original, 0), (&sound, 1), (&touch, 2)] {
        assert_eq!(points(&client, conversation).await, [(names.to_vec(), current)]);
    }
    // Another point, before that one.
    let (greeting, _) = forked(&client, &first, json!({"step": 0})).await;
    let again = vec!["Hi.".to_owned(), "Hi.".to_owned()];
    assert_eq!(points(&client, &greeting).await, [(again.clone(), 1)]);
    assert_eq!(
        points(&client, &touch).await,
        [(again.clone(), 0), (names.to_vec(), 2)],
        "copies count as their originals"
    );
    // A deleted branch is not listed.
    client.delete(&format!("/api/conversations/{sound}")).await;
    let left = vec![names[0].clone(), names[2].clone()];
    assert_eq!(points(&client, &original).await, [(again, 0), (left, 0)]);
    let other = Client::new(app.url(), &app.db.another_user().await.1);
    let (status, _) = other.get(&format!("/api/conversations/{original}/branches")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn another_model_or_agent_answers_the_same_message() {
    let app = TestApp::start().await;
    let client = app.client();
    let (_, [_, second]) = talked(&app).await;
    app.model.script([Reply::text("Green."), Reply::text("Arr, red.")]);
    let (_, run) = forked(&client, &second, json!({"step": 0, "model": "openai:other"})).await;
    let (_, detail) = client.get(&format!("/api/runs/{run}")).await;
    assert_eq!(detail["model"], "openai:other");
    assert_eq!(app.model.requests().pop().unwrap()["model"], "other");
    let pirate = app
        .agent_with("pirate", &[], |content| {
            content.system_prompt = "Talk like a pirate.".to_owned()
        })
        .await;
    let (branch, run) = forked(&client, &second, json!({"step": 0, "agentDefinitionId": pirate})).await;
    assert_eq!(
        said(&client, &branch).await,
        ["Hi.", "Hello.", "Which colour?", "Arr, red."]
    );
    let (_, detail) = client.get(&format!("/api/runs/{run}")).await;
    assert_eq!(detail["agent"], "pirate");
    let sent = app.model.requests().pop().unwrap()["messages"].clone();
    assert!(
        sent[0]["content"].as_str().unwrap().starts_with("Talk like a pirate."),
        "{sent}"
    );
    assert_eq!(
        sent.as_array().unwrap().len(),
        4,
        "with the earlier messages, once: {sent}"
    );
    for (body, code) in [
        (
            json!({"step": 1, "message": "x", "agentDefinitionId": pirate}),
            "run_fork_unfit",
        ),
        (
            json!({"step": 0, "agentDefinitionId": "00000000-0000-0000-0000-000000000000"}),
            "run_fork_unfit",
        ),
        (json!({"step": 0, "model": "nonsense"}), "unknown_model"),
    ] {
        let (_, problem) = client.post(&format!("/api/runs/{second}/fork"), body).await;
        assert_eq!(problem["code"], code, "{problem}");
    }
}

#[tokio::test]
async fn a_message_names_a_model_that_the_server_allows() {
    let app = TestApp::with(rejoin_tests::app::AppOptions {
        api: |config| config.chat.user_models = vec!["openai:*".to_owned()],
        ..rejoin_tests::app::AppOptions::default()
    })
    .await;
    let client = app.client();
    let (_, me) = client.get("/api/me").await;
    assert_eq!(me["mayChooseModels"], true);
    let (_, models) = client.get("/api/models").await;
    for model in models["items"].as_array().unwrap() {
        assert_eq!(model["mayChoose"], model["provider"] == "openai", "{model}");
    }
    let agent = app.agent("talker", &[]).await;
    app.model.script([Reply::text("Yes.")]);
    let body = json!({"message": "Chosen?", "agentDefinitionId": agent, "model": "openai:chosen"});
    assert_eq!(text(&client.chat(body).await), "Yes.");
    let sent = app.model.requests().pop().unwrap();
    assert_eq!((&sent["model"], &sent["temperature"]), (&json!("chosen"), &json!(0.1)));
    app.model.script([Reply::text("Yes.")]);
    client
        .chat(json!({"message": "Without an agent?", "model": "openai:other"}))
        .await;
    assert_eq!(app.model.requests().pop().unwrap()["model"], "other");
    for (model, code) in [
        ("anthropic:claude-haiku-5-5", "model_not_allowed"),
        ("nonsense", "unknown_model"),
    ] {
        let (status, problem) = client
            .post("/api/chat/stream", json!({"message": "Chosen?", "model": model}))
            .await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!(code)));
    }
}
