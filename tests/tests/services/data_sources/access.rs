//! Data sources over HTTP and for agents: adding, inspecting, querying, and their authorization.

use rejoin_identity::audit::Actor;
use rejoin_identity::auth;
use rejoin_integrations::data_sources;
use rejoin_integrations::key_rotation;
use rejoin_secrets::MasterKeys;
use rejoin_secrets::keys::generate;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::Client;
use rejoin_tests::mcp::SECRET_KEYS;
use rejoin_tests::model_server::Reply;
use rejoin_tests::sources;
use rejoin_tests::support::wait_for;
use rejoin_types::access::Scope;
use reqwest::StatusCode;
use serde_json::{Value, json};

async fn app(workers: usize) -> TestApp {
    TestApp::with(AppOptions {
        workers,
        api: |config| {
            config.sources = sources::args();
            config.secret_keys.secret_keys_file = Some(sources::secret_keys_file().into());
        },
        worker: sources::allow,
        ..AppOptions::default()
    })
    .await
}

fn path(app: &TestApp) -> String {
    format!("/api/projects/{}/data-sources", app.db.workspace_id)
}

async fn add(app: &TestApp) -> (String, Value) {
    let settings = sources::postgresql(&app.db).await;
    let body = json!({"name": "shop", "kind": "postgresql", "settings": settings, "secret": "canary-5150"});
    let (status, added) = app.client().post(&path(app), body).await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    (format!("{}/{}", path(app), added["id"].as_str().unwrap()), added)
}

#[tokio::test]
async fn a_source_is_tried_before_saving_and_hides_its_password() {
    let app = app(0).await;
    let client = app.client();
    let nowhere = json!({"name": "nowhere", "kind": "postgresql", "secret": "canary-5150",
        "settings": {"host": "127.0.0.1", "port": 1, "database": "x", "user": "x", "tls": false}});
    let (status, problem) = client.post(&path(&app), nowhere.clone()).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("data_source_does_not_answer")),
        "{problem}"
    );
    let (status, saved) = client.post(&format!("{}?force=true", path(&app)), nowhere).await;
    assert_eq!(
        (status, saved["failure"].is_string()),
        (StatusCode::CREATED, true),
        "{saved}"
    );

    let (source, added) = add(&app).await;
    assert_eq!((&added["hasSecret"], &added["readOnly"]), (&json!(true), &json!(true)));
    assert_eq!((added["testedAt"].is_string(), &added["failure"]), (true, &Value::Null));
    for (_, shown) in [client.get(&path(&app)).await, client.get(&source).await] {
        assert!(!shown.to_string().contains("canary-5150"), "{shown}");
    }
    let stored: Vec<String> =
        sqlx::query_scalar("select s::text from kb.data_sources s union all select e::text from audit.entries e")
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    assert!(stored.iter().all(|row| !row.contains("canary-5150")));
    let (status, tested) = client.post(&format!("{source}/test"), json!({})).await;
    assert_eq!(
        (status, &tested["ok"], &tested["warnings"]),
        (StatusCode::OK, &json!(true), &json!([])),
        "{tested}"
    );

    let elsewhere = json!({"settings": {"host": "thief.example", "database": "x", "user": "x"}});
    let (status, problem) = client.patch(&source, elsewhere).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("secret_needed")),
        "{problem}"
    );
    let (status, changed) = client.patch(&source, json!({"limits": {"maxRows": 7}})).await;
    assert_eq!(
        (status, &changed["limits"]),
        (StatusCode::OK, &json!({"maxRows": 7})),
        "{changed}"
    );
    let (status, problem) = client
        .post(&path(&app), json!({"name": "shop", "kind": "postgresql"}))
        .await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_data_source")),
        "{problem}"
    );
    assert_eq!(client.delete(&source).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.get(&source).await.0, StatusCode::NOT_FOUND);
    let acts: Vec<String> =
        sqlx::query_scalar("select action from audit.entries where action like 'data_source.%' order by id")
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    let expected = [
        "data_source.created",
        "data_source.created",
        "data_source.changed",
        "data_source.deleted",
    ];
    assert_eq!(acts, expected);
}

#[tokio::test]
async fn who_may_read_may_look_and_ask_and_no_more() {
    let app = app(0).await;
    let (source, _) = add(&app).await;
    let mut connection = app.db.pool.acquire().await.unwrap();
    let (_, key) = auth::create_key(
        &mut connection,
        app.db.user_id,
        Some(app.db.workspace_id),
        "reader",
        &[Scope::Read],
        None,
    )
    .await
    .unwrap();
    let reader = Client::new(app.url(), &key);
    let (_, databases) = reader.get(&format!("{source}/databases")).await;
    assert!(
        databases["items"].as_array().is_some_and(|names| !names.is_empty()),
        "{databases}"
    );
    let (_, tables) = reader.get(&format!("{source}/tables")).await;
    assert_eq!(tables["items"][0]["name"], "shop.orders", "{tables}");
    let look = format!("{source}/schema?table=shop.orders");
    let (_, first) = reader.get(&look).await;
    assert_eq!(first["schema"]["columns"][0]["name"], "id", "{first}");
    assert_eq!(
        (&first["cached"], &first["schema"]["columns"][0]["primaryKey"]),
        (&json!(false), &json!(true))
    );
    let (_, second) = reader.get(&look).await;
    assert_eq!((&second["cached"], &second["readAt"]), (&json!(true), &first["readAt"]));
    let (_, third) = reader.get(&format!("{look}&refresh=true")).await;
    assert_eq!(third["cached"], json!(false));

    let query = format!("{source}/query");
    let (status, answer) = reader
        .post(&query, json!({"query": "select id, item, 1.50::numeric as price, at is null as empty, '{\"a\": 1}'::jsonb as doc from orders order by id", "maxRows": 2}))
        .await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer["rows"][0], json!([1, "thing 1", "1.50", false, {"a": 1}]));
    assert_eq!(
        (answer["rows"].as_array().unwrap().len(), &answer["truncated"]),
        (2, &json!(true))
    );
    assert!(answer["elapsedMs"].is_u64());
    let (_, all) = reader.post(&query, json!({"query": "select * from orders"})).await;
    assert_eq!(
        (all["rows"].as_array().unwrap().len(), &all["truncated"]),
        (500, &json!(false))
    );
    let (status, plan) = reader
        .post(&format!("{source}/explain"), json!({"query": "select * from orders"}))
        .await;
    assert_eq!(
        (status, plan["plan"][0]["Plan"].is_object()),
        (StatusCode::OK, true),
        "{plan}"
    );
    for (query_text, code) in [
        ("delete from orders", "query_refused"),
        ("select pg_sleep(1)", "query_refused"),
        ("select nothing from nowhere", "query_failed"),
    ] {
        let (status, problem) = reader.post(&query, json!({"query": query_text})).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!(code)),
            "{problem}"
        );
    }
    let (status, _) = reader
        .post(&query, json!({"query": "delete from orders", "write": true}))
        .await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (status, problem) = app
        .client()
        .post(&query, json!({"query": "delete from orders", "write": true}))
        .await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("query_refused"))
    );
    let (status, _) = reader
        .post(
            &path(&app),
            json!({"name": "x", "kind": "sqlite", "settings": {"path": "/x"}}),
        )
        .await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(reader.delete(&source).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_write_to_a_source_drops_what_was_known_of_its_tables() {
    let app = app(0).await;
    let settings = sources::postgresql(&app.db).await;
    let grant = format!(
        "grant all on shop.orders to {0}; grant create on schema shop to {0}",
        settings.user.as_deref().unwrap()
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(grant))
        .execute(&app.db.pool)
        .await
        .unwrap();
    let client = app.client();
    let body = json!({"name": "shop", "kind": "postgresql", "settings": settings, "readOnly": false});
    let (_, added) = client.post(&path(&app), body).await;
    let source = format!("{}/{}", path(&app), added["id"].as_str().unwrap());
    let query = format!("{source}/query");
    let (status, answer) = client
        .post(
            &query,
            json!({"query": "delete from orders where id <= 3 returning id", "write": true}),
        )
        .await;
    assert_eq!(
        (status, &answer["affectedRows"], &answer["rows"]),
        (StatusCode::OK, &json!(3), &json!([[1], [2], [3]])),
        "{answer}"
    );
    let (status, _) = client.post(&query, json!({"query": "delete from orders"})).await;
    assert_eq!(
        status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "without `write` it only reads"
    );
    let (status, problem) = client
        .post(
            &query,
            json!({"query": "delete from orders; delete from orders", "write": true}),
        )
        .await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    let (_, answer) = client
        .post(&query, json!({"query": "select count(*) from orders"}))
        .await;
    assert_eq!(answer["rows"], json!([[497]]));

    let (status, made) = client
        .post(
            &query,
            json!({"query": "create table shop.notes (a int)", "write": true}),
        )
        .await;
    assert_eq!(status, StatusCode::OK, "{made}");
    let look = format!("{source}/schema?table=shop.notes");
    assert_eq!(
        client.get(&look).await.1["schema"]["columns"].as_array().unwrap().len(),
        1
    );
    client
        .post(
            &query,
            json!({"query": "alter table shop.notes add column b int", "write": true}),
        )
        .await;
    let (_, after) = client.get(&look).await;
    assert_eq!(after["schema"]["columns"].as_array().unwrap().len(), 2, "{after}");
}

#[tokio::test]
async fn agents_have_the_tools_that_fit_the_projects_sources() {
    let app = app(1).await;
    let agent = app.agent("analyst", &["*"]).await;
    app.model.script([Reply::text("Nothing to ask.")]);
    app.client().ask(Some(agent), "What is there?").await;
    let given = app.model.requests().last().unwrap().to_string();
    assert!(
        !given.contains("execute_query"),
        "a project without sources has no tools for them"
    );

    add(&app).await;
    app.model.script([
        Reply::tool("list_data_sources", json!({})),
        Reply::tool("list_tables", json!({"databaseId": "shop"})),
        Reply::tool(
            "inspect_table",
            json!({"databaseId": "shop", "tableName": "shop.orders"}),
        ),
        Reply::tool(
            "execute_query",
            json!({"databaseId": "shop", "query": "select count(*) as n from orders", "maxRows": null}),
        ),
        Reply::tool(
            "execute_query",
            json!({"databaseId": "shop", "query": "delete from orders", "maxRows": 5}),
        ),
        Reply::tool(
            "execute_query",
            json!({"databaseId": "nowhere", "query": "select 1", "maxRows": null}),
        ),
        Reply::text("There are 500."),
    ]);
    app.client().ask(Some(agent), "How many orders?").await;
    app.wait_until_idle().await;
    let calls: Vec<(String, String, Option<String>)> = sqlx::query_as(
        "select tool_name, status, coalesce(output::text, error) from kb.agent_run_tool_calls order by created_at, id",
    )
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    let said = |at: usize| calls[at].2.clone().unwrap_or_default();
    assert!(said(0).contains("postgresql"), "{calls:?}");
    assert!(
        said(1).contains("shop.orders") && said(2).contains("primaryKey"),
        "{calls:?}"
    );
    assert!(said(3).contains("500"), "{calls:?}");
    assert!(calls[4].1 == "error" && said(4).contains("read-only"), "{calls:?}");
    assert!(
        calls[5].1 == "error" && said(5).contains("there is no data source nowhere"),
        "{calls:?}"
    );
    let given = app.model.requests().last().unwrap().to_string();
    assert!(!given.contains("inspect_collection") && !given.contains("bq_") && !given.contains("modify_data"));
}

#[tokio::test]
async fn a_cancelled_run_ends_its_query_on_the_server() {
    let app = app(1).await;
    add(&app).await;
    let agent = app.agent("analyst", &["execute_query"]).await;
    let slow = "select count(*) from generate_series(1, 1000000000) a, generate_series(1, 1000) b";
    app.model.script([Reply::tool(
        "execute_query",
        json!({"databaseId": "shop", "query": slow, "maxRows": null}),
    )]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "Count.", "agentDefinitionId": agent}))
        .await;
    let runs = async |wanted: bool| {
        let found: bool = sqlx::query_scalar(
            "select exists (select from pg_stat_activity where application_name = 'rejoin' and state = 'active'
                            and datname = current_database() and query like 'fetch forward%')",
        )
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
        (found == wanted).then_some(())
    };
    wait_for("the query to run", async || runs(true).await).await;
    let run = posted["runId"].as_str().unwrap();
    client.post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    wait_for("the query to be cancelled", async || runs(false).await).await;
    app.wait_until_idle().await;
}

#[tokio::test]
async fn passwords_are_resealed_with_the_other_secrets() {
    let app = app(0).await;
    let (_, added) = add(&app).await;
    let id: uuid::Uuid = added["id"].as_str().unwrap().parse().unwrap();
    let both = MasterKeys::parse(&format!("{},{}", *generate(), SECRET_KEYS.trim())).unwrap();
    assert_eq!(
        rejoin_secrets::under_old_keys(&app.db.pool, &both).await.unwrap().len(),
        1
    );
    let rotated = key_rotation::rotate(&app.db.pool, &both, &Actor::operator())
        .await
        .unwrap();
    assert_eq!((rotated.rewrapped, rotated.failed), (1, 0));
    assert_eq!(rejoin_secrets::under_old_keys(&app.db.pool, &both).await.unwrap(), []);
    let opened = data_sources::open_secret(&app.db.pool, &both, app.db.workspace_id, id)
        .await
        .unwrap();
    assert_eq!(opened.unwrap().expose_text(), Some("canary-5150"));
    let elsewhere = data_sources::open_secret(&app.db.pool, &both, uuid::Uuid::now_v7(), id)
        .await
        .unwrap();
    assert!(elsewhere.is_none(), "of another project there is none");
}
