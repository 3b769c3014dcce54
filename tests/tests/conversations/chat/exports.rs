//! A conversation as Markdown and JSON; what its answers cost; feedback, its lists and its export.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of};
use rejoin_tests::model_server::Reply;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// A conversation of a turn; returns it and the answer's id.
async fn talked(app: &TestApp) -> (String, String) {
    let agent = app.agent("helper", &[]).await;
    app.model.script([Reply::text("It is libssl3.")]);
    let events = json_of(&app.client().ask(Some(agent), "Which package?").await);
    let answer = events.iter().rfind(|event| event["type"] == "message").unwrap();
    (
        events[1]["conversationId"].as_str().unwrap().to_owned(),
        answer["message"]["id"].as_str().unwrap().to_owned(),
    )
}

async fn downloaded(client: &Client, path: &str) -> (String, String) {
    let response = client.request(Method::GET, path).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(
        response.headers()["content-disposition"]
            .to_str()
            .unwrap()
            .starts_with("attachment")
    );
    (kind, response.text().await.unwrap())
}

#[tokio::test]
async fn a_conversation_is_exported_as_markdown_and_json() {
    let app = TestApp::start().await;
    let client = app.client();
    let (id, answer) = talked(&app).await;
    let path = format!("/api/conversations/{id}/export");
    let (kind, markdown) = downloaded(&client, &path).await;
    assert_eq!(kind, "text/markdown; charset=utf-8");
    assert!(markdown.starts_with("# Which package?\n\n## User ("), "{markdown}");
    assert!(
        markdown.contains("## helper (") && markdown.ends_with("\n\nIt is libssl3.\n"),
        "{markdown}"
    );
    let (kind, text) = downloaded(&client, &format!("{path}?format=json")).await;
    assert_eq!(kind, "application/json");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["conversation"]["id"], json!(id));
    assert_eq!(document["messages"].as_array().unwrap().len(), 2);
    assert_eq!(
        (
            &document["messages"][1]["id"],
            &document["messages"][1]["answer"]["agent"]
        ),
        (&json!(answer), &json!("helper"))
    );
    assert_eq!(
        client.get(&format!("{path}?format=pdf")).await.0,
        StatusCode::BAD_REQUEST
    );
    let other = Client::new(app.url(), &app.db.another_user().await.1);
    assert_eq!(other.get(&path).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn long_and_empty_conversations_are_exported_whole() {
    let app = TestApp::start().await;
    let client = app.client();
    let (_, empty) = client.post("/api/conversations", json!({"title": "Empty"})).await;
    let path = |id: &Value| format!("/api/conversations/{}/export?format=json", id.as_str().unwrap());
    let (_, text) = downloaded(&client, &path(&empty["id"])).await;
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["messages"], json!([]));
    // More than are read at once, and exactly as many.
    for count in [100, 250] {
        let (_, made) = client.post("/api/conversations", json!({"title": "Long"})).await;
        sqlx::query(
            "insert into kb.chat_messages (id, conversation_id, role, content, seq)
             select gen_random_uuid(), $1::uuid, 'user', 'message ' || n, n from generate_series(1, $2) n",
        )
        .bind(made["id"].as_str().unwrap())
        .bind(count)
        .execute(&app.db.pool)
        .await
        .unwrap();
        let (_, text) = downloaded(&client, &path(&made["id"])).await;
        let document: Value = serde_json::from_str(&text).unwrap();
        let messages = document["messages"].as_array().unwrap();
        assert_eq!(messages.len(), usize::try_from(count).unwrap());
        assert_eq!(messages.last().unwrap()["content"], json!(format!("message {count}")));
    }
}

#[tokio::test]
async fn an_answer_names_its_run_model_tokens_and_cost() {
    let app = TestApp::start().await;
    let client = app.client();
    let (id, answer) = talked(&app).await;
    let (_, page) = client.get(&format!("/api/conversations/{id}/messages")).await;
    let (asked, answered) = (&page["items"][0], &page["items"][1]);
    assert!(asked["answer"].is_null());
    assert_eq!(answered["id"], json!(answer));
    let of = &answered["answer"];
    let (_, run) = client
        .get(&format!("/api/runs/{}", of["runId"].as_str().unwrap()))
        .await;
    for field in ["usage", "model", "agent", "agentVersion", "durationMs", "state"] {
        assert_eq!(of[field], run[field], "{field}");
    }
    assert_eq!(of["agentVersion"], 1);
    assert!(of["usage"]["totalTokens"].as_i64().unwrap() > 0, "{of}");
    assert!(of["treeTokens"].as_i64().unwrap() > 0, "{of}");
}

#[tokio::test]
async fn feedback_is_set_read_listed_exported_and_removed() {
    let app = TestApp::start().await;
    let client = app.client();
    let (id, answer) = talked(&app).await;
    let path = format!("/api/messages/{answer}/feedback");
    assert_eq!(client.get(&path).await.0, StatusCode::NOT_FOUND);
    let given = json!({"helped": false, "comment": "Outdated.", "labels": ["wrong", "old"]});
    assert_eq!(client.put(&path, given).await.0, StatusCode::NO_CONTENT);
    let (_, feedback) = client.get(&path).await;
    assert_eq!(
        (
            &feedback["question"],
            &feedback["answer"],
            &feedback["agent"],
            &feedback["conversationId"]
        ),
        (
            &json!("Which package?"),
            &json!("It is libssl3."),
            &json!("helper"),
            &json!(id)
        )
    );
    assert_eq!(feedback["labels"], json!(["wrong", "old"]));
    let (of_it, of_another) = (
        format!("?conversationId={id}&helped=false"),
        format!("?conversationId={answer}"),
    );
    for (query, count) in [
        ("", 1),
        (&*of_it, 1),
        (&*of_another, 0),
        ("?helped=false&label=old", 1),
        ("?helped=true", 0),
        ("?label=slow", 0),
    ] {
        let (_, page) = client.get(&format!("/api/feedback{query}")).await;
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{query}");
    }
    let (kind, lines) = downloaded(&client, "/api/feedback/export?label=old").await;
    assert_eq!(kind, "application/x-ndjson");
    let line: Value = serde_json::from_str(lines.trim_end()).unwrap();
    assert_eq!(line, feedback);
    assert_eq!(downloaded(&client, "/api/feedback/export?helped=true").await.1, "");
    let exported = downloaded(&client, &format!("/api/feedback/export{of_another}")).await;
    assert_eq!(exported.1, "");
    let other = Client::new(app.url(), &app.db.another_user().await.1);
    assert_eq!(other.get(&path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(other.get("/api/feedback").await.1["items"], json!([]));
    let many = vec!["x"; 11];
    for (body, code) in [
        (json!({"helped": true, "labels": many}), "invalid_label"),
        (json!({"helped": true, "labels": [" "]}), "invalid_label"),
        (json!({"helped": true, "comment": "x".repeat(2_001)}), "invalid_comment"),
    ] {
        let (status, problem) = client.put(&path, body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!(code)));
    }
    assert_eq!(client.delete(&path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.delete(&path).await.0, StatusCode::NOT_FOUND);
}
