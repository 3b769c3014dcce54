//! Specialists at work, from the message to the explanation: an agent is chosen, looks at the schema, writes into the user's console, runs it
//! there, and explains (requirement D03).

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use serde_json::{Value, json};
use uuid::Uuid;

/// A shop with three orders, as a file that both processes may open.
async fn shop(app: &TestApp) -> Uuid {
    let path = std::env::temp_dir().join(format!("rejoin-shop-{}.db", Uuid::now_v7()));
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "create table orders (id integer primary key, total real); insert into orders (total) values (3), (7), (11);",
    )
    .unwrap();
    let body = json!({"name": "shop", "kind": "sqlite", "settings": {"path": path}});
    let (status, made) = app
        .client()
        .post(&format!("/api/projects/{}/data-sources", app.db.project_id), body)
        .await;
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn d01_d03_d06_d14_a_specialist_writes_into_the_users_console_runs_it_and_explains() {
    let app = TestApp::with(AppOptions {
        api: |config| config.sources.source_folders = vec![std::env::temp_dir()],
        worker: |config| config.sources.source_folders = vec![std::env::temp_dir()],
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let source = shop(&app).await;
    let install = format!(
        "/api/admin/projects/{}/install-default-agents?set=databases",
        app.db.project_id
    );
    assert_eq!(client.post(&install, json!({})).await.0, 200);
    sqlx::query("update kb.agent_definitions set model = '{\"name\": \"openai:scripted\"}'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let routing = format!("/api/admin/projects/{}/routing", app.db.project_id);
    assert_eq!(client.put(&routing, json!({"percent": 100})).await.0, 200);
    let console = json!({"title": "Orders", "content": "-- dear ones", "dataSourceId": source, "kind": "sqlite"});
    let (status, console) = client.post("/api/consoles", console).await;
    assert_eq!(status, 201, "{console}");

    app.model.script([
        Reply::tool("inspect_table", json!({"databaseId": "shop", "tableName": "orders"})),
        Reply::tool(
            "modify_console",
            json!({"action": "append", "content": "select id, total from orders where total > 5 order by id"}),
        ),
        Reply::tool("run_console", json!({"consoleId": null, "maxRows": null})),
        Reply::text("Two orders are dear: 2 and 3."),
    ]);
    let attached =
        json!({"id": console["id"], "title": "Orders", "content": console["content"], "databaseType": "sqlite"});
    let body = json!({"message": "which ones are dear?", "consoles": [attached], "consoleId": console["id"]});
    let frames = client.chat(body).await;
    let events = json_of(&frames);
    assert_eq!(of_kind(&events, "meta")[0]["agent"], "sql-analyst");
    assert_eq!(of_kind(&events, "telemetry")[0]["data"]["reason"], "console_database");
    let calls = of_kind(&events, "mcp_tool");
    let ended: Vec<&Value> = calls.into_iter().filter(|event| event["status"] != "started").collect();
    for end in &ended {
        assert_eq!(end["status"], "completed", "{end}");
    }
    let columns = ended[0]["result"]["columns"].to_string();
    assert!(columns.contains("total"), "{columns}");
    assert_eq!(ended[2]["result"]["rows"], json!([[2, 7.0], [3, 11.0]]));
    assert_eq!(of_kind(&events, "console_modification").len(), 1);
    assert_eq!(text(&frames), "Two orders are dear: 2 and 3.");
    let (_, now) = client
        .get(&format!("/api/consoles/{}", console["id"].as_str().unwrap()))
        .await;
    assert_eq!(
        now["content"],
        "-- dear ones\nselect id, total from orders where total > 5 order by id"
    );
    assert_eq!(now["metadata"]["lastQuery"], now["content"]);
    // What the model read is what the source said.
    let requests = app.model.requests();
    let last = sent(requests.last().unwrap());
    assert!(last.last().unwrap().1.contains("7.0"), "{last:?}");

    // What writes does not pass, whoever asks.
    app.model.script([
        Reply::tool(
            "modify_console",
            json!({"action": "replace", "content": "delete from orders"}),
        ),
        Reply::tool("run_console", json!({"consoleId": null})),
        Reply::text("It only reads."),
    ]);
    let conversation = &events[1]["conversationId"];
    let frames = client
        .chat(json!({"message": "remove them", "conversationId": conversation}))
        .await;
    let events = json_of(&frames);
    let calls = of_kind(&events, "mcp_tool").into_iter();
    let errors: Vec<&str> = calls.filter_map(|event| event["error"].as_str()).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let path = format!("/api/projects/{}/data-sources/{source}/query", app.db.project_id);
    let (_, left) = client
        .post(&path, json!({"query": "select count(*) from orders"}))
        .await;
    assert_eq!(left["rows"], json!([[3]]));
}
