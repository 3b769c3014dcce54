//! How users arrange conversations: pins, the archive, folders, read marks, bulk changes; and lists by these.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::Client;
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::conversations::quiet;

async fn made(client: &Client, title: &str) -> String {
    let (status, body) = client.post("/api/conversations", json!({"title": title})).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    body["id"].as_str().unwrap().to_owned()
}

async fn titles(client: &Client, query: &str) -> Vec<String> {
    let (status, page) = client.get(&format!("/api/conversations?{query}")).await;
    assert_eq!(status, StatusCode::OK, "{query}: {page}");
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["title"].as_str().unwrap().to_owned())
        .collect()
}

async fn marks(client: &Client, id: &str) -> Value {
    client.get(&format!("/api/conversations/{id}")).await.1["marks"].clone()
}

async fn bulk(client: &Client, action: &str, ids: &[&str]) -> Vec<String> {
    let (status, body) = client
        .post("/api/bulk/conversations", json!({"action": action, "ids": ids}))
        .await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let results = body["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| result["status"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn pinned_and_running_conversations_come_first_if_asked() {
    let app = quiet().await;
    let client = app.client();
    let pinned = made(&client, "pinned").await;
    let running = made(&client, "running").await;
    client
        .post_message(json!({"message": "go", "conversationId": running}))
        .await;
    made(&client, "newest").await;
    let path = format!("/api/conversations/{pinned}");
    let (_, before) = client.get(&path).await;
    let (status, patched) = client.patch(&path, json!({"pinned": true})).await;
    assert_eq!((status, &patched["marks"]["pinned"]), (StatusCode::OK, &json!(true)));
    assert_eq!(patched["updatedAt"], before["updatedAt"], "it was not used");
    assert_eq!(titles(&client, "").await, ["newest", "running", "pinned"]);
    assert_eq!(titles(&client, "order=priority").await, ["pinned", "running", "newest"]);
    assert_eq!(titles(&client, "pinned=true").await, ["pinned"]);
    assert_eq!(titles(&client, "running=true").await, ["running"]);
    // Page by page.
    let mut cursor = String::new();
    for expected in ["pinned", "running", "newest"] {
        let (_, page) = client
            .get(&format!("/api/conversations?order=priority&limit=1{cursor}"))
            .await;
        assert_eq!(page["items"][0]["title"], expected);
        cursor = format!("&cursor={}", page["nextCursor"].as_str().unwrap_or_default());
    }
    for query in ["order=oldest", "archived=yes", "folder=x", "q=a&pinned=true"] {
        let (status, problem) = client.get(&format!("/api/conversations?{query}")).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_query")),
            "{query}"
        );
    }
}

#[tokio::test]
async fn archived_conversations_are_listed_on_request() {
    let app = quiet().await;
    let client = app.client();
    let old = made(&client, "old").await;
    made(&client, "new").await;
    client
        .patch(&format!("/api/conversations/{old}"), json!({"archived": true}))
        .await;
    assert_eq!(titles(&client, "").await, ["new"]);
    assert_eq!(titles(&client, "archived=only").await, ["old"]);
    assert_eq!(titles(&client, "archived=include").await, ["new", "old"]);
    assert_eq!(bulk(&client, "unarchive", &[&old]).await, ["done"]);
    assert_eq!(titles(&client, "").await, ["new", "old"]);
}

#[tokio::test]
async fn folders_hold_conversations_and_leave_them_when_deleted() {
    let app = quiet().await;
    let client = app.client();
    let inside = made(&client, "inside").await;
    made(&client, "outside").await;
    let folders = "/api/conversation-folders";
    let (status, folder) = client.post(folders, json!({"name": " Work "})).await;
    assert_eq!((status, &folder["name"]), (StatusCode::CREATED, &json!("Work")));
    let id = folder["id"].as_str().unwrap();
    assert_eq!(
        client.post(folders, json!({"name": "Work"})).await.0,
        StatusCode::CONFLICT
    );
    assert_eq!(
        client.post(folders, json!({"name": " "})).await.0,
        StatusCode::BAD_REQUEST
    );
    let moved = json!({"action": "move", "ids": [inside], "folderId": id});
    assert_eq!(
        client.post("/api/bulk/conversations", moved.clone()).await.0,
        StatusCode::OK
    );
    assert_eq!(titles(&client, &format!("folder={id}")).await, ["inside"]);
    assert_eq!(titles(&client, "folder=none").await, ["outside"]);
    let (_, renamed) = client.patch(&format!("{folders}/{id}"), json!({"name": "Home"})).await;
    assert_eq!(
        (&renamed["name"], &renamed["conversations"]),
        (&json!("Home"), &json!(1))
    );
    // Another user has neither the folder nor the conversation.
    let other = Client::new(app.url(), &app.db.another_user().await.1);
    assert_eq!(other.get(folders).await.1["items"], json!([]));
    let theirs = json!({"name": "Mine"});
    assert_eq!(
        other.patch(&format!("{folders}/{id}"), theirs).await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        other.post("/api/bulk/conversations", moved.clone()).await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        client.delete(&format!("{folders}/{id}")).await.0,
        StatusCode::NO_CONTENT
    );
    assert_eq!(marks(&client, &inside).await["folderId"], Value::Null);
    assert_eq!(
        client.post("/api/bulk/conversations", moved).await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_user_has_a_limited_number_of_folders() {
    let app = TestApp::with(rejoin_tests::app::AppOptions {
        workers: 0,
        api: |config| config.chat.max_conversation_folders = 1,
        ..rejoin_tests::app::AppOptions::default()
    })
    .await;
    let client = app.client();
    let create = async |name: &str| client.post("/api/conversation-folders", json!({ "name": name })).await;
    assert_eq!(create("a").await.0, StatusCode::CREATED);
    let (status, problem) = create("b").await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("too_many_folders"))
    );
}

#[tokio::test]
async fn answers_are_unread_until_they_are_marked_as_read() {
    let app = TestApp::start().await;
    let client = app.client();
    app.model.script([Reply::text("One."), Reply::text("Two.")]);
    let frames = client.chat(json!({"message": "first"})).await;
    let id = frames[1].json()["conversationId"].as_str().unwrap().to_owned();
    client.chat(json!({"message": "second", "conversationId": id})).await;
    let before = marks(&client, &id).await;
    assert_eq!(
        (&before["unread"], &before["running"], &before["lastReadSeq"]),
        (&json!(2), &json!(false), &json!(0))
    );
    assert_eq!(titles(&client, "unread=true").await, ["first"]);
    let path = format!("/api/conversations/{id}");
    // At most up to the end.
    client.patch(&path, json!({"lastReadSeq": 1_000_000})).await;
    let read = marks(&client, &id).await;
    assert_eq!(
        (&read["unread"], &read["lastReadSeq"]),
        (&json!(0), &before["lastMessageSeq"])
    );
    assert_eq!(titles(&client, "unread=true").await, [""; 0]);
    assert_eq!(bulk(&client, "markUnread", &[&id]).await, ["done"]);
    assert_eq!(marks(&client, &id).await["unread"], 1);
    assert_eq!(bulk(&client, "markRead", &[&id]).await, ["done"]);
    assert_eq!(marks(&client, &id).await["unread"], 0);
    let (status, problem) = client.patch(&path, json!({"lastReadSeq": -1})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_last_read_seq"))
    );
}

#[tokio::test]
async fn many_conversations_are_changed_with_a_result_for_each() {
    let app = TestApp::with(rejoin_tests::app::AppOptions {
        workers: 0,
        api: |config| {
            config.chat.max_bulk_conversations = 3;
            config.http.audited_per_minute = 1;
        },
        ..rejoin_tests::app::AppOptions::default()
    })
    .await;
    let client = app.client();
    let (one, two) = (made(&client, "one").await, made(&client, "two").await);
    let missing = "00000000-0000-0000-0000-000000000000";
    assert_eq!(
        bulk(&client, "pin", &[&one, missing, &two]).await,
        ["done", "not_found", "done"]
    );
    // Deletions are audited: one a minute here.
    assert_eq!(bulk(&client, "delete", &[&one, &two]).await, ["done", "too_many"]);
    assert_eq!(titles(&client, "").await, ["two"]);
    for ids in [json!([]), json!([one, one, one, one])] {
        let (status, problem) = client
            .post("/api/bulk/conversations", json!({"action": "pin", "ids": ids}))
            .await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_ids"))
        );
    }
}
