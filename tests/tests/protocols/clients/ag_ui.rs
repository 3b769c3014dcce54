//! AG-UI's own `HttpAgent`, which checks each event and their order by itself.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::tools::{Ledger, Payment};
use rejoin_tests::{files, needs, support};
use rejoin_tools::registry::Registry;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Semaphore;

/// The folder with the installed client. None: it is missing, which was reported.
pub fn client_folder() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/clients/ag-ui"));
    if folder.join("node_modules/@ag-ui/client").exists() {
        return Some(folder);
    }
    needs::skip("AG-UI's client is not installed (scripts/setup-clients.sh)");
    None
}

/// Runs a script of ours with the client.
pub fn node(script: &str, folder: &Path, argument: &str) -> Command {
    let mut command = Command::new("node");
    command
        .arg(format!("{}/clients/ag-ui/{script}", env!("CARGO_MANIFEST_DIR")))
        .arg(argument)
        .env("CLIENT_FOLDER", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    command
}

/// The client in its process.
pub(super) struct Page {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Page {
    pub(super) fn open(app: &TestApp, agent: &str, thread: &str, actions: Value) -> Option<Self> {
        Self::with(app, agent, thread, json!({ "actions": actions }))
    }

    pub(super) fn with(app: &TestApp, agent: &str, thread: &str, mut script: Value) -> Option<Self> {
        let folder = client_folder()?;
        script["url"] = format!("{}/api/ag-ui/{agent}", app.url()).into();
        script["key"] = app.db.api_key.as_str().into();
        script["threadId"] = thread.into();
        let mut child = node("driver.mjs", &folder, &script.to_string())
            .spawn()
            .expect("node starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Some(Self { _child: child, lines })
    }

    /// What the client has after its next action.
    pub(super) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(support::LIMIT, self.lines.next_line()).await;
        let line = line
            .expect("the client is done in time")
            .expect("its output")
            .expect("a line");
        let reply: Value = serde_json::from_str(&line).expect("JSON");
        if reply["told"].is_null() {
            assert_eq!(reply["error"], Value::Null, "{reply:#}");
            assert_eq!(reply["warnings"], json!([]), "{reply:#}");
        }
        reply
    }
}

/// The replies as the client has them: of the run's own agent.
pub(super) fn replied(said: &Value) -> String {
    let messages = said["messages"].as_array().expect("messages").iter();
    messages
        .filter(|message| message["role"] == "assistant" && message["subagentRunId"].is_null())
        .filter_map(|message| message["content"].as_str())
        .collect()
}

/// The replies as they are stored.
pub(super) async fn stored(app: &TestApp, thread: &str) -> String {
    let texts: Vec<String> = sqlx::query_scalar(
        "select m.content from kb.chat_messages m join kb.chat_conversations c on c.id = m.conversation_id
         where c.client_thread = $1 and m.role = 'assistant' order by m.seq",
    )
    .bind(thread)
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    texts.concat()
}

pub(super) fn kinds(said: &Value) -> Vec<&str> {
    let events = said["events"].as_array().expect("events").iter();
    events.map(|event| event["type"].as_str().expect("a type")).collect()
}

pub(super) fn words(n: usize) -> String {
    (0..n).map(|i| format!("word{i} ")).collect()
}

#[tokio::test]
async fn a_conversation_has_answers_context_and_its_thread() {
    let app = TestApp::start().await;
    app.agent("writer", &[]).await;
    app.model.script([
        Reply::text("Hello there.").reasoning("A greeting."),
        Reply::text("Again."),
    ]);
    let context = json!([{"description": "Page", "value": "invoices"}]);
    let actions = json!([
        {"message": "hello", "context": context, "runId": "r1"}, {"message": "once more"}, {"connect": true},
    ]);
    let Some(mut page) = Page::open(&app, "writer", "thread 1/ä", actions) else {
        return;
    };
    let first = page.next().await;
    assert_eq!(
        (first["outcome"].as_str(), replied(&first).as_str()),
        (Some("success"), "Hello there.")
    );
    for kind in ["REASONING_MESSAGE_CONTENT", "STATE_SNAPSHOT", "TEXT_MESSAGE_CONTENT"] {
        assert!(kinds(&first).contains(&kind), "{kind}");
    }
    assert_eq!(first["state"]["rejoin"]["agent"], "writer");
    let second = page.next().await;
    assert_eq!(replied(&second), "Hello there.Again.");
    assert_eq!(replied(&second), stored(&app, "thread 1/ä").await);
    let connected = page.next().await;
    assert_eq!(replied(&connected), "Hello there.Again.");
    assert_eq!(kinds(&connected), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    let requests = app.model.requests();
    assert!(
        requests[0].to_string().contains("Page: invoices"),
        "the agent is told of the page"
    );
    assert_eq!(sent(&requests[1]).iter().filter(|(role, _)| role == "user").count(), 2);
    // The same run once more: nothing new is asked of the model.
    let again = json!([{"message": "hello", "runId": "r1"}]);
    let Some(mut page) = Page::open(&app, "writer", "thread 1/ä", again) else {
        return;
    };
    assert_eq!(replied(&page.next().await), "Hello there.");
    assert_eq!(app.model.requests().len(), 2);
}

#[tokio::test]
async fn tools_of_the_server_are_shown_with_their_results() {
    let (ledger, gate) = (Ledger::default(), Arc::new(Semaphore::new(9)));
    let app = TestApp::with(AppOptions {
        tools: Registry::new([Payment::shared(&ledger, &gate, false)]),
        ..AppOptions::default()
    })
    .await;
    app.agent("payer", &["pay"]).await;
    app.model.script([
        Reply::text("I will pay. ").then_tool("pay", json!({"amount": 5})),
        Reply::tool("pay", json!({"amount": -1})),
        Reply::text("Paid."),
    ]);
    let Some(mut page) = Page::open(&app, "payer", "t", json!([{"message": "pay"}])) else {
        return;
    };
    let shown = page.next().await;
    let roles: Vec<&str> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|m| m["role"].as_str())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "tool", "assistant"]);
    assert_eq!(shown["messages"][1]["toolCalls"][0]["function"]["name"], "pay");
    assert_eq!(
        shown["messages"][2]["toolCallId"],
        shown["messages"][1]["toolCalls"][0]["id"]
    );
    assert!(
        shown["messages"][4]["content"].as_str().unwrap().contains("negative"),
        "{shown:#}"
    );
    assert_eq!(shown["pending"], json!([]));
    assert_eq!(replied(&shown), stored(&app, "t").await);
}

#[tokio::test]
async fn a_tool_of_the_client_is_called_and_its_result_read() {
    let app = TestApp::start().await;
    app.agent("guide", &[]).await;
    app.model.script([
        Reply::tool("locate", json!({"exact": true})),
        Reply::text("You are in Kyiv."),
    ]);
    let parameters = json!({"type": "object", "properties": {"exact": {"type": "boolean"}}});
    let tools = json!([{"name": "locate", "description": "Returns the user's place.", "parameters": parameters}]);
    let actions = json!([{"message": "where am I?", "tools": tools}, {"toolResult": "Kyiv"}, {"connect": true}]);
    let Some(mut page) = Page::open(&app, "guide", "t", actions) else {
        return;
    };
    let first = page.next().await;
    assert_eq!(
        (&first["outcome"], first["pending"].as_array().unwrap().len()),
        (&json!("success"), 1)
    );
    let second = page.next().await;
    assert_eq!(replied(&second), "You are in Kyiv.");
    assert_eq!(second["messages"].as_array().unwrap().len(), 4, "{second:#}");
    assert!(
        sent(&app.model.requests()[1])
            .iter()
            .any(|(role, text)| role == "tool" && text.contains("Kyiv"))
    );
    assert_eq!(replied(&page.next().await), "You are in Kyiv.");
    app.wait_until_idle().await;
}

#[tokio::test]
async fn questions_are_interrupts() {
    let app = TestApp::start().await;
    app.agent("asker", &["ask_user"]).await;
    let options = json!([{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}]);
    app.model.script([
        Reply::tool("ask_user", json!({"question": "Which colour?", "options": options})),
        Reply::tool("ask_user", json!({"question": "Which size?", "options": []})),
        Reply::text("Blue it is."),
    ]);
    let actions = json!([
        {"message": "paint it"},
        {"connect": true, "answer": {"status": "resolved", "payload": "blue"}},
        {"answer": {"status": "resolved", "payload": "blue"}},
        {"answer": {"status": "cancelled"}},
    ]);
    let Some(mut page) = Page::open(&app, "asker", "t", actions) else {
        return;
    };
    let first = page.next().await;
    assert_eq!(first["outcome"], "interrupt");
    let interrupt = &first["interrupts"][0];
    assert_eq!(
        (&interrupt["message"], &interrupt["responseSchema"]),
        (
            &json!("Which colour?"),
            &json!({"type": "string", "enum": ["red", "blue"]})
        )
    );
    // A page that is opened meanwhile is asked, too.
    assert_eq!(page.next().await["interrupts"][0]["id"], interrupt["id"]);
    let second = page.next().await;
    assert_eq!(second["interrupts"][0]["message"], "Which size?");
    let third = page.next().await;
    assert_eq!(
        (third["outcome"].as_str(), &third["interrupts"]),
        (Some("success"), &json!([]))
    );
    assert_eq!(replied(&third), stored(&app, "t").await);
    app.wait_until_idle().await;
}

#[tokio::test]
async fn files_of_a_message_are_read_and_kept() {
    let app = TestApp::start().await;
    app.agent("reader", &[]).await;
    app.model.script([Reply::text("It says hello.")]);
    let id = files::stored(&app.client(), "note.txt", b"hello from a file".to_vec()).await;
    let file = json!({"type": "document", "source": {"type": "file", "value": id}});
    let content = json!([{"type": "text", "text": "What does it say?"}, file]);
    let actions = json!([{"message": content}, {"connect": true}]);
    let Some(mut page) = Page::open(&app, "reader", "t", actions) else {
        return;
    };
    let shown = page.next().await;
    assert_eq!(replied(&shown), "It says hello.");
    assert_eq!(shown["messages"][0]["content"], content);
    let request = app.model.requests().pop().expect("a request").to_string();
    assert!(request.contains("hello from a file"), "{request}");
    // A page that is opened later has the file, too.
    let connected = page.next().await;
    let kept = &connected["messages"][0]["content"];
    assert_eq!(
        (&kept[0], &kept[1]["source"]["value"]),
        (&content[0], &json!(id)),
        "{connected:#}"
    );
    assert_eq!(replied(&connected), "It says hello.");
}

#[tokio::test]
async fn an_answer_that_matches_a_schema_is_data() {
    let app = TestApp::start().await;
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    app.agent_with("places", &[], |content| {
        content.config = json!({"outputSchema": schema})
    })
    .await;
    app.model.script([Reply::text(r#"{"city":"Oslo"}"#)]);
    let Some(mut page) = Page::open(&app, "places", "t", json!([{"message": "Where?"}])) else {
        return;
    };
    let shown = page.next().await;
    let output = json!({"city": "Oslo"});
    assert_eq!(shown["result"]["output"], output, "{shown:#}");
    assert_eq!(serde_json::from_str::<Value>(&replied(&shown)).expect("JSON"), output);
    assert_eq!(replied(&shown), stored(&app, "t").await);
}

#[tokio::test]
async fn bad_requests_say_what_to_do() {
    let app = TestApp::start().await;
    app.agent("writer", &[]).await;
    let client = app.client();
    let user = json!({"id": "1", "role": "user", "content": "Hi"});
    let tool = json!({"id": "2", "role": "tool", "toolCallId": "unknown", "content": "x"});
    let image = json!({"id": "3", "role": "user", "content": [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "source": {"type": "data", "value": "QQ==", "mimeType": "image/png"}},
    ]});
    let resume = json!([{"interruptId": "nothing", "status": "cancelled"}]);
    for (path, more, code) in [
        (
            "/api/ag-ui/nobody",
            json!({"messages": [user]}),
            "agent_definition_not_found",
        ),
        ("/api/ag-ui", json!({"messages": []}), "nothing_to_run"),
        ("/api/ag-ui", json!({"messages": [tool]}), "nothing_to_run"),
        ("/api/ag-ui", json!({"messages": [image]}), "unsupported_content"),
        ("/api/ag-ui", json!({"messages": [user], "threadId": ""}), "invalid_id"),
        (
            "/api/ag-ui",
            json!({"messages": [user], "resume": resume}),
            "nothing_to_run",
        ),
    ] {
        let mut body = json!({"threadId": "t", "runId": "r"});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let (_, problem) = client.post(path, body).await;
        assert_eq!(problem["code"], code, "{problem:#}");
    }
    let (status, problem) = client.get("/api/ag-ui/threads/nothing/events").await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::NOT_FOUND, &json!("conversation_not_found"))
    );
    // The same run for another message.
    app.model.script([Reply::text("One.")]);
    let body =
        |text: &str| json!({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": text}]});
    let request = client.request(Method::POST, "/api/ag-ui/writer").json(&body("one"));
    let streamed = request.send().await.unwrap().text().await.unwrap();
    assert!(streamed.contains("RUN_FINISHED"), "{streamed}");
    let (status, problem) = client.post("/api/ag-ui/writer", body("two")).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("idempotency_key_reused"))
    );
    // The native log has the same conversation.
    let conversation: uuid::Uuid = sqlx::query_scalar("select id from kb.chat_conversations where client_thread = 't'")
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
async fn the_recipe_of_the_page_works() {
    let Some(folder) = client_folder() else { return };
    let app = TestApp::start().await;
    app.agent("writer", &[]).await;
    app.model.script([Reply::text("Hello yourself.")]);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/ag-ui.md");
    let page = std::fs::read_to_string(page).unwrap();
    let recipe = page
        .split("```js\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let (url, key) = (json!(app.url()), json!(app.db.api_key));
    // Packages are found from the script's folder.
    let script = folder.join(format!("recipe-{}.mjs", std::process::id()));
    std::fs::write(&script, format!("const url = {url}, key = {key};\n{recipe}")).unwrap();
    let output = Command::new("node").arg(&script).output().await.unwrap();
    std::fs::remove_file(&script).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "Hello yourself.\n",
        "{output:?}"
    );
}
