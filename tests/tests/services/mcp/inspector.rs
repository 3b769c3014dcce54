//! The command line of the MCP Inspector at `/mcp`, unmodified: it executes one method, and ends. Installed by `scripts/setup-clients.sh`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::model_server::Reply;
use rejoin_tests::{mcp, needs};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::clients::{rows, until, words};
use super::endpoint::{app, names};

/// The exit code of a call whose result is an error.
const TOOL_ERROR: i32 = 5;

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(
        "../.cache/clients/mcp-inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js",
    )
}

/// Returns whether it and a Node.js new enough for it are there; otherwise reports why a test is skipped.
fn is_there() -> bool {
    if program().exists() && mcp::recent_node().is_some() {
        return true;
    }
    needs::skip("the MCP Inspector is not installed: scripts/setup-clients.sh and scripts/setup-mcp.sh fetch it");
    false
}

/// A method that is being executed.
struct Inspector(Child);

impl Inspector {
    fn starts(app: &TestApp, method: &[&str]) -> Self {
        let key = format!("Authorization: Bearer {}", app.db.api_key);
        let child = Command::new(mcp::recent_node().expect("checked by is_there"))
            .arg(program())
            .args(["--cli", &format!("{}/mcp", app.url()), "--transport", "http"])
            .args(["--header", &key, "--method"])
            .args(method)
            // It keeps files there.
            .env("HOME", std::env::temp_dir().join(format!("inspector-{}", std::process::id())))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Node.js starts");
        Self(child)
    }

    fn asks(app: &TestApp, arguments: &Value) -> Self {
        let arguments = arguments.to_string();
        Self::starts(
            app,
            &["tools/call", "--tool-name", "ask_agent", "--tool-args-json", &arguments],
        )
    }

    /// Its exit code and its result.
    async fn ends(self) -> (Option<i32>, Value) {
        let output = self.0.wait_with_output().await.expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout);
        let result = serde_json::from_str(&said).unwrap_or_else(|_| {
            let why = String::from_utf8_lossy(&output.stderr);
            panic!("no result: {said}{why}")
        });
        (output.status.code(), result)
    }
}

fn question(message: &str) -> Value {
    json!({"message": message, "agent": "helper"})
}

/// Begins a call of an agent. It says that it supports tasks, and shows the task as the result, without waiting for its end.
async fn begun(app: &TestApp, arguments: &Value) -> String {
    let (code, created) = Inspector::asks(app, arguments).ends().await;
    assert_eq!((code, &created["status"]), (Some(0), &json!("working")), "{created:#}");
    created["taskId"].as_str().expect("a task").to_owned()
}

/// Reads the run of a task, once it has this state; with its last message.
async fn read(app: &TestApp, task: &str, message: &str, state: &str) -> (Value, Value) {
    until(app, message, state).await;
    let uri = format!("rejoin://runs/{task}");
    let (_, read) = Inspector::starts(app, &["resources/read", "--uri", &uri]).ends().await;
    let document = read["contents"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{read:#}"));
    let document: Value = serde_json::from_str(document).expect("JSON");
    let messages = document["messages"].as_array().expect("messages");
    let last = messages.last().expect("a message")["content"].clone();
    (document["run"].clone(), last)
}

#[tokio::test]
async fn it_gets_tools_answers_data_and_errors() {
    if !is_there() {
        return;
    }
    let app = app().await;
    app.agent("helper", &["search_entities"]).await;
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    app.agent_with("places", &[], |content| {
        content.config = json!({"outputSchema": schema})
    })
    .await;
    app.model.on(
        "What does curl need?",
        [
            Reply::tool("search_entities", json!({"query": "curl"})),
            Reply::text("curl needs libssl3."),
        ],
    );
    app.model.on("Where?", [Reply::text(r#"{"city":"Oslo"}"#)]);
    app.model.on("Fail", [Reply::status(400)]);

    let (_, listed) = Inspector::starts(&app, &["tools/list"]).ends().await;
    assert!(names(&listed).contains(&"ask_agent"), "{listed:#}");
    let task = begun(&app, &question("What does curl need?")).await;
    let (_, answer) = read(&app, &task, "What does curl need?", "completed").await;
    assert_eq!(answer["text"], "curl needs libssl3.");
    let task = begun(&app, &json!({"message": "Where?", "agent": "places"})).await;
    let (_, data) = read(&app, &task, "Where?", "completed").await;
    let data = data["text"].as_str().unwrap_or_default();
    assert_eq!(serde_json::from_str::<Value>(data).ok(), Some(json!({"city": "Oslo"})));
    let task = begun(&app, &question("Fail")).await;
    let (failed, _) = read(&app, &task, "Fail", "failed").await;
    assert!(failed["error"].is_string(), "{failed:#}");

    let nobody = json!({"message": "Hello?", "agent": "nobody"});
    let with_a_file = json!({"message": "Read this", "agent": "helper", "files": ["note.txt"]});
    for (arguments, words) in [(nobody, "there is no agent nobody"), (with_a_file, "wrong arguments")] {
        let (code, refused) = Inspector::asks(&app, &arguments).ends().await;
        assert_eq!(code, Some(TOOL_ERROR), "{refused:#}");
        assert!(refused.to_string().contains(words), "{refused:#}");
    }
}

#[tokio::test]
async fn it_gets_a_question_and_answers_with_its_next_call() {
    if !is_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &["ask_user"]).await;
    let options = json!([{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}]);
    app.model.script([
        Reply::tool("ask_user", json!({"question": "Which colour?", "options": options})),
        Reply::text("Blue it is."),
    ]);
    let task = begun(&app, &question("Paint it")).await;
    let (waits, asked) = read(&app, &task, "Paint it", "waiting").await;
    assert!(asked.to_string().contains("Which colour?"), "{asked:#}");
    let answer = json!({"message": "Blue", "conversation_id": waits["conversationId"]});
    assert_eq!(begun(&app, &answer).await, task, "the same run goes on");
    let (_, answered) = read(&app, &task, "Paint it", "completed").await;
    assert_eq!(answered["text"], "Blue it is.");
}

/// It can't cancel. One that is killed leaves its session, whose run goes on; the answer is in the conversation.
#[tokio::test]
async fn a_killed_one_finds_the_answer_in_the_conversation() {
    if !is_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    app.model.script([Reply::text(words(100)).words_every(20)]);
    let mut killed = Inspector::asks(&app, &question("write"));
    rows(&app, 1).await;
    killed.0.kill().await.expect("a process of ours");
    until(&app, "write", "completed").await;
    let (_, listed) = Inspector::starts(&app, &["resources/list"]).ends().await;
    let uri = listed["resources"][0]["uri"].as_str().expect("a conversation");
    let (_, read) = Inspector::starts(&app, &["resources/read", "--uri", uri]).ends().await;
    let document = read["contents"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{read:#}"));
    let document: Value = serde_json::from_str(document).expect("JSON");
    assert_eq!(document["messages"][1]["content"], words(100));
}

#[tokio::test]
async fn it_gets_its_answer_after_a_killed_worker() {
    if !is_there() {
        return;
    }
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    app.agent("helper", &[]).await;
    app.model.script([Reply::hang_after(10), Reply::text(words(30))]);
    let victim = Process::worker(&app);
    let task = begun(&app, &question("write")).await;
    rows(&app, 1).await;
    victim.kill();
    let _heir = Process::worker(&app);
    assert_eq!(read(&app, &task, "write", "completed").await.1["text"], words(30));
}

#[tokio::test]
async fn it_gets_its_answer_after_a_killed_api() {
    if !is_there() {
        return;
    }
    let mut app = TestApp::start().await;
    app.agent("helper", &[]).await;
    let api = app.api_in_a_process().await;
    app.model.script([Reply::text(words(200)).words_every(20)]);
    let task = begun(&app, &question("write")).await;
    rows(&app, 10).await;
    api.kill();
    let _api = Process::api_at(&app, app.address, None, &[]).await;
    assert_eq!(read(&app, &task, "write", "completed").await.1["text"], words(200));
}
