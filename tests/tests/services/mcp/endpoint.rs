//! `/mcp` with the protocol's own, unmodified clients: search the graph and ask an agent; sessions, scopes,
//! cancellation.

use std::process::Stdio;
use std::sync::Arc;

use rejoin_graph::import::{self, OnError};
use rejoin_graph::{Actor, ActorKind};
use rejoin_identity::auth;
use rejoin_tests::app::TestApp;
use rejoin_tests::mcp;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::{LIMIT, wait_for};
use rejoin_types::access::Scope;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::Notify;

const FILE: &str = r#"{"kind":"object","type":"Package","key":"curl","properties":{"summary":"command line tool for URLs"}}
{"kind":"object","type":"Package","key":"libssl3","properties":{"summary":"Secure Sockets Layer toolkit"}}
{"kind":"relationship","type":"DEPENDS_ON","source":{"type":"Package","key":"curl"},"target":{"type":"Package","key":"libssl3"}}
"#;

pub(super) async fn app() -> TestApp {
    let app = TestApp::start().await;
    let actor = Actor {
        kind: ActorKind::System,
        id: None,
    };
    let project = app.db.workspace_id;
    let imported = import::import(&app.db.pool, project, FILE.as_bytes(), OnError::Refuse, actor, |_| ()).await;
    imported.unwrap();
    app
}

/// A client as a process.
pub(super) struct Client {
    pub(super) child: tokio::process::Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Client {
    /// The protocol's own for TypeScript.
    pub(super) fn start(url: &str, key: &str, steps: Value) -> Self {
        let mut command = Command::new("node");
        command
            .arg(mcp::script("client.mjs"))
            .args([url, key, &steps.to_string()]);
        Self::of(command)
    }

    /// A package from PyPI that connects in this mode: see `client.py`.
    pub(super) fn in_python(package: &str, mode: &str, url: &str, key: &str, steps: Value) -> Self {
        let mut command = Command::new(mcp::folder().join("venv/bin/python"));
        command
            .arg(mcp::script("client.py"))
            .args([url, key, &steps.to_string(), package, mode]);
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns its next output.
    pub(super) async fn next(&mut self) -> Value {
        self.next_or_end().await.expect("the client says something")
    }

    /// None: the client has ended.
    pub(super) async fn next_or_end(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(2 * LIMIT, self.lines.next_line()).await;
        let line = line.expect("the client is done in time").unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    pub(super) async fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").await.unwrap();
    }
}

pub(super) fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_typescript_client_searches_and_asks_an_agent() {
    if !mcp::are_there() {
        return;
    }
    let app = app().await;
    app.agent("librarian", &["search_entities"]).await;
    app.model.script([
        Reply::tool("search_entities", json!({"query": "curl"})),
        Reply::text("curl needs libssl3."),
    ]);
    let steps = json!([
        {"list": true},
        {"call": "search_entities", "arguments": {"query": "curl"}},
        {"call": "get_entity_edges", "arguments": {"entity_id": "nothing at all"}},
        {"call": "search_entities", "arguments": {"question": "?"}},
        {"call": "ask_agent", "arguments": {"message": "What does curl need?", "agent": "librarian"}},
        {"call": "ask_agent", "arguments": {"message": "Hello?", "agent": "nobody"}},
    ]);
    let mut client = Client::start(&format!("{}/mcp", app.url()), &app.db.api_key, steps);
    let begun = client.next().await;
    assert_eq!(begun["server"]["name"], "rejoin");
    let listed = client.next().await;
    for tool in ["search_entities", "create_entity", "find_path", "ask_agent"] {
        assert!(names(&listed).contains(&tool), "{tool}");
    }
    let ask = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == "ask_agent")
        .unwrap();
    assert!(ask["description"].as_str().unwrap().contains("librarian"), "{ask}");
    assert_eq!(
        ask["inputSchema"]["required"],
        json!(["message"]),
        "what may be null may be left out"
    );

    let found = client.next().await;
    assert_eq!(found["structuredContent"]["entities"][0]["key"], "curl", "{found}");
    let missing = client.next().await;
    assert_eq!(missing["isError"], true);
    assert!(
        missing["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("there is no entity"),
        "{missing}"
    );
    let wrong = client.next().await;
    assert!(
        wrong["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("wrong arguments"),
        "{wrong}"
    );

    let answer = client.next().await;
    assert_eq!(answer["structuredContent"]["reply"], "curl needs libssl3.", "{answer}");
    assert_eq!(answer["structuredContent"]["status"], "completed");
    let progress = answer["progress"].as_array().unwrap();
    assert!(progress.contains(&json!("calls search_entities")), "{answer}");
    // It is an ordinary conversation.
    let id = answer["structuredContent"]["conversation_id"].as_str().unwrap();
    let (status, messages) = app.client().get(&format!("/api/conversations/{id}/messages")).await;
    assert_eq!(
        (status, messages["items"].as_array().unwrap().len()),
        (StatusCode::OK, 2)
    );
    let nobody = client.next().await;
    assert!(
        nobody["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("there is no agent nobody"),
        "{nobody}"
    );
}

#[tokio::test]
async fn a_cancelling_client_stops_the_run_and_a_dying_one_does_not() {
    if !mcp::are_there() {
        return;
    }
    let app = app().await;
    app.agent("librarian", &["search_entities"]).await;
    let url = format!("{}/mcp", app.url());
    let gate = Arc::new(Notify::new());
    app.model.on(
        "Never",
        [Reply::tool("search_entities", json!({"query": "curl"})), Reply::hang()],
    );
    app.model.on(
        "Go on",
        [
            Reply::tool("search_entities", json!({"query": "curl"})),
            Reply::text("there it is").gate(gate.clone()),
        ],
    );
    let ask = json!({"message": "Never", "agent": "librarian"});
    // It waits: an ending process would lose the notification that it is about to send.
    let cancels = json!([{"call": "ask_agent", "arguments": ask, "cancelAfterProgress": true}, {"wait": true}]);
    let mut client = Client::start(&url, &app.db.api_key, cancels);
    client.next().await;
    assert!(client.next().await["failed"].is_string());
    let state = async |message: &str| {
        let found: Option<String> = sqlx::query_scalar("select state from kb.agent_runs where input = $1")
            .bind(message)
            .fetch_optional(&app.db.pool)
            .await
            .unwrap();
        found
    };
    wait_for("the run to be cancelled", async || {
        (state("Never").await? == "cancelled").then_some(())
    })
    .await;

    let asks = json!([{"call": "ask_agent", "arguments": {"message": "Go on", "agent": "librarian"}}]);
    let mut client = Client::start(&url, &app.db.api_key, asks);
    client.next().await;
    wait_for("the run to begin", async || {
        (state("Go on").await? == "running").then_some(())
    })
    .await;
    client.child.kill().await.unwrap();
    gate.notify_one();
    wait_for("the run to end", async || {
        (state("Go on").await? == "completed").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_session_goes_on_at_another_api_and_is_its_callers_alone() {
    if !mcp::are_there() {
        return;
    }
    let mut app = app().await;
    let search = json!({"call": "search_entities", "arguments": {"query": "curl"}});
    let mut client = Client::start(
        &format!("{}/mcp", app.url()),
        &app.db.api_key,
        json!([search, {"wait": true}, search]),
    );
    let session = client.next().await["session"].as_str().unwrap().to_owned();
    assert_eq!(client.next().await["structuredContent"]["entities"][0]["key"], "curl");

    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    let request = |url: String, key: &str| {
        reqwest::Client::new()
            .post(format!("{url}/mcp"))
            .bearer_auth(key)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-session-id", &session)
            .json(&list)
    };
    let other = app.another_api().await;
    let answer = request(other.url(), &app.db.api_key).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(
        answer.text().await.unwrap().contains("search_entities"),
        "another API knows the session"
    );
    let (_, stranger) = app.db.another_user().await;
    let answer = request(app.url(), &stranger).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_FOUND, "it is not theirs");

    app.restart_api().await;
    client.go_on().await;
    let found = client.next().await;
    assert_eq!(
        found["structuredContent"]["entities"][0]["key"], "curl",
        "after a restart: {found}"
    );
}

#[tokio::test]
async fn keys_scopes_and_an_agents_whitelist_bound_what_is_offered() {
    if !mcp::are_there() {
        return;
    }
    let app = app().await;
    let url = format!("{}/mcp", app.url());
    let unknown = reqwest::Client::new().post(&url).json(&json!({})).send().await.unwrap();
    assert_eq!(unknown.status(), StatusCode::UNAUTHORIZED);

    let mut connection = app.db.pool.acquire().await.unwrap();
    let (user, project) = (app.db.user_id, Some(app.db.workspace_id));
    let (_, reader) = auth::create_key(&mut connection, user, project, "reader", &[Scope::Read], None)
        .await
        .unwrap();
    let steps = json!([
        {"list": true},
        {"call": "create_entity", "arguments": {"type": "Package", "key": "evil", "properties": {}}},
        {"call": "ask_agent", "arguments": {"message": "Hello?"}},
    ]);
    let mut client = Client::start(&url, &reader, steps);
    client.next().await;
    let listed = client.next().await;
    assert!(names(&listed).contains(&"search_entities"));
    for tool in ["create_entity", "delete_entity", "create_template_pack", "ask_agent"] {
        assert!(!names(&listed).contains(&tool), "{tool}");
    }
    for _ in 0..2 {
        assert!(
            client.next().await["failed"]
                .as_str()
                .unwrap()
                .contains("there is no tool")
        );
    }
    let objects: i64 = sqlx::query_scalar("select count(*) from kb.graph_objects where key = 'evil'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(objects, 0);

    app.agent("librarian", &["search_*"]).await;
    let steps = json!([{"list": true}, {"call": "list_tags", "arguments": {}}]);
    let mut client = Client::start(&format!("{url}?agent=librarian"), &app.db.api_key, steps);
    client.next().await;
    assert_eq!(
        names(&client.next().await),
        ["search_consoles", "search_entities", "ask_agent"]
    );
    assert!(
        client.next().await["failed"]
            .as_str()
            .unwrap()
            .contains("there is no tool list_tags")
    );
}

#[tokio::test]
async fn writes_by_mcp_belong_to_the_user_and_can_be_read() {
    if !mcp::are_there() {
        return;
    }
    let app = app().await;
    let steps = json!([
        {"call": "create_entity", "arguments": {"type": "Package", "key": "wget", "properties": {"summary": "retrieves files"}}},
        {"call": "search_entities", "arguments": {"query": "wget"}},
        {"call": "create_calendar_event", "arguments": {"title": "Release", "start": "2027-03-01T10:00", "time_zone": "Europe/Berlin"}},
        {"call": "list_calendar_events", "arguments": {"start": "2027-03-01", "end": "2027-03-02"}},
        {"call": "get_project_calendar", "arguments": {}},
    ]);
    let mut client = Client::start(&format!("{}/mcp", app.url()), &app.db.api_key, steps);
    client.next().await;
    let made = client.next().await;
    assert_eq!(made["structuredContent"]["entity"]["key"], "wget", "{made}");
    assert_eq!(client.next().await["structuredContent"]["entities"][0]["key"], "wget");
    let event = client.next().await;
    assert_eq!(event["structuredContent"]["title"], "Release", "{event}");
    let listed = client.next().await;
    assert_eq!(listed["structuredContent"]["events"][0]["title"], "Release", "{listed}");
    // Without a conversation there is no focus.
    let of_project = client.next().await;
    assert!(
        of_project["failed"].as_str().unwrap().contains("there is no tool"),
        "{of_project}"
    );
    let (_, calendars) = app.client().get("/api/calendars").await;
    assert_eq!(calendars["items"].as_array().unwrap().len(), 1, "{calendars}");
    let actor: (String, Option<uuid::Uuid>) =
        sqlx::query_as("select actor_type, actor_id from kb.graph_objects where key = 'wget'")
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
    assert_eq!(actor, ("user".to_owned(), Some(app.db.user_id)));
}
