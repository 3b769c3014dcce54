//! `/api/a2a` without a client: errors of both bindings, cursors, lists, addresses of agents.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::Reply;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{agent, message};

fn rpc(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "r1", "method": method, "params": params})
}

pub(super) async fn call(client: &Client, method: &str, params: &Value) -> Value {
    let (status, answer) = client.post("/api/a2a", rpc(method, params)).await;
    assert_eq!(status, StatusCode::OK, "{answer:#}");
    assert_eq!(answer["id"], "r1");
    answer
}

#[tokio::test]
async fn errors_have_the_shape_of_their_binding() {
    let app = TestApp::start().await;
    let client = app.client();
    let unknown = json!({"id": uuid::Uuid::now_v7()});
    let bad_role = json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Hi"}]}});
    let empty = json!({"message": {"messageId": "m", "parts": []}});
    for (method, params, code) in [
        ("GetTask", &unknown, -32001),
        ("CreateTaskPushNotificationConfig", &unknown, -32001),
        ("message/send", &empty, -32009),
        ("Nothing", &empty, -32601),
        ("SendMessage", &bad_role, -32602),
        ("SendMessage", &empty, -32602),
        ("GetTask", &json!({}), -32602),
        ("ListTasks", &json!({"pageSize": 0}), -32602),
    ] {
        let answer = call(&client, method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method}: {answer:#}");
        assert_eq!(
            answer["error"]["data"][0]["@type"],
            "type.googleapis.com/google.rpc.ErrorInfo"
        );
    }
    let (status, answer) = client.post("/api/a2a", json!({"id": 1})).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::OK, &json!(-32600)));

    let config = format!("/api/a2a/tasks/{}/pushNotificationConfigs", uuid::Uuid::now_v7());
    for (path, status, reason) in [
        ("/api/a2a/tasks/none", StatusCode::NOT_FOUND, "TASK_NOT_FOUND"),
        (config.as_str(), StatusCode::NOT_FOUND, "TASK_NOT_FOUND"),
        (
            "/api/a2a/tasks?A2A-Version=0.3",
            StatusCode::BAD_REQUEST,
            "VERSION_NOT_SUPPORTED",
        ),
        ("/api/a2a/tasks?status=NONE", StatusCode::BAD_REQUEST, "INVALID_QUERY"),
    ] {
        let (answered, error) = client.get(path).await;
        assert_eq!(
            (answered, &error["error"]["details"][0]["reason"]),
            (status, &json!(reason)),
            "{path}"
        );
        assert_eq!(error["error"]["code"], status.as_u16());
    }
    // What is refused before the method is read.
    let stranger = Client::new(app.url(), "rj_nobody");
    let (status, error) = stranger.post("/api/a2a", rpc("GetTask", &unknown)).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (StatusCode::UNAUTHORIZED, &json!(-32600))
    );
    let (status, error) = stranger.get("/api/a2a/tasks").await;
    assert_eq!(
        (status, &error["error"]["status"]),
        (StatusCode::UNAUTHORIZED, &json!("UNAUTHENTICATED"))
    );
}

#[tokio::test]
async fn the_same_message_is_the_same_task() {
    let app = TestApp::start().await;
    agent(&app, "writer", &[]).await;
    app.model.script([Reply::text("Once.")]);
    let client = app.client();
    let path = "/api/a2a/agents/writer";
    let asked = message("write", json!({"contextId": "letter"}));
    let (_, first) = client.post(path, rpc("SendMessage", &asked)).await;
    let (_, again) = client.post(&format!("{path}/message:send"), asked.clone()).await;
    assert_eq!(first["result"]["task"], again["task"], "{again:#}");
    assert_eq!(app.model.requests().len(), 1);
    let mut other = asked;
    other["message"]["parts"][0]["text"] = "something else".into();
    let (_, refused) = client.post(path, rpc("SendMessage", &other)).await;
    assert_eq!(refused["error"]["data"][0]["reason"], "IDEMPOTENCY_KEY_REUSED");
    // The native log has the same conversation.
    let conversation: uuid::Uuid =
        sqlx::query_scalar("select id from kb.chat_conversations where client_thread = 'letter'")
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
    let mut native = client
        .stream(&format!("/api/conversations/{conversation}/events"))
        .await;
    let events = json_of(&native.until("done").await);
    assert_eq!(of_kind(&events, "message").len(), 2);
}

#[tokio::test]
async fn a_cursor_continues_an_ended_task() {
    let app = TestApp::start().await;
    agent(&app, "writer", &[]).await;
    app.model.script([Reply::text("One two three.")]);
    let client = app.client();
    let request = client.request(Method::POST, "/api/a2a/agents/writer/message:stream");
    let whole = request
        .json(&message("write", json!({})))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let frames: Vec<&str> = whole
        .split_inclusive("\n\n")
        .filter(|frame| frame.starts_with("id: "))
        .collect();
    let first = frames[0].lines().nth(1).unwrap().strip_prefix("data: ").unwrap();
    let task: Value = serde_json::from_str(first).unwrap();
    let id = task["task"]["id"].as_str().unwrap();
    let subscribe = format!("/api/a2a/tasks/{id}:subscribe");
    for at in 1..frames.len() {
        let cursor = frames[at - 1].lines().next().unwrap().strip_prefix("id: ").unwrap();
        let request = client.request(Method::POST, &subscribe).header("last-event-id", cursor);
        let rest = request.send().await.unwrap().text().await.unwrap();
        let rest: Vec<&str> = rest
            .split_inclusive("\n\n")
            .filter(|frame| frame.starts_with("id: "))
            .collect();
        assert_eq!(rest, frames[at..], "after {cursor}");
    }
    let (status, error) = client.get(&subscribe).await;
    assert_eq!(
        (status, &error["error"]["details"][0]["reason"]),
        (StatusCode::BAD_REQUEST, &json!("UNSUPPORTED_OPERATION"))
    );
}

#[tokio::test]
async fn a_list_has_pages_and_states_and_no_task_of_others() {
    let app = TestApp::start().await;
    let client = app.client();
    app.model.always("write", Reply::text("Done."));
    for context in ["a", "a", "b"] {
        let (status, sent) = client
            .post("/api/a2a/message:send", message("write", json!({"contextId": context})))
            .await;
        assert_eq!(status, StatusCode::OK, "{sent:#}");
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let (_, page) = client
            .get(&format!("/api/a2a/tasks?pageSize=2&pageToken={token}"))
            .await;
        assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(3), &json!(2)));
        seen.extend(
            page["tasks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|task| task["contextId"].as_str().unwrap().to_owned()),
        );
        page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["b", "a", "a"], "the last changed first");
    for (query, total) in [
        ("status=TASK_STATE_COMPLETED", 3),
        ("status=TASK_STATE_WORKING", 0),
        ("status=TASK_STATE_REJECTED", 0),
        ("contextId=a&historyLength=1", 2),
        ("contextId=c", 0),
        ("statusTimestampAfter=2999-01-01T00:00:00Z", 0),
    ] {
        let (_, page) = client.get(&format!("/api/a2a/tasks?{query}")).await;
        assert_eq!(page["totalSize"], total, "{query}: {page:#}");
        let has_history = page["tasks"][0]["history"].is_array();
        assert_eq!(has_history, query.contains("historyLength"), "{query}");
    }
    let (_, other) = app.db.another_user().await;
    let (_, page) = Client::new(app.url(), &other).get("/api/a2a/tasks").await;
    assert_eq!(page["totalSize"], 0);
}
