//! Conversations and posting over HTTP: lists, changes, idempotency, and requests refused before anything is stored.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::answer;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

pub(super) async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

async fn count(app: &TestApp, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&app.db.pool).await.unwrap()
}

/// Posts with an idempotency key, for JSON.
async fn post_with_key(app: &TestApp, key: &str, body: Value) -> (StatusCode, Value) {
    let request = app.client().request(Method::POST, "/api/chat/stream");
    let request = request
        .header("accept", "application/json")
        .header("idempotency-key", key)
        .json(&body);
    answer(request.send().await.unwrap()).await
}

#[tokio::test]
async fn a_post_for_json_is_accepted_with_the_headers_of_a_stream() {
    let app = quiet().await;
    let request = app
        .client()
        .request(Method::POST, "/api/chat/stream")
        .json(&json!({"message": "hello"}));
    let response = request.header("accept", "application/json").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    let headers = response.headers().clone();
    let (_, posted) = answer(response).await;
    assert_eq!(headers["x-conversation-id"], posted["conversationId"].as_str().unwrap());
    assert_eq!(headers["x-run-id"], posted["runId"].as_str().unwrap());
    assert_eq!(
        headers["location"],
        format!("/api/runs/{}/events", posted["runId"].as_str().unwrap())
    );
    assert_eq!(posted["cursor"], 0);
}

#[tokio::test]
async fn the_same_key_and_body_is_one_run_and_another_body_is_422() {
    let app = quiet().await;
    let (status, first) = post_with_key(&app, "k", json!({"message": "hello", "contextType": "global"})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(
        post_with_key(&app, "k", json!({"contextType": "global", "message": "hello"}))
            .await
            .1,
        first
    );
    let (status, problem) = post_with_key(&app, "k", json!({"message": "other"})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("idempotency_key_reused"))
    );
    // A turn's id is no header's key, and another user's key is a different one.
    let named = app
        .client()
        .post_message(json!({"message": "hello", "clientTurnId": "k"}))
        .await;
    assert_ne!(named["runId"], first["runId"]);
    assert_eq!(
        app.client()
            .post_message(json!({"message": "hello", "clientTurnId": "k"}))
            .await,
        named
    );
    assert_eq!(count(&app, "select count(*) from kb.agent_runs").await, 2);
}

#[tokio::test]
async fn one_key_posted_by_fifty_at_once_is_one_run() {
    let app = quiet().await;
    let posts = (0..50).map(|_| post_with_key(&app, "same", json!({"message": "hello"})));
    let answers = futures::future::join_all(posts).await;
    assert!(answers.iter().all(|answer| answer == &answers[0]), "{answers:?}");
    assert_eq!(count(&app, "select count(*) from kb.chat_messages").await, 1);
}

#[tokio::test]
async fn what_is_wrong_is_refused_before_anything_is_stored() {
    let app = quiet().await;
    let unknown = Uuid::now_v7();
    let cases = [
        (json!({"message": ""}), StatusCode::BAD_REQUEST, "message_empty"),
        (
            json!({"message": "x".repeat(100_001)}),
            StatusCode::BAD_REQUEST,
            "message_too_long",
        ),
        (
            json!({"message": "x".repeat(1_100_000)}),
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
        ),
        (json!({"message": "a\u{0}b"}), StatusCode::BAD_REQUEST, "invalid_text"),
        (
            json!({"message": "x", "mesage": "y"}),
            StatusCode::BAD_REQUEST,
            "unknown_field",
        ),
        (json!({}), StatusCode::BAD_REQUEST, "invalid_body"),
        (
            json!({"message": "x", "conversationId": unknown}),
            StatusCode::NOT_FOUND,
            "conversation_not_found",
        ),
        (
            json!({"message": "x", "agentDefinitionId": unknown}),
            StatusCode::BAD_REQUEST,
            "agent_definition_not_found",
        ),
        (
            json!({"message": "x", "agentDefinitionId": "nope"}),
            StatusCode::BAD_REQUEST,
            "agent_definition_not_found",
        ),
    ];
    for (body, status, code) in cases {
        let (got, problem) = app.client().post("/api/chat/stream", body).await;
        assert_eq!((got, &problem["code"]), (status, &json!(code)), "{problem}");
        if code == "unknown_field" {
            assert!(problem["detail"].as_str().unwrap().contains("mesage"), "{problem}");
        }
    }
    assert_eq!(count(&app, "select count(*) from kb.chat_conversations").await, 0);
    assert_eq!(count(&app, "select count(*) from queue.jobs").await, 0);
}

#[tokio::test]
async fn a_second_message_waits_or_is_refused_or_interrupts() {
    let app = quiet().await;
    let first = app.client().post_message(json!({"message": "one"})).await;
    let conversation = &first["conversationId"];
    let body = |message: &str| json!({"message": message, "conversationId": conversation});
    app.client().post_message(body("two")).await;
    let (status, problem) = app.client().post("/api/chat/stream?onBusy=reject", body("three")).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("conversation_busy"))
    );
    let request = app
        .client()
        .request(Method::POST, "/api/chat/stream?onBusy=interrupt")
        .json(&body("four"));
    assert_eq!(
        request
            .header("accept", "application/json")
            .send()
            .await
            .unwrap()
            .status(),
        StatusCode::ACCEPTED
    );
    let states: Vec<String> = sqlx::query_scalar("select state from kb.agent_runs order by id")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(states, ["cancelled", "cancelled", "queued"]);
    let (status, _) = app.client().post("/api/chat/stream?onBusy=maybe", body("five")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn conversations_are_made_listed_changed_and_deleted() {
    let app = quiet().await;
    let client = app.client();
    let mut made = Vec::new();
    for i in 0..5 {
        let (status, body) = client
            .post(
                "/api/conversations",
                json!({"title": format!("c{i}"), "metadata": {"i": i}}),
            )
            .await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        made.push(body);
    }
    // In pages, newest first, each once.
    let (mut titles, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, page) = client.get(&format!("/api/conversations?limit=2{cursor}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        titles.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["title"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(titles, ["c4", "c3", "c2", "c1", "c0"]);
    let path = format!("/api/conversations/{}", made[0]["id"].as_str().unwrap());
    let (_, changed) = client.patch(&path, json!({"title": "new"})).await;
    assert_eq!(
        (&changed["title"], &changed["metadata"]),
        (&json!("new"), &json!({"i": 0}))
    );
    let mut whole = changed;
    whole["attachedConsole"] = Value::Null;
    assert_eq!(client.get(&path).await.1, whole);
    assert_eq!(
        client.patch(&path, json!({"owner": "me"})).await.0,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(client.delete(&path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.get(&path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(client.delete(&path).await.0, StatusCode::NOT_FOUND);
    for (path, status) in [
        ("/api/conversations?cursor=@", StatusCode::BAD_REQUEST),
        ("/api/conversations?limit=0", StatusCode::BAD_REQUEST),
        ("/api/conversations?limit=many", StatusCode::BAD_REQUEST),
        ("/api/conversations/nope", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(client.get(path).await.0, status, "{path}");
    }
}

#[tokio::test]
async fn messages_are_listed_as_they_were_said_with_what_was_attached() {
    let app = quiet().await;
    let first = app
        .client()
        .post_message(json!({"message": "one", "contextType": "project", "consoles": [{"id": "c"}]}))
        .await;
    let conversation = first["conversationId"].as_str().unwrap();
    app.client()
        .post_message(json!({"message": "two", "conversationId": conversation}))
        .await;
    let path = format!("/api/conversations/{conversation}/messages");
    let (_, page) = app.client().get(&format!("{path}?limit=1")).await;
    assert_eq!(page["items"][0]["content"], "one");
    assert_eq!(
        page["items"][0]["attachedContext"],
        json!({"contextType": "project", "consoles": [{"id": "c"}]})
    );
    let (_, next) = app
        .client()
        .get(&format!(
            "{path}?limit=1&cursor={}",
            page["nextCursor"].as_str().unwrap()
        ))
        .await;
    assert_eq!(
        (&next["items"][0]["content"], &next["nextCursor"]),
        (&json!("two"), &Value::Null)
    );
}

#[tokio::test]
async fn every_refusal_is_a_problem() {
    let app = quiet().await;
    let client = app.client();
    let cases = [
        (client.request(Method::GET, "/nowhere"), StatusCode::NOT_FOUND),
        (
            client.request(Method::PUT, "/api/conversations"),
            StatusCode::METHOD_NOT_ALLOWED,
        ),
        (
            client.request(Method::POST, "/api/conversations").body("title=x"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
        (
            client
                .request(Method::POST, "/api/conversations")
                .header("content-type", "application/json")
                .body("{"),
            StatusCode::BAD_REQUEST,
        ),
    ];
    for (request, status) in cases {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json",
            "{status}"
        );
        assert_eq!(answer(response).await.1["status"], status.as_u16());
    }
}

/// Requirements: D37.
#[tokio::test]
async fn lists_of_conversations_come_without_their_messages() {
    let app = quiet().await;
    app.client().post_message(json!({"message": "a secret of mine"})).await;
    for (path, list, marks) in [
        ("/api/conversations", "items", Some("marks")),
        ("/api/agent/stream", "sessions", None),
    ] {
        let (status, listed) = app.client().get(path).await;
        assert_eq!(status, StatusCode::OK, "{listed}");
        let mut fields: Vec<&str> = listed[list][0]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        fields.retain(|field| !["threadId", "activeAgent"].contains(field));
        fields.sort_unstable();
        let of_both = ["agentDefinitionId", "createdAt", "id", "metadata", "title", "updatedAt"];
        let mut expected: Vec<&str> = of_both.into_iter().chain(marks).collect();
        expected.sort_unstable();
        assert_eq!(fields, expected, "{path}");
    }
}
