//! Database specialists end to end: an agent is chosen, reads the schema, writes into the user's console, runs it
//! there, and explains (requirement D03).

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::sources::{self, Folder};
use serde_json::{Value, json};
use uuid::Uuid;

/// A shop with three orders, as a file accessible to both processes.
async fn shop(app: &TestApp) -> (Uuid, Folder) {
    let folder = Folder::of(app.db.workspace_id);
    let path = folder.0.join("shop.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "create table orders (id integer primary key, total real); insert into orders (total) values (3), (7), (11);",
    )
    .unwrap();
    let body = json!({"name": "shop", "kind": "sqlite", "settings": {"path": path}});
    let (status, made) = app
        .client()
        .post(&format!("/api/projects/{}/data-sources", app.db.workspace_id), body)
        .await;
    assert_eq!(status, 201, "{made}");
    (made["id"].as_str().unwrap().parse().unwrap(), folder)
}

/// The specialists, with the scripted model, over the shop; returns the ids of the querying one, and of the shop.
async fn specialist(app: &TestApp) -> (Uuid, Uuid, Folder) {
    let (source, folder) = shop(app).await;
    let install = format!(
        "/api/admin/projects/{}/install-default-agents?set=databases",
        app.db.workspace_id
    );
    assert_eq!(app.client().post(&install, json!({})).await.0, 200);
    sqlx::query("update kb.agent_definitions set model = '{\"name\": \"openai:scripted\"}'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let agent = sqlx::query_scalar("select id from kb.agent_definitions where name = 'sql-analyst'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    (agent, source, folder)
}

/// Requirements: D52.
#[tokio::test]
async fn past_queries_are_listed_and_others_see_only_their_patterns() {
    let app = TestApp::with(AppOptions {
        api: |config| config.sources = sources::args(),
        worker: |config| config.sources = sources::args(),
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let (agent, source, _folder) = specialist(&app).await;
    let ask = |query: &str| {
        Reply::tool(
            "execute_query",
            json!({"databaseId": "shop", "query": query, "maxRows": null}),
        )
    };
    let query = "select id, total from orders where total > 5 -- for Ann\norder by id";
    let pattern = "select id, total from orders where total > ? order by id";
    // A look around, a failing query, and the successful one.
    app.model.script([
        ask("select * from orders limit 1"),
        ask("select cost from orders"),
        ask(query),
        Reply::text("Two."),
    ]);
    let events = json_of(&client.ask(Some(agent), "Which orders of Ann are dear?").await);
    let conversation = events[1]["conversationId"].as_str().unwrap().to_owned();
    let path = format!("/api/projects/{}/query-patterns", app.db.workspace_id);
    let (status, learned) = client.get(&path).await;
    assert_eq!(status, 200, "{learned}");
    let items = learned["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{learned}");
    let one = &items[0];
    assert_eq!(
        (
            &one["asked"],
            &one["query"],
            &one["pattern"],
            &one["times"],
            &one["dataSourceId"],
            &one["conversationId"]
        ),
        (
            &json!("Which orders of Ann are dear?"),
            &json!(query),
            &json!(pattern),
            &json!(1),
            &json!(source),
            &json!(conversation)
        )
    );

    let prompt_of = async |client: &Client, message: &str| {
        app.model.script([Reply::text("Well.")]);
        let events = json_of(&client.ask(Some(agent), message).await);
        assert_eq!(events.last().unwrap()["status"], "completed");
        let requests = app.model.requests();
        sent(requests.last().unwrap())[0].1.clone()
    };
    let reply = prompt_of(&client, "the dear orders of today, please").await;
    let example = format!("- shop (sqlite), asked \"Which orders of Ann are dear?\":\n```\n{query}\n```");
    assert!(reply.contains(&example), "{reply}");
    let reply = prompt_of(&client, "hello").await;
    assert!(!reply.contains("select id"), "nothing in common: {reply}");
    // Another member's agent gets the pattern, and nothing of Ann's.
    let (_, key) = app.db.another_user().await;
    let other = Client::new(app.url(), &key);
    let reply = prompt_of(&other, "how many orders are there?").await;
    let shared = format!("- shop (sqlite), from other users; ? stands for values:\n```\n{pattern}\n```");
    assert!(reply.contains(&shared), "{reply}");
    assert!(!reply.contains("Ann") && !reply.contains("> 5"), "{reply}");
    assert_eq!(other.get(&path).await.1["items"], json!([]));
    let own = format!("{path}/{}", one["id"].as_str().unwrap());
    assert_eq!(other.delete(&own).await.0, 404);

    // Unhelpful queries are no longer shown, to anyone.
    let answer = of_kind(&events, "message")[1]["message"]["id"].as_str().unwrap();
    let feedback = format!("/api/messages/{answer}/feedback");
    assert_eq!(client.put(&feedback, json!({"helped": false})).await.0, 204);
    for client in [&client, &other] {
        let reply = prompt_of(client, "the dear orders again").await;
        assert!(!reply.contains("select id"), "{reply}");
    }
    assert_eq!(client.put(&feedback, json!({"helped": true})).await.0, 204);
    // Asked and answered again, in another run: counted, with the newest question.
    app.model.script([
        ask("select id, total from orders where total > 9 order by id"),
        Reply::text("One."),
    ]);
    client.ask(Some(agent), "And the dearest orders?").await;
    let (_, learned) = client.get(&path).await;
    assert_eq!(learned["items"].as_array().unwrap().len(), 1, "{learned}");
    assert_eq!(
        (&learned["items"][0]["times"], &learned["items"][0]["asked"]),
        (&json!(2), &json!("And the dearest orders?"))
    );
    // Deleted, by itself or with its conversation.
    assert_eq!(client.delete(&own).await.0, 204);
    assert_eq!(client.delete(&own).await.0, 404);
    app.model
        .script([ask("select count(*) from orders"), Reply::text("Three.")]);
    let events = json_of(&client.ask(Some(agent), "How many orders?").await);
    let conversation = events[1]["conversationId"].as_str().unwrap();
    assert_eq!(
        client.get(&path).await.1["items"][0]["pattern"],
        "select count(*) from orders"
    );
    app.wait_until_idle().await;
    assert_eq!(
        client.delete(&format!("/api/conversations/{conversation}")).await.0,
        204
    );
    assert_eq!(client.get(&path).await.1["items"], json!([]));
}

/// Requirements: D52.
#[tokio::test]
async fn no_more_queries_are_remembered_than_the_operator_allows() {
    let app = TestApp::with(AppOptions {
        api: |config| config.sources = sources::args(),
        worker: |config| {
            config.sources = sources::args();
            config.sources.source_patterns = 2;
        },
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let (agent, _, _folder) = specialist(&app).await;
    for column in ["id", "total", "id, total"] {
        let query = format!("select {column} from orders");
        app.model.script([
            Reply::tool(
                "execute_query",
                json!({"databaseId": "shop", "query": query, "maxRows": null}),
            ),
            Reply::text("There."),
        ]);
        client.ask(Some(agent), "show the orders").await;
    }
    let path = format!("/api/projects/{}/query-patterns", app.db.workspace_id);
    let (_, learned) = client.get(&path).await;
    let queries: Vec<&Value> = learned["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["query"])
        .collect();
    assert_eq!(queries, ["select id, total from orders", "select total from orders"]);
}

/// Requirements: D01, D03, D06, D14.
#[tokio::test]
async fn a_specialist_writes_runs_and_explains_a_query() {
    let app = TestApp::with(AppOptions {
        api: |config| config.sources = sources::args(),
        worker: |config| {
            config.sources = sources::args();
            config.debug_agent_context = true;
        },
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let (_, source, _folder) = specialist(&app).await;
    let routing = format!("/api/admin/projects/{}/routing", app.db.workspace_id);
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
    let known = &now["metadata"];
    assert_eq!(
        (
            &known["lastQuery"],
            &known["databaseId"],
            &known["databaseType"],
            &known["databaseName"]
        ),
        (&now["content"], &json!(source), &json!("sqlite"), &json!("shop"))
    );
    assert_eq!(known["connectionDetails"], json!({ "database": null }));
    // A schema read by the agent is cached for the next one: as the tool returned it, with its time.
    let cached = &known["cachedSchema"];
    assert_eq!(cached["timestamp"], ended[0]["result"]["readAt"], "{cached}");
    assert_eq!(
        cached["schema"]["orders"]["columns"], ended[0]["result"]["columns"],
        "{cached}"
    );
    // The model got the source's result.
    let requests = app.model.requests();
    let last = sent(requests.last().unwrap());
    assert!(last.last().unwrap().1.contains("7.0"), "{last:?}");

    // Writing is refused, for any caller.
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
    let path = format!("/api/projects/{}/data-sources/{source}/query", app.db.workspace_id);
    let (_, left) = client
        .post(&path, json!({"query": "select count(*) from orders"}))
        .await;
    assert_eq!(left["rows"], json!([[3]]));
}
