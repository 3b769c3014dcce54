//! Every tool of the database specialists, called by an agent: MongoDB and BigQuery over fakes, and one query joining
//! both.

use rejoin_data_sources::source::Access;
use rejoin_data_sources::{Ask, Sources};
use rejoin_integrations::data_sources::{Kind, Settings};
use rejoin_runs::agents;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::model_server::Reply;
use rejoin_tests::sources::{self, StandIn};
use serde_json::{Value, json};
use uuid::Uuid;

async fn app() -> TestApp {
    TestApp::with(AppOptions {
        api: |config| config.sources = sources::args(),
        worker: sources::allow,
        ..AppOptions::default()
    })
    .await
}

/// A fake MongoDB with three orders, as the project's source `crm`.
async fn mongodb(app: &TestApp) -> Option<StandIn> {
    let server = StandIn::mongodb().await?;
    let settings = Settings {
        host: Some("127.0.0.1".to_owned()),
        port: Some(server.port),
        database: Some("crm".to_owned()),
        tls: Some(false),
        accepts_writer: Some(true),
        ..Settings::default()
    };
    let mut content = sources::content(Kind::Mongodb, settings.clone());
    content.read_only = false;
    let insert =
        "db.people.insertMany([{_id: 1, id: 1, name: 'Ann', by: {city: 'Lyon'}}, {_id: 2, id: 2, name: 'Bob'}])";
    let write = Ask {
        access: Access::Writes,
        ..Ask::reading(None, insert)
    };
    let writable = Sources::new(&sources::args(), None)
        .opened(Uuid::now_v7(), &content, None)
        .unwrap();
    writable.query(write).await.unwrap();
    add(app, json!({"name": "crm", "kind": "mongodb", "settings": settings})).await;
    Some(server)
}

/// A fake BigQuery with three orders, as the project's source `warehouse`.
async fn bigquery(app: &TestApp) -> Option<StandIn> {
    let server = StandIn::bigquery().await?;
    server.bigquery_orders(&[(1, 5), (1, 7), (2, 11)]).await;
    let settings =
        json!({"cloudProject": "acme", "database": "shop", "endpoint": format!("http://127.0.0.1:{}", server.port)});
    add(
        app,
        json!({"name": "warehouse", "kind": "bigquery", "settings": settings}),
    )
    .await;
    Some(server)
}

async fn add(app: &TestApp, body: Value) {
    let path = format!("/api/projects/{}/data-sources", app.db.workspace_id);
    let (status, added) = app.client().post(&path, body).await;
    assert_eq!(status, 201, "{added}");
}

/// Returns the results of tools called by a specialist in sequence. It has exactly its own tools.
async fn called(app: &TestApp, specialist: &str, calls: Vec<(&str, Value)>) -> Vec<Value> {
    let content = agents::specialists()
        .into_iter()
        .find(|agent| agent.name == specialist)
        .unwrap();
    let tools: Vec<&str> = content.tools.iter().map(String::as_str).collect();
    let agent = app.agent(specialist, &tools).await;
    let replies = calls
        .iter()
        .map(|(name, arguments)| Reply::tool(name, arguments.clone()));
    app.model.script(replies.chain([Reply::text("That is all.")]));
    app.client().ask(Some(agent), "Look around.").await;
    app.wait_until_idle().await;
    let rows: Vec<(String, String, Option<Value>, Option<String>)> =
        sqlx::query_as("select tool_name, status, output, error from kb.agent_run_tool_calls order by created_at, id")
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    let names: Vec<&str> = rows.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, calls.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let answer = |(name, status, output, error): (String, String, Option<Value>, Option<String>)| {
        assert_eq!(error, None, "{name} is {status}");
        output.unwrap()
    };
    rows.into_iter().map(answer).collect()
}

/// Requirements: D02.
#[tokio::test]
async fn mongodbs_specialist_calls_each_of_its_tools() {
    let app = app().await;
    let Some(_server) = mongodb(&app).await else { return };
    let answers = called(
        &app,
        "mongodb-analyst",
        vec![
            ("list_data_sources", json!({})),
            ("list_databases", json!({})),
            ("list_collections", json!({"databaseId": "crm"})),
            ("inspect_collection", json!({"databaseId": "crm", "collectionName": "people"})),
            (
                "execute_query",
                json!({"databaseId": "crm", "query": "db.people.find({}, {_id: 0, name: 1}).sort({name: 1})", "maxRows": null}),
            ),
        ],
    )
    .await;
    assert_eq!(answers[0]["dataSources"][0]["kind"], "mongodb", "{answers:#?}");
    let ids: Vec<&Value> = answers[1]["databases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["databaseId"])
        .collect();
    assert!(ids.contains(&&json!("crm/crm")), "{ids:?}");
    assert_eq!(answers[2]["tables"], json!([{"name": "people", "kind": "collection"}]));
    let columns = answers[3]["columns"].as_array().unwrap();
    let names: Vec<&Value> = columns.iter().map(|column| &column["name"]).collect();
    assert!(
        names.contains(&&json!("by.city")) && names.contains(&&json!("name")),
        "{names:?}"
    );
    assert_eq!(answers[3]["documentsRead"], json!(2));
    assert_eq!(
        (&answers[4]["rows"], &answers[4]["truncated"]),
        (&json!([["Ann"], ["Bob"]]), &json!(false))
    );
}

/// Requirements: D02.
#[tokio::test]
async fn bigquerys_specialist_calls_its_tools_and_sees_query_costs() {
    let app = app().await;
    let Some(_server) = bigquery(&app).await else { return };
    let answers = called(
        &app,
        "bigquery-analyst",
        vec![
            ("list_data_sources", json!({})),
            ("bq_list_datasets", json!({"databaseId": "warehouse"})),
            ("bq_list_tables", json!({"databaseId": "warehouse", "datasetId": "shop"})),
            (
                "bq_inspect_table",
                json!({"databaseId": "warehouse", "datasetId": "shop", "tableId": "orders"}),
            ),
            (
                "explain_query",
                json!({"databaseId": "warehouse", "query": "select customer from shop.orders"}),
            ),
            (
                "bq_execute_query",
                json!({"databaseId": "warehouse", "query": "select customer, sum(total) as total from shop.orders group by 1 order by 1", "maxRows": null}),
            ),
        ],
    )
    .await;
    assert_eq!(answers[0]["dataSources"][0]["kind"], "bigquery", "{answers:#?}");
    assert_eq!(
        answers[1]["databases"],
        json!([{"databaseId": "warehouse/shop", "name": "shop", "source": "warehouse", "kind": "bigquery"}])
    );
    assert_eq!(answers[2]["tables"], json!([{"name": "orders", "kind": "table"}]));
    let columns = answers[3]["columns"].as_array().unwrap();
    let names: Vec<&Value> = columns.iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["customer", "total"]);
    assert!(answers[4]["bytesProcessed"].is_u64(), "{}", answers[4]);
    assert_eq!(answers[5]["rows"], json!([[1, 12], [2, 11]]));
}

/// Requirements: D52.
#[tokio::test]
async fn one_question_is_answered_from_mongodb_and_bigquery() {
    let app = app().await;
    let (Some(_people), Some(_orders)) = (mongodb(&app).await, bigquery(&app).await) else {
        return;
    };
    let answers = called(
        &app,
        "bigquery-analyst",
        vec![(
            "join_query_results",
            json!({
                "queries": [
                    {"name": "people", "databaseId": "crm", "query": "db.people.find({}, {_id: 0, id: 1, name: 1})"},
                    {"name": "orders", "databaseId": "warehouse", "query": "select customer, sum(total) as total from shop.orders group by 1"},
                ],
                "sql": "select p.name, o.total from people p join orders o on o.customer = p.id order by 1",
                "maxRows": null,
            }),
        )],
    )
    .await;
    assert_eq!(answers[0]["rows"], json!([["Ann", 12], ["Bob", 11]]), "{}", answers[0]);
    assert_eq!(answers[0]["partial"], json!(false));
}

/// OpenAI's `strict` would limit a schema's keywords to a subset of JSON Schema. It is off for each tool, on the wire.
/// Requirements: D25, D27.
#[tokio::test]
async fn every_tool_requires_all_parameters_and_none_is_strict() {
    let app = TestApp::with(AppOptions {
        api: |config| config.sources = sources::args(),
        worker: sources::allow,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    assert_eq!(client.post("/api/onto/install", json!({})).await.0, 204);
    let web = format!("/api/admin/projects/{}/web", app.db.workspace_id);
    let (status, on) = client
        .put(
            &web,
            json!({"visit": true, "provider": "searxng", "baseUrl": "https://search.example"}),
        )
        .await;
    assert_eq!(status, 200, "{on}");
    for (name, kind) in [("shop", "postgresql"), ("crm", "mongodb"), ("warehouse", "bigquery")] {
        sqlx::query("insert into kb.data_sources (id, project_id, name, kind, settings, read_only) values ($1, $2, $3, $4, '{}', false)")
            .bind(Uuid::now_v7())
            .bind(app.db.workspace_id)
            .bind(name)
            .bind(kind)
            .execute(&app.db.pool)
            .await
            .unwrap();
    }
    let agent = app
        .agent(
            "everything",
            &[
                "*",
                "spawn_agents",
                "list_available_agents",
                "create_tasks",
                "ask_user",
                "transfer_to_*",
                "agent_*",
            ],
        )
        .await;
    app.model.script([Reply::text("Nothing to do.")]);
    client.ask(Some(agent), "What is there?").await;
    let request = app.model.requests().pop().unwrap();
    let tools = request["tools"].as_array().unwrap();
    let mut names = Vec::new();
    for tool in tools {
        let function = &tool["function"];
        let name = function["name"].as_str().unwrap();
        names.push(name);
        assert_eq!(tool["type"], "function");
        assert_eq!(function["strict"], json!(false), "{name}");
        let schema = &function["parameters"];
        assert_eq!(schema.get("strict"), None, "{name}");
        let mut properties: Vec<&str> = schema["properties"]
            .as_object()
            .map(|all| all.keys().map(String::as_str).collect())
            .unwrap_or_default();
        let mut required: Vec<&str> = schema["required"]
            .as_array()
            .map(|all| all.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        properties.sort_unstable();
        required.sort_unstable();
        assert_eq!(properties, required, "{name}");
    }
    for kind in [
        "search_entities",
        "modify_console",
        "execute_query",
        "inspect_table",
        "inspect_collection",
        "bq_execute_query",
        "modify_data",
        "run_console",
        "web_search",
        "web_visit",
        "create_onto_project",
        "list_calendar_events",
        "spawn_agents",
        "create_tasks",
        "ask_user",
    ] {
        assert!(names.contains(&kind), "{kind} is not among {names:?}");
    }
    assert!(names.len() >= 100, "{} tools", names.len());
}
