//! `/api/a2a` without a client: errors and media types of both bindings, repeated messages, cursors, lists, addresses of agents.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, answer, json_of, of_kind};
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
    // In another context, the id is another message's.
    app.model.script([Reply::text("Elsewhere.")]);
    other["message"]["contextId"] = "postcard".into();
    let (_, elsewhere) = client.post(path, rpc("SendMessage", &other)).await;
    let task = &elsewhere["result"]["task"];
    assert_eq!(
        (&task["contextId"], answer_of(task)),
        (&json!("postcard"), "Elsewhere.")
    );
    assert_eq!(app.model.requests().len(), 2);
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

fn answer_of(task: &Value) -> &str {
    task["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_first_message_is_known_by_its_id_and_content() {
    let app = TestApp::start().await;
    agent(&app, "writer", &[]).await;
    let client = app.client();
    let path = "/api/a2a/agents/writer/message:send";
    let first = message("write", json!({}));
    app.model.script([Reply::text("Once."), Reply::text("Twice.")]);
    let (_, sent) = client.post(path, first.clone()).await;
    let (_, again) = client.post(path, first.clone()).await;
    assert_eq!(sent["task"], again["task"], "{again:#}");
    // A client that knows the context by now.
    let mut with_context = first.clone();
    with_context["message"]["contextId"] = sent["task"]["contextId"].clone();
    let (_, again) = client.post(path, with_context).await;
    assert_eq!(sent["task"]["id"], again["task"]["id"], "{again:#}");
    assert_eq!(app.model.requests().len(), 1);
    let mut other = first;
    other["message"]["parts"][0]["text"] = "something else".into();
    let (status, new) = client.post(path, other).await;
    assert_eq!((status, answer_of(&new["task"])), (StatusCode::OK, "Twice."));
    assert_ne!(sent["task"]["contextId"], new["task"]["contextId"]);
}

#[tokio::test]
async fn a_slash_at_the_end_of_an_address_changes_nothing() {
    let app = TestApp::start().await;
    agent(&app, "writer", &[]).await;
    let client = app.client();
    app.model.always("write", Reply::text("Done."));
    for address in ["/api/a2a/", "/api/a2a/agents/writer/"] {
        let sent = rpc("SendMessage", &message("write", json!({})));
        let (status, answered) = client.post(address, sent).await;
        assert_eq!(
            (status, &answered["id"]),
            (StatusCode::OK, &json!("r1")),
            "{answered:#}"
        );
        assert_eq!(answer_of(&answered["result"]["task"]), "Done.", "{address}");
        let stranger = Client::new(app.url(), "rj_nobody");
        let (status, error) = stranger.post(address, rpc("GetTask", &json!({"id": "t"}))).await;
        let code = (status, &error["error"]["code"]);
        assert_eq!(code, (StatusCode::UNAUTHORIZED, &json!(-32600)), "{address}");
    }
}

#[tokio::test]
async fn content_that_is_not_supported_is_refused_first() {
    let app = TestApp::start().await;
    let client = app.client();
    let unknown_kind = json!({"kind": "file", "file": {"uri": "https://example.com/a.png"}});
    let unknown_type = json!({"raw": "dGNr", "mediaType": "application/x-unknown"});
    let program = json!({"raw": "f0VMRgIBAQA=", "filename": "a"});
    for part in [unknown_kind, unknown_type] {
        let sent = message("", json!({"parts": [part]}));
        let answer = call(&client, "SendMessage", &sent).await;
        assert_eq!(answer["error"]["code"], -32005, "{answer:#}");
        refused_over_http(&client, sent).await;
    }
    // The content of a file decides, too.
    let sent = message("", json!({"parts": [{"text": "Run it"}, program]}));
    let details = refused_over_http(&client, sent).await;
    assert_eq!(details[0]["metadata"]["cause"], "FILE_TYPE_NOT_TAKEN", "{details:#}");
    // The request itself.
    let request = client
        .request(Method::POST, "/api/a2a")
        .header("content-type", "text/plain");
    let (status, error) = answer(request.body("{}").send().await.unwrap()).await;
    let code = (status, &error["error"]["code"]);
    assert_eq!(code, (StatusCode::UNSUPPORTED_MEDIA_TYPE, &json!(-32005)), "{error:#}");
}

/// Sends a message that is refused for its content, and returns the error's details.
async fn refused_over_http(client: &Client, sent: Value) -> Value {
    let (status, error) = client.post("/api/a2a/message:send", sent).await;
    let details = &error["error"]["details"];
    assert_eq!(
        (status, &details[0]["reason"]),
        (StatusCode::BAD_REQUEST, &json!("CONTENT_TYPE_NOT_SUPPORTED")),
        "{error:#}"
    );
    details.clone()
}

#[tokio::test]
async fn responses_have_the_media_type_of_their_binding() {
    let app = TestApp::start().await;
    let client = app.client();
    app.model.always("write", Reply::text("Done."));
    let kind = async |request: reqwest::RequestBuilder| {
        let response = request.send().await.unwrap();
        response.headers()["content-type"].to_str().unwrap().to_owned()
    };
    let get = |path: &str| client.request(Method::GET, path);
    let post = |path: &str| client.request(Method::POST, path);
    assert_eq!(kind(get("/api/a2a/tasks")).await, "application/a2a+json");
    assert_eq!(kind(get("/api/a2a/tasks/none")).await, "application/a2a+json");
    let accepts = |accepted: &str| get("/api/a2a/tasks/none").header("accept", accepted);
    assert_eq!(kind(accepts("application/json")).await, "application/json");
    let send = "/api/a2a/message:send";
    let sent = message("write", json!({}));
    assert_eq!(kind(post(send).json(&sent)).await, "application/json");
    let a2a = post(send).header("content-type", "application/a2a+json");
    assert_eq!(kind(a2a.body(sent.to_string())).await, "application/a2a+json");
    for call in [rpc("ListTasks", &json!({})), rpc("Nothing", &json!({})), json!([])] {
        assert_eq!(kind(post("/api/a2a").json(&call)).await, "application/json", "{call}");
    }
    let stream = post("/api/a2a/message:stream").json(&message("write", json!({})));
    assert!(kind(stream).await.starts_with("text/event-stream"));
}

#[tokio::test]
async fn a_card_is_kept_by_its_client_and_then_asked_for_again() {
    let app = TestApp::start().await;
    agent(&app, "writer", &[]).await;
    let client = app.client();
    for path in [
        "/.well-known/agent-card.json",
        "/.well-known/agent-card.json?agent=writer",
    ] {
        let get = async |known: &str| {
            let request = client.request(Method::GET, path).header("if-none-match", known);
            let response = request.send().await.unwrap();
            let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
            let seen = (response.status(), header("etag"), header("cache-control"));
            (seen, response.text().await.unwrap())
        };
        let ((status, etag, kept), card) = get("\"other\"").await;
        assert_eq!((status, kept.as_str()), (StatusCode::OK, "private, max-age=300"));
        assert!(etag.starts_with('"') && card.contains("writer"), "{etag} {card}");
        let ((status, same, _), nothing) = get(&format!("\"x\", {etag}")).await;
        assert_eq!((status, &same, nothing.as_str()), (StatusCode::NOT_MODIFIED, &etag, ""));
    }
    let extended = client.request(Method::GET, "/api/a2a/extendedAgentCard");
    let extended = extended.send().await.unwrap();
    assert_eq!(extended.headers()["cache-control"], "no-store");
    // A change of the agents is a change of the card.
    let get = async || {
        let request = client.request(Method::GET, "/.well-known/agent-card.json");
        request.send().await.unwrap().headers()["etag"].clone()
    };
    let before = get().await;
    agent(&app, "painter", &[]).await;
    assert_ne!(before, get().await);
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
async fn a_subscription_lasts_until_the_task_has_ended() {
    let app = TestApp::start().await;
    let client = app.client();
    agent(&app, "asker", &["ask_user"]).await;
    let question = json!({"question": "Which colour?", "options": []});
    app.model
        .script([Reply::tool("ask_user", question), Reply::text("A blue one.")]);
    let path = "/api/a2a/agents/asker/message:send";
    let (status, asked) = client.post(path, message("paint it", json!({}))).await;
    assert_eq!(status, StatusCode::OK, "{asked:#}");
    assert_eq!(asked["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let id = asked["task"]["id"].as_str().unwrap();
    let subscribe = client.request(Method::POST, &format!("/api/a2a/tasks/{id}:subscribe"));
    let mut subscribed = subscribe.send().await.unwrap();
    let mut whole = Vec::new();
    while !String::from_utf8_lossy(&whole).contains("data: ") {
        whole.extend(subscribed.chunk().await.unwrap().expect("the task as it is now"));
    }
    let answer = message("Blue", json!({ "taskId": id }));
    let (status, ended) = client.post("/api/a2a/message:send", answer).await;
    assert_eq!(status, StatusCode::OK, "{ended:#}");
    whole.extend(subscribed.bytes().await.unwrap());
    let whole = String::from_utf8(whole).unwrap();
    let frames: Vec<Value> = whole
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(
        frames[0]["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED",
        "{frames:#?}"
    );
    let last = &frames.last().unwrap()["statusUpdate"];
    assert_eq!(last["status"]["state"], "TASK_STATE_COMPLETED", "{frames:#?}");
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
