//! Consoles edited by a user and agents: edits reach the right one. (Edits that meet: `concurrent_edits`.)

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, kinds, of_kind};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use rejoin_tools::registry::Registry;
use serde_json::{Value, json};
use uuid::Uuid;

pub(super) const TOOLS: &[&str] = &["*console*"];

pub(super) async fn console(client: &Client, title: &str, content: &str) -> Uuid {
    let (status, made) = client
        .post(
            "/api/consoles",
            json!({"title": title, "content": content, "kind": "postgresql"}),
        )
        .await;
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().parse().unwrap()
}

pub(super) async fn get(client: &Client, id: Uuid) -> Value {
    let (status, console) = client.get(&format!("/api/consoles/{id}")).await;
    assert_eq!(status, 200, "{console}");
    console
}

pub(super) fn modify(action: &str, content: &str, more: Value) -> Reply {
    let mut arguments = json!({"action": action, "content": content});
    for (name, value) in more.as_object().unwrap() {
        arguments[name] = value.clone();
    }
    Reply::tool("modify_console", arguments)
}

/// Returns the errors of tools.
pub(super) fn errors(events: &[Value]) -> Vec<String> {
    let ends = of_kind(events, "mcp_tool").into_iter();
    ends.filter_map(|event| event["error"].as_str().map(str::to_owned))
        .collect()
}

/// Requirements: D24, D28, D29, D30.
#[tokio::test]
async fn agents_read_change_and_open_consoles_as_readers_see() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", TOOLS).await;
    let query = console(&client, "Orders", "select *\nfrom orders").await;
    app.model.script([
        Reply::tool("read_console", json!({"consoleId": null})),
        modify(
            "patch",
            "from orders\nwhere total > 5",
            json!({"startLine": 2, "endLine": 2, "version": 1}),
        ),
        modify("append", "limit 10", json!({"position": null})),
        Reply::tool("create_console", json!({"title": "Second", "content": "select 2"})),
        Reply::text("Written."),
    ]);
    let body = json!({"message": "narrow it down", "agentDefinitionId": agent, "consoleId": query,
                      "consoles": [{"id": query, "title": "Orders", "content": "select *\nfrom orders", "version": 1}]});
    let frames = client.chat(body).await;
    let events = json_of(&frames);
    assert_eq!(errors(&events), Vec::<String>::new());
    let read = of_kind(&events, "mcp_tool")[1]["result"].clone();
    assert_eq!(read["lines"], "1: select *\n2: from orders");
    let changes = of_kind(&events, "console_modification");
    assert_eq!(
        changes.iter().map(|event| &event["modification"]).collect::<Vec<_>>(),
        [
            &json!({"action": "patch", "content": "from orders\nwhere total > 5", "startLine": 2, "endLine": 2}),
            &json!({"action": "append", "content": "limit 10"}),
        ]
    );
    assert_eq!(
        changes
            .iter()
            .map(|event| (&event["consoleId"], &event["version"]))
            .collect::<Vec<_>>(),
        [(&json!(query), &json!(2)), (&json!(query), &json!(3))]
    );
    let opened = of_kind(&events, "console_creation")[0];
    assert_eq!(
        (&opened["title"], &opened["content"]),
        (&json!("Second"), &json!("select 2"))
    );
    // Each event directly follows its call.
    let seen = kinds(&frames);
    for at in seen
        .iter()
        .enumerate()
        .filter(|(_, kind)| kind.starts_with("console_"))
        .map(|(at, _)| at)
    {
        assert_eq!(seen[at - 1], "mcp_tool");
    }
    let now = get(&client, query).await;
    assert_eq!(now["content"], "select *\nfrom orders\nwhere total > 5\nlimit 10");
    assert_eq!(
        (&now["lastModifiedBy"], &now["isTemporary"]),
        (&json!("agent"), &json!(false))
    );
    // D41, D45: the console opened by the agent is the conversation's, and temporary.
    let second = get(&client, opened["consoleId"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!(second["conversationId"], events[1]["conversationId"]);
    assert_eq!(second["isTemporary"], true);
    // The agent knew the open consoles before its first step.
    let prompt = &sent(&app.model.requests()[0])[0].1;
    assert!(
        prompt.contains("Orders") && prompt.contains("from orders") && prompt.contains("works on"),
        "{prompt}"
    );
}

/// Requirements: D31, D32, D33.
#[tokio::test]
async fn edits_reach_the_pinned_console_whichever_is_active() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", TOOLS).await;
    let (first, second) = (
        console(&client, "First", "1").await,
        console(&client, "Second", "2").await,
    );
    app.model.script([
        Reply::text("Hello."),
        modify("append", "agent", json!({})),
        Reply::text("Done."),
    ]);
    let body = json!({"message": "hello", "agentDefinitionId": agent, "consoles": [{"id": first}], "consoleId": first});
    let events = json_of(&client.chat(body).await);
    let conversation = events[1]["conversationId"].as_str().unwrap().to_owned();
    // The user has switched to the other one.
    let body = json!({"message": "write", "conversationId": conversation, "consoles": [{"id": second}, {"id": first}], "consoleId": second});
    client.chat(body).await;
    assert_eq!(get(&client, first).await["content"], "1\nagent");
    assert_eq!(get(&client, second).await["content"], "2");
    // D43: reopening the conversation shows it.
    let (_, opened) = client.get(&format!("/api/conversations/{conversation}")).await;
    let attached = &opened["attachedConsole"];
    assert_eq!(
        (
            &attached["id"],
            &attached["title"],
            &attached["content"],
            &attached["isTemporary"]
        ),
        (&json!(first), &json!("First"), &json!("1\nagent"), &json!(false))
    );
}

/// Requirements: D34.
#[tokio::test]
async fn another_console_is_changed_only_after_the_user_agrees() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", TOOLS).await;
    let (own, other) = (
        console(&client, "Own", "own").await,
        console(&client, "Other", "other").await,
    );
    app.model.script([
        modify("append", "x", json!({"consoleId": other})),
        Reply::tool("switch_console", json!({"consoleId": other})),
        modify("append", "y", json!({"consoleId": null})),
        Reply::text("Done."),
    ]);
    let posted = client
        .post_message(json!({"message": "work on the other", "agentDefinitionId": agent, "consoles": [{"id": own}]}))
        .await;
    let question = support::wait_for("the question", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        page["items"].as_array().unwrap().first().cloned()
    })
    .await;
    assert_eq!(question["interactionType"], "confirm");
    assert_eq!(get(&client, other).await["content"], "other");
    let answer = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    let (status, told) = client.post(&answer, json!({"answer": "approve"})).await;
    assert_eq!(status, 200, "{told}");
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let events = json_of(&client.stream(&path).await.rest().await);
    let refused = errors(&events);
    assert_eq!(refused.len(), 1);
    assert!(refused[0].contains("call switch_console"), "{}", refused[0]);
    assert_eq!(get(&client, own).await["content"], "own");
    assert_eq!(get(&client, other).await["content"], "other\ny");
}

/// Requirements: D37, D42.
#[tokio::test]
async fn consoles_are_their_owners_and_a_sweep_takes_temporary_ones() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", TOOLS).await;
    // An unsaved one, known by the client's id only.
    let unsaved = Uuid::now_v7();
    app.model
        .script([modify("append", "b", json!({})), Reply::text("Done.")]);
    let body = json!({"message": "hi", "agentDefinitionId": agent, "consoles": [{"id": unsaved, "title": "Untitled", "content": "a", "databaseType": "mongodb"}]});
    client.chat(body).await;
    let kept = get(&client, unsaved).await;
    assert_eq!(
        (&kept["content"], &kept["isTemporary"], &kept["kind"]),
        (&json!("a\nb"), &json!(true), &json!("mongodb"))
    );
    let saved = console(&client, "Saved", "x").await;

    let (_, key) = app.db.another_user().await;
    let stranger = Client::new(app.url(), &key);
    let path = format!("/api/consoles/{saved}");
    assert_eq!(stranger.get(&path).await.0, 404);
    assert_eq!(stranger.get(&format!("{path}/versions")).await.0, 404);
    assert_eq!(stranger.patch(&path, json!({"title": "mine"})).await.0, 404);
    assert_eq!(stranger.delete(&path).await.0, 404);
    let (_, listed) = stranger.get("/api/consoles").await;
    assert_eq!(listed["items"], json!([]));

    sqlx::query("update kb.consoles set updated_at = now() - interval '31 days'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(rejoin_runs::consoles::sweep(&app.db.pool, 30.0, 100).await.unwrap(), 1);
    assert_eq!(client.get(&format!("/api/consoles/{unsaved}")).await.0, 404);
    assert_eq!(client.get(&path).await.0, 200);
}

#[tokio::test]
async fn agents_find_consoles_and_each_console_tool_works_by_name() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", TOOLS).await;
    let (own, other) = (
        console(&client, "Own", "select a").await,
        console(&client, "Other", "select b").await,
    );
    let source = Uuid::now_v7();
    sqlx::query(
        "insert into kb.data_sources (id, project_id, name, kind, settings) values ($1, $2, 'books', 'sqlite', '{}')",
    )
    .bind(source)
    .bind(app.db.workspace_id)
    .execute(&app.db.pool)
    .await
    .unwrap();
    app.model.script([
        Reply::tool("list_open_consoles", json!({})),
        Reply::tool("search_consoles", json!({"query": "SELECT B"})),
        Reply::tool(
            "set_console_connection",
            json!({"consoleId": null, "dataSourceId": "books", "database": "shop"}),
        ),
        Reply::tool(
            "set_console_connection",
            json!({"consoleId": null, "dataSourceId": "nonsense"}),
        ),
        Reply::tool("read_console", json!({"consoleId": Uuid::now_v7()})),
        Reply::tool("create_console", json!({"title": " ", "content": ""})),
        Reply::text("Done."),
    ]);
    let body = json!({"message": "look", "agentDefinitionId": agent, "consoles": [{"id": own}]});
    let events = json_of(&client.chat(body).await);
    let results: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter(|event| event["status"] == "completed")
        .map(|event| &event["result"])
        .collect();
    assert_eq!(results[0]["total"], 1);
    assert_eq!(
        (
            &results[0]["consoles"][0]["consoleId"],
            &results[0]["consoles"][0]["pinned"]
        ),
        (&json!(own), &json!(true))
    );
    assert_eq!(results[1]["consoles"][0]["consoleId"], json!(other));
    assert_eq!(
        (&results[2]["dataSourceId"], &results[2]["database"]),
        (&json!(source), &json!("shop"))
    );
    let published = errors(&events);
    for (published, word) in published
        .iter()
        .zip(["list_data_sources", "list_open_consoles", "title must"])
    {
        assert!(published.contains(word), "{published}");
    }
    assert_eq!(published.len(), 3);
    // All of this family; missing ones have separate tests.
    let tried = [
        "create_console",
        "list_open_consoles",
        "modify_console",
        "read_console",
        "search_consoles",
        "set_console_connection",
        "switch_console",
    ];
    let registry = Registry::new(rejoin_runs::consoles::tools::tools());
    assert_eq!(registry.names().collect::<Vec<_>>(), tried);
}
