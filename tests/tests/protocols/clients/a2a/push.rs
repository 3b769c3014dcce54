//! Push notifications: configs of tasks, and what their receivers are sent; the extended agent card.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::response::IntoResponse as _;
use rejoin_tests::a2a_clients::{self, A2aClient, CLIENTS};
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::Client;
use rejoin_tests::mcp::secret_keys_file;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use rejoin_tests::web::{PLACE, Site};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::protocol::call;
use super::{agent, message};
use crate::webhooks::{header, options, payload, requests};

/// A message whose task is sent to this URL.
fn pushed(text: &str, url: &str) -> Value {
    let mut sent = message(text, json!({}));
    sent["configuration"] = json!({"taskPushNotificationConfig": {
        "id": "mine", "url": url, "token": "a token", "authentication": {"scheme": "Bearer", "credentials": "secret"},
    }});
    sent
}

async fn send(client: &Client, agent: &str, sent: Value) -> Value {
    let path = format!("/api/a2a/agents/{agent}/message:send");
    let (status, answer) = client.post(&path, sent).await;
    assert_eq!(status, StatusCode::OK, "{answer:#}");
    answer["task"].clone()
}

fn configs(task: &Value) -> String {
    let id = task["id"].as_str().expect("an id");
    format!("/api/a2a/tasks/{id}/pushNotificationConfigs")
}

fn states(asked: &[rejoin_tests::web::Asked]) -> Vec<String> {
    let state = |asked| payload(asked)["task"]["status"]["state"].as_str().map(str::to_owned);
    asked.iter().map(|asked| state(asked).expect("a state")).collect()
}

/// An app whose worker tries often, and an agent that asks a question.
async fn asking() -> TestApp {
    let app = TestApp::with(AppOptions {
        worker: |config| {
            (options().worker)(config);
            config.webhooks.webhook_retries_s = vec![0; 20];
        },
        ..options()
    })
    .await;
    agent(&app, "asker", &["ask_user"]).await;
    let options = json!([{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}]);
    app.model.script([
        Reply::text("Well. ").then_tool("ask_user", json!({"question": "Which colour?", "options": options})),
        Reply::text("A blue one."),
    ]);
    app
}

#[tokio::test]
async fn all_clients_create_get_list_and_delete_configs() {
    if !a2a_clients::are_there() {
        return;
    }
    let app = TestApp::with(options()).await;
    agent(&app, "writer", &[]).await;
    app.agent("helper", &[]).await;
    let site = Site::start(|_, _| StatusCode::OK.into_response()).await;
    app.model.always("write", Reply::text("Done."));
    for client in CLIENTS {
        let one = json!({"taskId": "$task", "id": "mine"});
        let mut config = one.clone();
        config["url"] = site.url.as_str().into();
        config["token"] = "a token".into();
        config["authentication"] = json!({"scheme": "Bearer", "credentials": "secret"});
        let calls = json!([
            {"call": "send", "params": message("write", json!({}))},
            {"call": "pushCreate", "params": config},
            {"call": "pushGet", "params": one},
            {"call": "pushList", "params": {"taskId": "$task"}},
            {"call": "pushDelete", "params": one},
            {"call": "pushDelete", "params": one},
            {"call": "pushGet", "params": one},
            {"call": "card"},
        ]);
        let mut driven = A2aClient::start(client, &app, json!({}), calls);
        let (_, said) = driven.next().await;
        let task = said["result"]["id"].clone();
        config["taskId"] = task.clone();
        let (_, said) = driven.next().await;
        assert_eq!(said["result"], config, "{client:?}");
        let kept = json!({"id": "mine", "taskId": task, "url": site.url, "authentication": {"scheme": "Bearer"}});
        let (_, said) = driven.next().await;
        assert_eq!(said["result"], kept, "secrets are not returned");
        let (_, said) = driven.next().await;
        assert_eq!(said["result"]["configs"], json!([kept]));
        for _ in 0..2 {
            let (_, said) = driven.next().await;
            assert_eq!(said["result"], json!({}), "{said:#}");
        }
        let (_, said) = driven.next().await;
        assert_eq!(said["error"]["name"], "TaskNotFoundError", "{said:#}");
        let (_, said) = driven.next().await;
        let skills = said["result"]["skills"].as_array().expect("skills");
        let names: Vec<&str> = skills.iter().filter_map(|skill| skill["name"].as_str()).collect();
        assert!(names.contains(&"helper") && names.contains(&"writer"), "{names:?}");
    }
}

#[tokio::test]
async fn a_question_and_the_end_arrive_in_order_despite_errors() {
    let app = asking().await;
    let client = app.client();
    let count = Arc::new(AtomicUsize::new(0));
    let site = Site::start(move |_, _| match count.fetch_add(1, Ordering::SeqCst) % 2 {
        0 => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        _ => StatusCode::OK.into_response(),
    })
    .await;
    let task = send(&client, "asker", pushed("paint it", &site.url)).await;
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task:#}");
    let ended = send(&client, "asker", message("Blue", json!({"taskId": task["id"]}))).await;
    let asked = requests(&site, 4).await;
    app.wait_until_idle().await;
    let asked_for = "TASK_STATE_INPUT_REQUIRED";
    assert_eq!(
        states(&site.asked()),
        [asked_for, asked_for, "TASK_STATE_COMPLETED", "TASK_STATE_COMPLETED"]
    );
    for request in &asked {
        assert_eq!(header(request, "content-type"), "application/a2a+json");
        assert_eq!(header(request, "x-a2a-notification-token"), "a token");
        assert_eq!(header(request, "authorization"), "Bearer secret");
        assert_eq!(header(request, "webhook-signature"), "");
    }
    let ids: Vec<&str> = asked.iter().map(|request| header(request, "webhook-id")).collect();
    assert!(ids[0] == ids[1] && ids[1] != ids[2] && ids[2] == ids[3], "{ids:?}");
    let question = payload(&asked[0])["task"].clone();
    assert_eq!(question["status"]["message"]["parts"][0]["text"], "Which colour?");
    assert!(question["status"]["timestamp"].is_string(), "{question:#}");
    let end = payload(&asked[3])["task"].clone();
    assert_eq!((&end["id"], &end["artifacts"]), (&task["id"], &ended["artifacts"]));
    assert_eq!(end["contextId"], task["contextId"]);
    // Webhooks of the project are something else.
    let path = format!("/api/admin/projects/{}/webhooks", app.db.workspace_id);
    assert_eq!(client.get(&path).await.1, json!({"items": []}));
}

#[tokio::test]
async fn a_pause_and_the_end_after_it_are_both_sent() {
    let app = TestApp::with(options()).await;
    app.agent_with("short", &["schema_version"], |content| content.max_steps = Some(1))
        .await;
    app.model.script([
        Reply::tool("schema_version", json!({})),
        Reply::text("Halfway."),
        Reply::text("There."),
    ]);
    let client = app.client();
    let site = Site::start(|_, _| StatusCode::OK.into_response()).await;
    let task = send(&client, "short", pushed("which version?", &site.url)).await;
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task:#}");
    requests(&site, 1).await;
    send(&client, "short", message("go on", json!({"taskId": task["id"]}))).await;
    let asked = requests(&site, 2).await;
    assert_eq!(states(&asked), ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]);
}

#[tokio::test]
async fn a_task_that_has_ended_is_sent_once_and_at_once() {
    let app = TestApp::with(options()).await;
    agent(&app, "writer", &[]).await;
    app.model.script([Reply::text("Done.")]);
    let client = app.client();
    let site = Site::start(|_, _| StatusCode::OK.into_response()).await;
    let task = send(&client, "writer", message("write", json!({}))).await;
    // The same config again replaces it, and the state was sent.
    for token in ["one", "two"] {
        let config = json!({"id": "mine", "url": site.url, "token": token});
        let (status, created) = client.post(&configs(&task), config).await;
        assert_eq!(
            (status, &created["taskId"]),
            (StatusCode::OK, &task["id"]),
            "{created:#}"
        );
        let asked = requests(&site, 1).await;
        assert_eq!(states(&asked), ["TASK_STATE_COMPLETED"]);
        assert_eq!(header(&asked[0], "x-a2a-notification-token"), "one");
        app.wait_until_idle().await;
    }
    assert_eq!(site.asked().len(), 1);
    let (_, listed) = client.get(&configs(&task)).await;
    assert_eq!(listed["configs"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn nothing_is_sent_after_a_config_was_deleted() {
    let app = asking().await;
    let client = app.client();
    let site = Site::start(|_, _| StatusCode::OK.into_response()).await;
    let task = send(&client, "asker", pushed("paint it", &site.url)).await;
    requests(&site, 1).await;
    let (status, deleted) = client.delete(&format!("{}/mine", configs(&task))).await;
    assert_eq!((status, deleted), (StatusCode::OK, json!({})));
    let ended = send(&client, "asker", message("Blue", json!({"taskId": task["id"]}))).await;
    assert_eq!(ended["status"]["state"], "TASK_STATE_COMPLETED", "{ended:#}");
    app.wait_until_idle().await;
    assert_eq!(site.asked().len(), 1);
}

#[tokio::test]
async fn configs_have_pages_a_maximum_and_one_owner() {
    let app = TestApp::with(options()).await;
    agent(&app, "writer", &[]).await;
    app.model.script([Reply::text("Done.")]);
    let client = app.client();
    let task = send(&client, "writer", message("write", json!({}))).await;
    let path = configs(&task);
    let site = Site::start(|_, _| StatusCode::OK.into_response()).await;
    for nth in 10..30 {
        let config = json!({"id": format!("c{nth}"), "url": site.url});
        let (status, created) = client.post(&path, config).await;
        assert_eq!(status, StatusCode::OK, "{created:#}");
    }
    let (status, refused) = client.post(&path, json!({"url": site.url})).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("too_many_push_configs"))
    );

    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let (_, page) = client.get(&format!("{path}?pageSize=15&pageToken={token}")).await;
        let configs = page["configs"].as_array().expect("a page");
        seen.extend(
            configs
                .iter()
                .map(|config| config["id"].as_str().expect("an id").to_owned()),
        );
        page["nextPageToken"].as_str().expect("a token").clone_into(&mut token);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, (10..30).map(|nth| format!("c{nth}")).collect::<Vec<_>>());

    let (_, key) = app.db.another_user().await;
    let other = Client::new(app.url(), &key);
    let one = json!({"taskId": task["id"], "id": "c10", "url": site.url});
    for method in ["Create", "Get", "Delete"] {
        let method = format!("{method}TaskPushNotificationConfig");
        let answer = call(&other, &method, &one).await;
        assert_eq!(answer["error"]["code"], -32001, "{method}: {answer:#}");
    }
    let answer = call(&other, "ListTaskPushNotificationConfigs", &one).await;
    assert_eq!(answer["error"]["code"], -32001, "{answer:#}");
    // Protobuf's JSON may have the names of its fields.
    let snake = json!({"task_id": task["id"], "page_size": 1});
    let answer = call(&client, "ListTaskPushNotificationConfigs", &snake).await;
    assert_eq!(answer["result"]["configs"][0]["id"], "c10", "{answer:#}");
}

#[tokio::test]
async fn addresses_and_headers_are_judged_before_a_message_is_kept() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..options()
    })
    .await;
    agent(&app, "writer", &[]).await;
    let client = app.client();
    for config in [
        json!({"url": "https://10.0.0.1/"}),
        json!({"url": "https://169.254.169.254/latest/meta-data/"}),
        json!({"url": "http://client.example/"}),
        json!({"url": "client.example"}),
        json!({}),
        json!({"url": format!("https://client.example/{}", "a".repeat(2_000))}),
        json!({"url": "https://client.example/", "token": "a\nb"}),
        json!({"url": "https://client.example/", "authentication": {"scheme": "a b"}}),
    ] {
        let mut sent = message("write", json!({}));
        sent["configuration"] = json!({"taskPushNotificationConfig": config});
        let answer = call(&client, "SendMessage", &sent).await;
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["data"][0]["reason"]),
            (&json!(-32602), &json!("INVALID_PUSH_CONFIG")),
            "{config}"
        );
    }
    let runs: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(runs, 0);
    let (status, card) = client.get("/api/a2a/agents/writer/extendedAgentCard").await;
    assert_eq!((status, &card["name"]), (StatusCode::OK, &json!("writer")), "{card:#}");
    let capabilities = json!({"streaming": true, "pushNotifications": true, "extendedAgentCard": true});
    assert_eq!(card["capabilities"], capabilities);
}

/// Accepts one notification and reads it; returns the connection, and the delivery's id.
async fn accept(listener: &TcpListener) -> (TcpStream, String) {
    let (mut connection, _) = listener.accept().await.expect("a connection");
    let mut text = String::new();
    while !text.contains("TASK_STATE_COMPLETED") {
        let mut bytes = [0; 4_096];
        let read = connection.read(&mut bytes).await.expect("a request");
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    let id = text.lines().find_map(|line| line.strip_prefix("webhook-id: "));
    (connection, id.expect("an id").trim().to_owned())
}

fn worker(app: &TestApp) -> Process {
    let variables = [
        ("REJOIN_WEBHOOK_HOSTS", PLACE.to_owned()),
        ("REJOIN_SECRET_KEYS_FILE", secret_keys_file().display().to_string()),
    ];
    Process::worker_with(app, &variables)
}

#[tokio::test]
async fn a_killed_worker_loses_no_notification() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..options()
    })
    .await;
    agent(&app, "writer", &[]).await;
    app.model.script([Reply::text("Done.")]);
    let listener = TcpListener::bind((PLACE, 0)).await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let mut sent = pushed("write", &url);
    sent["configuration"]["returnImmediately"] = true.into();
    let task = send(&app.client(), "writer", sent).await;
    assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED", "{task:#}");
    let first = worker(&app);
    let (unanswered, first_id) = accept(&listener).await;
    first.kill();
    drop(unanswered);
    let _second = worker(&app);
    let (mut answered, second_id) = accept(&listener).await;
    assert_eq!(second_id, first_id, "a receiver can see that it is the same");
    answered
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .await
        .expect("a response");
    wait_for("the notification to be delivered", async || {
        let states: Vec<String> = sqlx::query_scalar("select state from kb.webhook_deliveries")
            .fetch_all(&app.db.pool)
            .await
            .ok()?;
        (states == ["delivered"]).then_some(())
    })
    .await;
}
