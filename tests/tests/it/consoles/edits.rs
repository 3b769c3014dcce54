//! Consoles edited by a user and agents: edits reach the right one, no text is lost, and deleted ones stay deleted.

use std::sync::Arc;

use rejoin_graph::embedder::NoEmbedder;
use rejoin_runs::builtin;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, kinds, of_kind};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use rejoin_tools::registry::Registry;
use rejoin_tools::{ToolContext, ToolError};
use rejoin_types::ids;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const TOOLS: &[&str] = &["*console*"];

async fn console(client: &Client, title: &str, content: &str) -> Uuid {
    let (status, made) = client
        .post(
            "/api/consoles",
            json!({"title": title, "content": content, "kind": "postgresql"}),
        )
        .await;
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().parse().unwrap()
}

async fn get(client: &Client, id: Uuid) -> Value {
    let (status, console) = client.get(&format!("/api/consoles/{id}")).await;
    assert_eq!(status, 200, "{console}");
    console
}

fn modify(action: &str, content: &str, more: Value) -> Reply {
    let mut arguments = json!({"action": action, "content": content});
    for (name, value) in more.as_object().unwrap() {
        arguments[name] = value.clone();
    }
    Reply::tool("modify_console", arguments)
}

/// Returns the errors of tools.
fn errors(events: &[Value]) -> Vec<String> {
    let ends = of_kind(events, "mcp_tool").into_iter();
    ends.filter_map(|event| event["error"].as_str().map(str::to_owned))
        .collect()
}

/// Requirements: D24, D28, D29, D30.
#[tokio::test]
async fn agents_read_change_and_open_consoles_and_readers_are_told() {
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

#[tokio::test]
async fn what_the_user_typed_meanwhile_is_merged_or_a_conflict() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", TOOLS).await;
    let query = console(&client, "Query", "one\ntwo\nthree").await;
    let path = format!("/api/consoles/{query}");
    let save = async |content: &str, version: i32| {
        client
            .patch(&path, json!({"content": content, "version": version}))
            .await
    };
    let (_, saved) = save("one!\ntwo\nthree", 1).await;
    assert_eq!((&saved["version"], &saved["merged"]), (&json!(2), &json!(false)));
    // The agent has read version 1, and changes another line; then a line changed by the user.
    app.model.script([
        modify("patch", "three!", json!({"startLine": 3, "endLine": 3, "version": 1})),
        modify("patch", "uno", json!({"startLine": 1, "endLine": 1, "version": 1})),
        modify("patch", "x", json!({"startLine": 9, "endLine": 9})),
        Reply::text("Done."),
    ]);
    let body = json!({"message": "go", "agentDefinitionId": agent, "consoles": [{"id": query}]});
    let events = json_of(&client.chat(body).await);
    let told = errors(&events);
    assert!(
        told[0].contains("conflict") && told[0].contains("version 3"),
        "{}",
        told[0]
    );
    assert!(told[1].contains("has 3 lines"), "{}", told[1]);
    assert_eq!(get(&client, query).await["content"], "one!\ntwo\nthree!");
    // A tab that still has version 2: other lines merge, the same ones don't.
    let (status, saved) = save("one!\ntwo\ntwo and a half\nthree", 2).await;
    assert_eq!(status, 409, "next to each other is the same place: {saved}");
    let (status, saved) = save("zero\none!\ntwo\nthree", 2).await;
    assert_eq!((status.as_u16(), &saved["merged"]), (200, &json!(true)));
    assert_eq!(saved["content"], "zero\none!\ntwo\nthree!");
    let (status, refused) = save("one!\ntwo\nTHREE", 2).await;
    assert_eq!((status.as_u16(), &refused["code"]), (409, &json!("console_conflict")));
    assert_eq!(refused["current"]["content"], "zero\none!\ntwo\nthree!");
    let (status, refused) = client.patch(&path, json!({"content": "blind"})).await;
    assert_eq!((status.as_u16(), &refused["code"]), (400, &json!("invalid_console")));
    // All of it can be read again.
    let (_, versions) = client.get(&format!("{path}/versions?limit=2")).await;
    assert_eq!(versions["items"][0]["content"], "zero\none!\ntwo\nthree!");
    assert_eq!(versions["items"][1]["modifiedBy"], "agent");
    let next = versions["nextCursor"].as_str().unwrap();
    let (_, older) = client.get(&format!("{path}/versions?limit=2&cursor={next}")).await;
    assert_eq!(older["items"][1]["content"], "one\ntwo\nthree");
}

/// A tool's context, as in a run.
fn context(app: &TestApp, run: Option<Uuid>) -> ToolContext {
    ToolContext {
        db: app.db.pool.clone(),
        workspace_id: app.db.workspace_id,
        model: Arc::new(NoEmbedder),
        run_id: run,
        user_id: Some(app.db.user_id),
        call_id: "call".to_owned(),
        record_id: ids::new(),
        cancel: CancellationToken::new(),
        focus: None,
        bounds: None,
    }
}

/// Requirements: D57.
#[tokio::test]
async fn a_hundred_interleaved_edits_lose_no_line() {
    let app = TestApp::start().await;
    let client = app.client();
    let (query, other) = (
        console(&client, "Query", "begin\n\nmiddle\n\nend").await,
        console(&client, "Other", "untouched").await,
    );
    let path = format!("/api/consoles/{query}");
    let tool = builtin::tools().get("modify_console").unwrap();
    // Concurrent writes: the user above the middle, based on the editor's version, the agent below, based on what it
    // has read.
    let user = async {
        let mut held = get(&client, query).await;
        for n in 0..50 {
            loop {
                let text = held["content"]
                    .as_str()
                    .unwrap()
                    .replacen("\n", &format!("\nuser {n}\n"), 1);
                let body = json!({"content": text, "version": held["version"]});
                let (status, answer) = client.patch(&path, body).await;
                if status == 200 {
                    held = answer;
                    break;
                }
                assert_eq!(status, 409, "{answer}");
                held = answer["current"].clone();
            }
        }
    };
    let agent = async {
        for n in 0..50 {
            let mut version = None;
            loop {
                let arguments = json!({"action": "append", "content": format!("agent {n}"), "position": null, "startLine": null,
                                       "endLine": null, "consoleId": query, "version": version});
                match tool.call(&context(&app, None), arguments).await {
                    Ok(_) => break,
                    Err(ToolError::RespondToModel(told)) => assert!(told.contains("conflict"), "{told}"),
                    Err(error) => panic!("{error}"),
                }
                version = get(&client, query).await["version"].as_i64();
            }
        }
    };
    tokio::join!(user, agent);
    let content = get(&client, query).await["content"].as_str().unwrap().to_owned();
    for n in 0..50 {
        for who in ["user", "agent"] {
            let line = format!("{who} {n}");
            assert_eq!(
                content.lines().filter(|one| *one == line).count(),
                1,
                "{line} in {content}"
            );
        }
    }
    assert_eq!(get(&client, other).await["content"], "untouched");
}

#[tokio::test]
async fn a_call_that_is_repeated_after_a_crash_changes_a_console_once() {
    let app = TestApp::start().await;
    let client = app.client();
    let query = console(&client, "Query", "a").await;
    let registry = builtin::tools();
    let (modify, create) = (
        registry.get("modify_console").unwrap(),
        registry.get("create_console").unwrap(),
    );
    let same = context(&app, None);
    let arguments = json!({"action": "append", "content": "b", "consoleId": query, "position": null, "startLine": null, "endLine": null, "version": null});
    let first = modify.call(&same, arguments.clone()).await.unwrap();
    let second = modify.call(&same, arguments).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(modify.events(&first).len(), 1);
    assert_eq!(get(&client, query).await["content"], "a\nb");
    let same = context(&app, None);
    let arguments = json!({"title": "New", "content": "x", "kind": null, "dataSourceId": null, "database": null});
    let first = create.call(&same, arguments.clone()).await.unwrap();
    assert_eq!(first, create.call(&same, arguments).await.unwrap());
    let (_, all) = client.get("/api/consoles").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_deleted_console_stays_deleted_whatever_comes_late() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("writer", TOOLS).await;
    let query = console(&client, "Query", "a").await;
    app.model.script([
        Reply::text("Hi."),
        modify("append", "b", json!({"consoleId": query})),
        Reply::text("Gone."),
    ]);
    let body = json!({"message": "hi", "agentDefinitionId": agent, "consoles": [{"id": query}]});
    let events = json_of(&client.chat(body).await);
    let conversation = events[1]["conversationId"].as_str().unwrap();
    let path = format!("/api/consoles/{query}");
    let (status, _) = client.delete(&path).await;
    assert_eq!(status, 204);
    assert_eq!(
        client.patch(&path, json!({"content": "late", "version": 1})).await.0,
        404
    );
    assert_eq!(client.delete(&path).await.0, 404);
    let (status, told) = client
        .post("/api/consoles", json!({"id": query, "title": "Again"}))
        .await;
    assert_eq!((status.as_u16(), &told["code"]), (409, &json!("console_id_taken")));
    let body = json!({"message": "more", "conversationId": conversation, "consoles": [{"id": query, "content": "late", "version": 1}]});
    let events = json_of(&client.chat(body).await);
    assert!(errors(&events)[0].contains("no longer exists"), "{events:?}");
    let (_, opened) = client.get(&format!("/api/conversations/{conversation}")).await;
    assert_eq!(opened["attachedConsole"], Value::Null);
    assert_eq!(client.get(&path).await.0, 404);
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
    let told = errors(&events);
    for (told, word) in told
        .iter()
        .zip(["list_data_sources", "list_open_consoles", "title must"])
    {
        assert!(told.contains(word), "{told}");
    }
    assert_eq!(told.len(), 3);
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
