//! Durable Streams' own client, and the rules of its protocol that the client does not check.

use std::path::PathBuf;
use std::process::Stdio;

use rejoin_event_log::retention;
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::Client;
use rejoin_tests::model_server::Reply;
use rejoin_tests::{files, needs, support};
use reqwest::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, IF_NONE_MATCH};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::process::Command;
use uuid::Uuid;

const WORDS: usize = 12;
/// Each way to follow a stream: the client's choice, and both of the protocol's.
pub(super) const LIVE: [&str; 3] = ["auto", "long-poll", "sse"];

fn words() -> String {
    (0..WORDS).map(|n| format!("word{n} ")).collect()
}

/// The folder with the installed client. None: it is missing, which was reported.
fn client_folder() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../.cache/clients/durable-streams"
    ));
    if folder.join("node_modules/@durable-streams/client").exists() {
        return Some(folder);
    }
    needs::skip("Durable Streams' client is not installed (scripts/setup-clients.sh)");
    None
}

/// Runs a call of the client, which succeeds. None: there is no client.
pub(super) async fn result(app: &TestApp, path: &str, task: Value) -> Option<Value> {
    runs(app.url(), app.db.api_key.clone(), path, task).await
}

async fn runs(url: String, key: String, path: &str, mut task: Value) -> Option<Value> {
    let folder = client_folder()?;
    task["url"] = json!(format!("{url}{path}"));
    task["headers"] = json!({ "authorization": format!("Bearer {key}") });
    let output = Command::new("node")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/clients/durable-streams/driver.mjs"
        ))
        .arg(task.to_string())
        .env("CLIENT_FOLDER", folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the client starts");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    assert!(printed.get("error").is_none(), "{printed:#}");
    Some(printed["result"].clone())
}

pub(super) fn follow(live: &str, offset: &Value) -> Value {
    let live = match live {
        "auto" => json!(true),
        named => json!(named),
    };
    json!({ "call": "follow", "live": live, "offset": offset, "retries": 20 })
}

/// A message with the run that answers it, when both have ended.
async fn answered(app: &TestApp, conversation: Option<&str>) -> (String, String) {
    app.model.script([Reply::text(words())]);
    let posted = app
        .client()
        .post_message(json!({ "message": "write", "conversationId": conversation }))
        .await;
    app.wait_until_idle().await;
    let id = |name: &str| posted[name].as_str().expect("an id").to_owned();
    (id("conversationId"), id("runId"))
}

/// The run's events as the native stream has them, each with its number.
async fn native(app: &TestApp, path: &str) -> Vec<Value> {
    let frames = app.client().stream(path).await.rest().await;
    let numbered = frames.into_iter().filter(|frame| frame.id.is_some());
    numbered
        .map(|frame| {
            let mut event = frame.json();
            event["seq"] = json!(frame.id);
            event
        })
        .collect()
}

pub(super) fn text_of(items: &Value) -> String {
    let items = items.as_array().expect("items").iter();
    items.filter_map(|item| item["token"].as_str()).collect()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().expect("text"))
}

async fn get(app: &TestApp, path: &str) -> (StatusCode, HeaderMap, String) {
    let response = app
        .client()
        .request(Method::GET, path)
        .send()
        .await
        .expect("a response");
    let (status, headers) = (response.status(), response.headers().clone());
    (status, headers, response.text().await.expect("a body"))
}

#[tokio::test]
async fn a_run_is_read_whole_and_from_every_cut_in_each_mode() {
    let app = TestApp::start().await;
    let (_, run) = answered(&app, None).await;
    let path = format!("/api/durable-streams/runs/{run}");
    let expected = native(&app, &format!("/api/runs/{run}/events")).await;
    let Some(whole) = result(&app, &path, json!({ "call": "catchUp", "offset": "-1" })).await else {
        return;
    };
    assert_eq!(whole["items"], json!(expected));
    assert_eq!(whole["closed"], true);
    for live in LIVE {
        let whole = result(&app, &path, follow(live, &json!("-1"))).await.expect("checked");
        assert_eq!(
            (&whole["items"], &whole["closed"]),
            (&json!(expected), &json!(true)),
            "{live}"
        );
        // At 20 cuts or all, whichever is less.
        let step = expected.len().div_ceil(20).max(1);
        for cut in (0..expected.len()).step_by(step) {
            let at = format!("{:020}", expected[cut]["seq"].as_i64().expect("a number"));
            let rest = result(&app, &path, follow(live, &json!(at))).await.expect("checked");
            assert_eq!(rest["items"], json!(expected[cut + 1..]), "{live} after {at}");
            assert_eq!(
                (&rest["closed"], &rest["offset"]),
                (&json!(true), &whole["offset"]),
                "{live}"
            );
        }
    }
}

#[tokio::test]
async fn a_reader_follows_over_a_killed_worker() {
    for live in LIVE {
        let mut app = TestApp::with(AppOptions {
            workers: 0,
            ..AppOptions::default()
        })
        .await;
        app.model.script([Reply::hang_after(20), Reply::text(words())]);
        let posted = app.client().post_message(json!({ "message": "write" })).await;
        let run = posted["runId"].as_str().expect("an id").to_owned();
        let path = format!("/api/durable-streams/runs/{run}");
        let worker = Process::worker(&app);
        let client = runs(app.url(), app.db.api_key.clone(), &path, follow(live, &json!("-1")));
        let (followed, ()) = tokio::join!(client, async {
            support::wait_for("some words", async || {
                let tokens: i64 = sqlx::query_scalar("select count(*) from stream.events where type = 'token'")
                    .fetch_one(&app.db.pool)
                    .await
                    .expect("a count");
                (tokens > 0).then_some(())
            })
            .await;
            worker.kill();
            app.add_worker();
        });
        let Some(followed) = followed else { return };
        // What a reader shows that applies resets, as in each dialect that has the events themselves.
        let items = followed["items"].as_array().expect("items");
        let reset = items.iter().find(|item| item["type"] == "reset").expect("a reset");
        let kept: Vec<&Value> = items
            .iter()
            .filter(|item| item["seq"].as_i64() > reset["seq"].as_i64())
            .collect();
        assert_eq!(text_of(&json!(kept)), words(), "{live}");
        let numbers: Vec<i64> = items.iter().filter_map(|item| item["seq"].as_i64()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{live}: {numbers:?}");
        assert_eq!(followed["closed"], true);
    }
}

#[tokio::test]
async fn a_conversation_stays_open_for_its_next_turns() {
    let app = TestApp::start().await;
    let (conversation, _) = answered(&app, None).await;
    let path = format!("/api/durable-streams/conversations/{conversation}");
    let Some(first) = result(&app, &path, json!({ "call": "catchUp", "offset": "-1" })).await else {
        return;
    };
    assert_eq!(first["closed"], false);
    let known = first["items"].as_array().expect("items").len();
    let end = result(&app, &path, json!({ "call": "head" })).await.expect("checked");
    assert_eq!(end["offset"], first["offset"]);
    for live in LIVE {
        let mut task = follow(live, &first["offset"]);
        task["stopAfter"] = json!(3);
        let (followed, _) = tokio::join!(result(&app, &path, task), answered(&app, Some(&conversation)));
        let followed = followed.expect("checked");
        let items = followed["items"].as_array().expect("items");
        assert_eq!(items[0]["type"], "message", "{live}: {items:#?}");
        let next = first["items"][known - 1]["seq"].as_i64().expect("a number") + 1;
        assert_eq!(items[0]["seq"], next, "{live}");
    }
    let all = result(&app, &path, json!({ "call": "catchUp", "offset": "-1" }))
        .await
        .expect("checked");
    let numbers: Vec<i64> = all["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|item| item["seq"].as_i64())
        .collect();
    assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
}

#[tokio::test]
async fn whatever_a_run_does_is_read_as_it_is_stored() {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &["schema_version", "ask_user"]).await;
    let client = app.client();
    let note = files::stored(&client, "note.txt", b"hello from a file".to_vec()).await;
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    app.model.on(
        "all of it",
        [
            Reply::tool("schema_version", json!({})),
            Reply::tool("ask_user", json!({"question": "Which city?", "options": []})),
            Reply::text(r#"{"city":"Oslo"}"#),
        ],
    );
    app.model.on("fail", [Reply::status(400)]);
    app.model.on("hang", [Reply::hang_after(3)]);
    let of_all = vec!["mcp_tool", "question", "question_answered", "output"];
    for (text, schema, kinds, status) in [
        ("all of it", schema, of_all, "completed"),
        ("fail", Value::Null, vec!["error"], "failed"),
        ("hang", Value::Null, vec!["token"], "cancelled"),
    ] {
        let posted = client
            .post_message(json!({
                "message": text, "agentDefinitionId": agent, "attachments": [{"fileId": note}], "outputSchema": schema,
            }))
            .await;
        let run = posted["runId"].as_str().expect("an id");
        let events = format!("/api/runs/{run}/events");
        match text {
            "all of it" => {
                client.stream(&events).await.until("question").await;
                let answer = json!({"message": "Oslo", "conversationId": posted["conversationId"]});
                client.post_message(answer).await;
            }
            "hang" => {
                client.stream(&events).await.until("token").await;
                client.post(&format!("/api/runs/{run}/cancel"), json!({})).await;
            }
            _ => {}
        }
        app.wait_until_idle().await;
        let path = format!("/api/durable-streams/runs/{run}");
        let Some(read) = result(&app, &path, follow("sse", &json!("-1"))).await else {
            return;
        };
        let expected = native(&app, &events).await;
        assert_eq!((&read["items"], &read["closed"]), (&json!(expected), &json!(true)));
        let of = |kind: &str| expected.iter().find(|event| event["type"] == kind);
        let message = &of("message").expect("a message")["message"];
        assert_eq!(message["attachments"][0]["fileId"], note, "{text}");
        for kind in kinds {
            assert!(of(kind).is_some(), "no {kind} in {expected:#?}");
        }
        assert_eq!(of("done").expect("an end")["status"], status, "{text}");
    }
}

#[tokio::test]
async fn responses_have_the_protocols_headers() {
    let app = TestApp::start().await;
    let (conversation, run) = answered(&app, None).await;
    let stream = format!("/api/durable-streams/runs/{run}");
    let (status, headers, body) = get(&app, &stream).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let events: Vec<Value> = serde_json::from_str(&body).expect("an array");
    let last = events.last().expect("events")["seq"].as_i64().expect("a number");
    let next = format!("{last:020}");
    assert_eq!(header(&headers, "stream-next-offset"), Some(next.as_str()));
    assert_eq!(header(&headers, "stream-up-to-date"), Some("true"));
    assert_eq!(header(&headers, "stream-closed"), Some("true"));
    assert_eq!(header(&headers, CONTENT_TYPE.as_str()), Some("application/json"));
    assert!(header(&headers, CACHE_CONTROL.as_str()).is_some_and(|value| value.contains("max-age=60")));
    assert_eq!(header(&headers, "x-content-type-options"), Some("nosniff"));
    assert_eq!(header(&headers, "cross-origin-resource-policy"), Some("same-origin"));
    let tag = headers.get(ETAG).expect("a tag").clone();
    let again = app.client().request(Method::GET, &stream).header(IF_NONE_MATCH, &tag);
    let again = again.send().await.expect("a response");
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);

    // At the end: the closure, at once in each mode.
    for (live, expected) in [("", StatusCode::OK), ("&live=long-poll", StatusCode::NO_CONTENT)] {
        for offset in [next.as_str(), "now"] {
            let (status, headers, body) = get(&app, &format!("{stream}?offset={offset}{live}")).await;
            assert_eq!(status, expected, "{live} {offset}: {body}");
            assert_eq!(header(&headers, "stream-closed"), Some("true"), "{live} {offset}");
            assert_eq!(
                header(&headers, "stream-next-offset"),
                Some(next.as_str()),
                "{live} {offset}"
            );
            assert_eq!(
                header(&headers, CACHE_CONTROL.as_str()),
                Some("no-store"),
                "{live} {offset}"
            );
            assert_eq!(body, if live.is_empty() { "[]" } else { "" });
        }
    }
    let (_, headers, body) = get(&app, &format!("{stream}?offset=now&live=sse")).await;
    assert_eq!(header(&headers, CONTENT_TYPE.as_str()), Some("text/event-stream"));
    assert!(header(&headers, CACHE_CONTROL.as_str()).is_some_and(|value| value.contains("no-cache")));
    let control = body.trim().strip_prefix("event: control\ndata: ").expect("one event");
    assert_eq!(
        serde_json::from_str::<Value>(control).expect("JSON"),
        json!({ "streamNextOffset": next, "upToDate": true, "streamClosed": true })
    );

    let head = app
        .client()
        .request(Method::HEAD, &stream)
        .send()
        .await
        .expect("a response");
    assert_eq!(header(head.headers(), "stream-next-offset"), Some(next.as_str()));
    assert_eq!(header(head.headers(), "stream-closed"), Some("true"));
    assert_eq!(header(head.headers(), CACHE_CONTROL.as_str()), Some("no-store"));

    let open = format!("/api/durable-streams/conversations/{conversation}");
    let (_, headers, body) = get(&app, &format!("{open}?offset=now")).await;
    assert_eq!((header(&headers, "stream-closed"), body.as_str()), (None, "[]"));
    assert!(headers.get(ETAG).is_none());
}

#[tokio::test]
async fn what_cannot_be_read_is_refused() {
    let app = TestApp::start().await;
    let (conversation, run) = answered(&app, None).await;
    let streams = "/api/durable-streams";
    for query in [
        "offset=",
        "offset=7",
        "offset=0,1",
        "offset=0%200",
        "offset=-2",
        "offset=-1&offset=-1",
        "live=sse",
        "live=long-poll",
        "offset=-1&live=websocket",
        "offset=00000000000000999999",
    ] {
        for stream in [format!("runs/{run}"), format!("conversations/{conversation}")] {
            let (status, _, body) = get(&app, &format!("{streams}/{stream}?{query}")).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{stream}?{query}: {body}");
        }
    }
    let missing = Uuid::now_v7();
    let (_, key) = app.db.another_user().await;
    let other = Client::new(app.url(), &key);
    for live in ["", "?offset=now&live=sse", "?offset=now&live=long-poll"] {
        for stream in [format!("runs/{missing}"), format!("conversations/{missing}")] {
            let (status, _, _) = get(&app, &format!("{streams}/{stream}{live}")).await;
            assert_eq!(status, StatusCode::NOT_FOUND);
        }
        for stream in [format!("runs/{run}"), format!("conversations/{conversation}")] {
            let (status, _) = other.get(&format!("{streams}/{stream}{live}")).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{stream} of another user");
        }
    }
    let (status, _) = app
        .client()
        .post(&format!("{streams}/runs/{run}"), json!({ "token": "mine" }))
        .await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "the log is written by agents");
    let log = conversation.parse().expect("an id");
    retention::trim_log(&app.db.pool, log, 2).await.expect("retention");
    let (status, _, body) = get(&app, &format!("{streams}/conversations/{conversation}?offset=-1")).await;
    assert_eq!(status, StatusCode::GONE, "{body}");
    let (status, _, body) = get(
        &app,
        &format!("{streams}/conversations/{conversation}?offset={:020}", 2),
    )
    .await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

#[tokio::test]
async fn the_recipe_of_the_page_works() {
    let Some(folder) = client_folder() else { return };
    let app = TestApp::start().await;
    let (_, run) = answered(&app, None).await;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/durable-streams.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let recipe = page.split("```js\n").nth(1).and_then(|rest| rest.split("```").next());
    let (url, key) = (json!(app.url()), json!(app.db.api_key));
    // Packages are found from the script's folder.
    let script = folder.join(format!("recipe-{}.mjs", std::process::id()));
    let source = format!(
        "const url = {url}, key = {key}, run = {:?};\n{}",
        run,
        recipe.expect("a recipe")
    );
    std::fs::write(&script, source).expect("the script is written");
    let output = Command::new("node").arg(&script).output().await.expect("node starts");
    std::fs::remove_file(&script).expect("the script is removed");
    assert_eq!(String::from_utf8_lossy(&output.stdout), words(), "{output:?}");
}
