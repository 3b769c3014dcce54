//! A2A's clients for JavaScript and Python, unmodified, with both bindings over HTTP.

use rejoin_runs::agents;
use rejoin_tests::a2a_clients::{self, A2aClient, CLIENTS, Seen};
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::model_server::{Reply, sent};
use serde_json::{Value, json};
use tokio::process::Command;

mod protocol;
mod push;

/// Number of each client's tasks whose streams are cut at random places.
const CUT_TASKS: u32 = 20;

fn words(n: usize) -> String {
    (0..n).map(|i| format!("word{i} ")).collect()
}

/// A message with a new id.
fn message(text: &str, more: Value) -> Value {
    let mut message = json!({"messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": [{"text": text}]});
    for (name, value) in more.as_object().into_iter().flatten() {
        message[name] = value.clone();
    }
    json!({ "message": message })
}

/// An agent for programs outside.
async fn agent(app: &TestApp, name: &str, tools: &[&str]) {
    let change = |content: &mut agents::DefinitionContent| agents::EXTERNAL.clone_into(&mut content.visibility);
    app.agent_with(name, tools, change).await;
}

fn of(agent: &str) -> Value {
    json!({ "agent": agent })
}

/// The newest reply that is stored.
async fn stored(app: &TestApp) -> String {
    sqlx::query_scalar(
        "select content from kb.chat_messages where role = 'assistant' order by created_at desc, seq desc limit 1",
    )
    .fetch_one(&app.db.pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn both_clients_get_an_answer_streamed_and_whole() {
    if !a2a_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    agent(&app, "helper", &["schema_version"]).await;
    for client in CLIENTS {
        app.model.script([
            Reply::text("Let me see. ").then_tool("schema_version", json!({})),
            Reply::text("It is this one."),
            Reply::text("Hello again."),
        ]);
        let context = format!("{client:?} 1/ä");
        let calls = json!([
            {"call": "stream", "params": message("which version?", json!({"contextId": context}))},
            {"call": "get", "params": {"id": "$task"}},
            {"call": "send", "params": message("hello", json!({"contextId": "$context"}))},
            {"call": "list", "params": {"contextId": "$context", "pageSize": 1, "includeArtifacts": true}},
        ]);
        let mut client = A2aClient::start(client, &app, of("helper"), calls);
        let (seen, said) = client.next().await;
        assert!(said.get("error").is_none(), "{said:#}");
        let whole = stored(&app).await;
        assert_eq!(whole, "Let me see. \n\nIt is this one.");
        assert_eq!(
            (seen.state.as_str(), seen.answer()),
            ("TASK_STATE_COMPLETED", whole.as_str())
        );
        assert_eq!(
            (seen.context.as_str(), seen.tools()),
            (context.as_str(), vec!["schema_version"])
        );
        assert!(seen.events[0].get("task").is_some(), "{:#}", seen.events[0]);

        let (_, said) = client.next().await;
        let task = &said["result"];
        assert_eq!(
            (Seen::of(task).artifacts, &task["id"]),
            (seen.artifacts, &json!(seen.id))
        );
        assert_eq!(task["history"][0]["parts"][0]["text"], "which version?");
        assert!(task["status"]["timestamp"].is_string(), "{task:#}");

        let (_, said) = client.next().await;
        let second = Seen::of(&said["result"]);
        assert_eq!(
            (second.answer(), second.context.as_str()),
            ("Hello again.", context.as_str())
        );
        assert_eq!(stored(&app).await, "Hello again.");
        let given = app.model.requests().last().unwrap()["messages"].to_string();
        assert!(
            given.contains("which version?") && given.contains("It is this one."),
            "{given}"
        );

        let (_, said) = client.next().await;
        let page = &said["result"];
        assert_eq!(
            (&page["totalSize"], page["tasks"].as_array().unwrap().len()),
            (&json!(2), 1),
            "{page:#}"
        );
        assert_eq!(page["tasks"][0]["artifacts"][0]["parts"][0]["text"], "Hello again.");
        assert!(!page["nextPageToken"].as_str().unwrap().is_empty());
    }
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_question_is_answered_by_text_or_by_data() {
    if !a2a_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    agent(&app, "asker", &["ask_user"]).await;
    let options = json!([{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}]);
    for client in CLIENTS {
        app.model.script([
            Reply::text("Well. ").then_tool("ask_user", json!({"question": "Which colour?", "options": options})),
            Reply::tool("ask_user", json!({"question": "Which size?", "options": []})),
            Reply::text("A big blue one."),
        ]);
        let answers = json!({"taskId": "$task", "contextId": "$context"});
        let calls = json!([
            {"call": "stream", "params": message("paint it", json!({}))},
            {"call": "subscribe", "params": {"id": "$task", "until": "TASK_STATE_INPUT_REQUIRED"}},
            {"call": "send", "params": message("Blue", answers.clone())},
            {"call": "stream", "params": message("Big", answers)},
        ]);
        let mut client = A2aClient::start(client, &app, of("asker"), calls);
        let (asked, _) = client.next().await;
        assert_eq!(
            (asked.state.as_str(), asked.message.as_str()),
            ("TASK_STATE_INPUT_REQUIRED", "Which colour?")
        );
        assert_eq!(asked.answer(), "Well. ");
        let parts = &asked.events.last().unwrap()["statusUpdate"]["status"]["message"]["parts"];
        assert_eq!(parts[1]["data"]["options"][1]["value"], "blue");
        let (again, said) = client.next().await;
        assert_eq!((again.message, again.state), (asked.message, asked.state), "{said:#}");
        let (_, said) = client.next().await;
        let second = Seen::of(&said["result"]);
        assert_eq!(
            (second.id.as_str(), second.message.as_str()),
            (asked.id.as_str(), "Which size?"),
            "{said:#}"
        );
        let (last, said) = client.next().await;
        assert_eq!(last.state, "TASK_STATE_COMPLETED", "{said:#}");
        assert_eq!(last.answer(), stored(&app).await);
        assert!(
            sent(&app.model.requests()[1])
                .iter()
                .any(|(role, text)| role == "tool" && text.contains("blue"))
        );
        app.wait_until_idle().await;
    }
}

#[tokio::test]
async fn failures_and_cancels_are_states_of_the_task() {
    if !a2a_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    agent(&app, "writer", &[]).await;
    for client in CLIENTS {
        app.model.on("fail", [Reply::status(400)]);
        app.model.on("hang", [Reply::hang_after(3)]);
        let mut at_once = message("hang", json!({}));
        at_once["configuration"] = json!({"returnImmediately": true});
        let ended = json!({"id": "$task"});
        let calls = json!([
            {"call": "stream", "params": message("fail", json!({}))},
            {"call": "cancel", "params": ended},
            {"call": "subscribe", "params": ended},
            {"call": "send", "params": message("more", json!({"taskId": "$task"}))},
            {"call": "get", "params": {"id": uuid::Uuid::now_v7()}},
            {"call": "send", "params": at_once},
            {"call": "cancel", "params": ended},
        ]);
        let mut driven = A2aClient::start(client, &app, of("writer"), calls);
        let (failed, _) = driven.next().await;
        assert_eq!(failed.state, "TASK_STATE_FAILED");
        assert!(!failed.message.is_empty());
        let last = &failed.events.last().unwrap()["statusUpdate"];
        assert!(last["metadata"]["errorCode"].is_string(), "{last:#}");
        for error in [
            "TaskNotCancelableError",
            "UnsupportedOperationError",
            "UnsupportedOperationError",
            "TaskNotFoundError",
        ] {
            let (_, said) = driven.next().await;
            assert_eq!(said["error"]["name"], error, "{client:?} {said:#}");
        }
        let (_, said) = driven.next().await;
        let begun = Seen::of(&said["result"]).state;
        assert!(
            ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&begun.as_str()),
            "{said:#}"
        );
        let (_, said) = driven.next().await;
        assert_eq!(Seen::of(&said["result"]).state, "TASK_STATE_CANCELED", "{said:#}");
    }
}

#[tokio::test]
async fn files_and_data_are_parts() {
    if !a2a_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    agent(&app, "reader", &[]).await;
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    for client in CLIENTS {
        app.model.always("What does it say?", Reply::text(r#"{"city":"Oslo"}"#));
        let file = json!({"raw": "aGVsbG8gZnJvbSBhIGZpbGU=", "filename": "note.txt", "mediaType": "text/plain"});
        let mut asked = message("", json!({"parts": [{"text": "What does it say?"}, file]}));
        asked["metadata"] = json!({ "outputSchema": schema });
        let elsewhere =
            json!({"parts": [{"text": "And this?"}, {"url": "https://example.com/a.png", "mediaType": "image/png"}]});
        let unknown = json!({"parts": [{"raw": "AAECAw==", "mediaType": "application/x-unknown"}]});
        let calls = json!([
            {"call": "stream", "params": asked},
            {"call": "get", "params": {"id": "$task"}},
            {"call": "stream", "params": message("", elsewhere)},
            {"call": "send", "params": message("", unknown)},
        ]);
        let mut driven = A2aClient::start(client, &app, of("reader"), calls);
        let (seen, said) = driven.next().await;
        assert_eq!(seen.artifacts["output"].1, [json!({"city": "Oslo"})], "{said:#}");
        assert_eq!(
            serde_json::from_str::<Value>(seen.answer()).unwrap(),
            json!({"city": "Oslo"})
        );
        let request = app.model.requests().last().unwrap().to_string();
        assert!(request.contains("hello from a file"), "{request}");
        let (_, said) = driven.next().await;
        let kept = &said["result"]["history"][0]["parts"][1];
        assert_eq!(
            (&kept["filename"], &kept["mediaType"]),
            (&json!("note.txt"), &json!("text/plain"))
        );
        for _ in ["an address elsewhere", "an unknown type"] {
            let (_, said) = driven.next().await;
            assert_eq!(said["error"]["name"], "ContentTypeNotSupportedError", "{said:#}");
        }
    }
}

#[tokio::test]
async fn words_of_a_killed_worker_are_taken_back() {
    if !a2a_clients::are_there() {
        return;
    }
    let whole: String = (0..30).map(|i| format!("other{i} ")).collect();
    for client in CLIENTS {
        let app = TestApp::with(AppOptions {
            workers: 0,
            ..AppOptions::default()
        })
        .await;
        agent(&app, "writer", &[]).await;
        app.model.script([Reply::hang_after(10), Reply::text(&whole)]);
        let victim = Process::worker(&app);
        let calls = json!([{"call": "stream", "params": message("write", json!({}))}]);
        let mut driven = A2aClient::start(client, &app, of("writer"), calls);
        let before = driven.sees("\"artifactUpdate\"").await;
        // Another one subscribes before the loss.
        let subscribes = json!([{"call": "subscribe", "params": {"id": before.id}}]);
        let mut other = A2aClient::start(client, &app, of("writer"), subscribes);
        let other_before = other.sees("\"task\"").await;
        victim.kill();
        let _heir = Process::worker(&app);
        for (driven, before) in [(&mut driven, before), (&mut other, other_before)] {
            let (seen, said) = driven.on(before).await;
            assert_eq!(
                (seen.answer(), seen.state.as_str()),
                (whole.as_str(), "TASK_STATE_COMPLETED"),
                "{said:#}"
            );
        }
        assert_eq!(stored(&app).await, whole);
    }
}

#[tokio::test]
async fn a_cut_stream_costs_and_repeats_nothing() {
    if !a2a_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    agent(&app, "helper", &["schema_version"]).await;
    let whole = format!("Let me see. \n\n{}", words(40));
    for client in CLIENTS {
        let mut calls = Vec::new();
        for _ in 0..CUT_TASKS {
            app.model.script([
                Reply::text("Let me see. ").then_tool("schema_version", json!({})),
                Reply::text(words(40)).words_every(2),
            ]);
            calls.push(json!({"call": "stream", "params": message("go", json!({}))}));
        }
        let more = json!({"agent": "helper", "cutSeed": 1});
        let mut driven = A2aClient::start(client, &app, more, json!(calls));
        let mut cuts = 0;
        for _ in 0..CUT_TASKS {
            let (seen, said) = driven.next().await;
            assert_eq!(seen.answer(), whole, "{client:?}: {said:#}");
            assert_eq!(seen.state, "TASK_STATE_COMPLETED");
            cuts = said["result"]["cuts"].as_u64().unwrap();
        }
        assert!(cuts > u64::from(CUT_TASKS), "{client:?}: {cuts} cuts");
    }
    let kept: Vec<(String, i64)> =
        sqlx::query_as("select content, count(*) from kb.chat_messages where role = 'assistant' group by content")
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    let tasks = i64::from(CUT_TASKS) * CLIENTS.len() as i64;
    assert_eq!(kept, [(whole, tasks)]);
}

#[tokio::test]
async fn the_recipe_of_the_page_works() {
    if !a2a_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    agent(&app, "writer", &[]).await;
    app.model.script([Reply::text("Hello yourself.")]);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/a2a.md");
    let page = std::fs::read_to_string(page).unwrap();
    let recipe = page
        .split("```js\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let (url, key) = (json!(app.url()), json!(app.db.api_key));
    // Packages are found from the script's folder.
    let script = a2a_clients::folder().join(format!("recipe-{}.mjs", std::process::id()));
    std::fs::write(&script, format!("const url = {url}, key = {key};\n{recipe}")).unwrap();
    let output = Command::new("node").arg(&script).output().await.unwrap();
    std::fs::remove_file(&script).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "Hello yourself.\n",
        "{output:?}"
    );
}
