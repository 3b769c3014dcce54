//! Joins of several data sources: results, truncation notices, and cancellation with the caller.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::Reply;
use rejoin_tests::sources::{self, Folder, MariaDb};
use rejoin_tests::support::wait_for;
use reqwest::StatusCode;
use serde_json::{Value, json};

/// Longer than any test waits, unless cancelled.
const SLOW: &str = "select count(*) from generate_series(1, 1000000000) a, generate_series(1, 1000) b";

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

async fn add(app: &TestApp, body: Value) -> Value {
    let path = format!("/api/projects/{}/data-sources", app.db.workspace_id);
    let (status, added) = app.client().post(&path, body).await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    added
}

/// PostgreSQL with 500 orders, SQLite with the names of 3 items.
async fn shop_and_names(app: &TestApp) -> Folder {
    let settings = sources::postgresql(&app.db).await;
    add(app, json!({"name": "shop", "kind": "postgresql", "settings": settings})).await;
    let folder = Folder::of(app.db.workspace_id);
    let path = folder.0.join("names.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(
            "create table names (id integer primary key, name text, doc text);
             insert into names values (1, 'anvil', '{\"kg\": 40}'), (2, 'rope', null), (900, 'ghost', null)",
        )
        .unwrap();
    add(
        app,
        json!({"name": "names", "kind": "sqlite", "settings": {"path": path}}),
    )
    .await;
    folder
}

async fn join(app: &TestApp, body: Value) -> (StatusCode, Value) {
    let path = format!("/api/projects/{}/data-sources/join", app.db.workspace_id);
    app.client().post(&path, body).await
}

/// Waits until PostgreSQL runs, or no longer runs, a query for this test.
async fn works(app: &TestApp, wanted: bool) -> Option<()> {
    let found: bool = sqlx::query_scalar(
        "select exists (select from pg_stat_activity where application_name = 'rejoin' and state = 'active'
                        and datname = current_database() and query like 'fetch forward%')",
    )
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    (found == wanted).then_some(())
}

/// Requirements: D52.
#[tokio::test]
async fn answers_of_two_databases_are_joined_and_cuts_are_marked() {
    let app = app(0).await;
    let _folder = shop_and_names(&app).await;
    let orders = json!({"name": "orders", "source": "shop", "query": "select id, item, '{\"a\": [1]}'::jsonb as doc, id > 1 as many, 1.5::numeric as price, null::int as blank from orders where id <= 10"});
    let names = json!({"name": "names", "source": "names", "query": "select * from names"});
    let (status, answer) = join(
        &app,
        json!({"queries": [orders, names], "sql": "select n.name, o.item, json_extract(o.doc, '$.a[0]'), o.many, o.price * 2, o.blank, json_extract(n.doc, '$.kg')
                from names n left join orders o on o.id = n.id order by n.id"}),
    )
    .await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(
        answer["rows"],
        json!([
            ["anvil", "thing 1", 1, 0, 3.0, null, 40],
            ["rope", "thing 2", 1, 1, 3.0, null, null],
            ["ghost", null, null, null, null, null, null]
        ])
    );
    assert_eq!((&answer["partial"], &answer["note"]), (&json!(false), &Value::Null));
    let reply = &answer["queries"][0];
    assert_eq!(
        (&reply["name"], &reply["source"], &reply["rows"], &reply["truncated"]),
        (&json!("orders"), &json!("shop"), &json!(10), &json!(false))
    );
    assert_eq!(reply["columns"][4], json!({"name": "price", "type": "numeric"}));

    // Two columns with the same name, one without, and a source with a limit of 1,000 rows.
    let many =
        json!({"name": "many", "source": "shop", "query": "select a.id, b.id, a.id + 1 from orders a, orders b"});
    let names = json!({"name": "names", "source": "names", "query": "select 1 as one"});
    let (status, answer) = join(
        &app,
        json!({"queries": [many, names], "sql": "select count(*), count(id_2), count(\"?column?\") from many, names"}),
    )
    .await;
    assert_eq!(
        (status, &answer["rows"]),
        (StatusCode::OK, &json!([[1000, 1000, 1000]])),
        "{answer}"
    );
    assert_eq!(
        (&answer["partial"], &answer["truncated"]),
        (&json!(true), &json!(false))
    );
    let note = answer["note"].as_str().unwrap();
    assert!(
        note.contains("the first 1000 rows of `many`") && !note.contains("`names`"),
        "{note}"
    );
    let (_, few) = join(
        &app,
        json!({"queries": [many, names], "sql": "select * from many, names", "maxRows": 3}),
    )
    .await;
    assert_eq!(
        (few["rows"].as_array().unwrap().len(), &few["truncated"]),
        (3, &json!(true))
    );
}

/// Requirements: D52.
#[tokio::test]
async fn mariadb_and_postgresql_meet_by_number_whatever_their_types() {
    let Some(server) = MariaDb::start().await else { return };
    let app = app(0).await;
    let _folder = shop_and_names(&app).await;
    add(
        &app,
        json!({"name": "prices", "kind": "mysql", "settings": server.settings()}),
    )
    .await;
    let prices =
        json!({"name": "prices", "source": "prices", "query": "select id, price, at from orders where id <= 2"});
    let orders =
        json!({"name": "orders", "source": "shop", "query": "select id::numeric as id, item from orders where id < 5"});
    let names = json!({"name": "names", "source": "names", "query": "select id, name from names"});
    let (status, answer) = join(
        &app,
        json!({"queries": [prices, orders, names],
               "sql": "select item, name, sum(price), date(max(at)) from prices join orders using (id) join names using (id) group by 1, 2 order by 1"}),
    )
    .await;
    assert_eq!(
        (status, &answer["rows"]),
        (
            StatusCode::OK,
            &json!([
                ["thing 1", "anvil", 0.25, "2026-01-02"],
                ["thing 2", "rope", 0.5, "2026-01-02"]
            ])
        ),
        "{answer}"
    );
}

/// Requirements: D52.
#[tokio::test]
async fn a_bad_join_is_refused_before_sending_with_its_part_named() {
    let app = app(0).await;
    let _folder = shop_and_names(&app).await;
    let query = |name: &str, source: &str, query: &str| json!({"name": name, "source": source, "query": query});
    // If anything else is wrong, it must not start.
    let slow = query("slow", "shop", SLOW);
    let names = query("names", "names", "select * from names");
    let sql = "select * from names";
    let refusals = [
        (
            json!([slow, query("names", "names", "delete from names")]),
            sql,
            "the query `names`: ",
        ),
        (
            json!([slow, query("SLOW", "names", "select 1")]),
            sql,
            "two queries are named SLOW",
        ),
        (
            json!([slow, query("a b", "names", "select 1")]),
            sql,
            "is not a valid query name",
        ),
        (
            json!([slow, query("sqlite_master", "names", "select 1")]),
            sql,
            "reserved by SQLite",
        ),
        (
            json!([slow, query("x", "nowhere", "select 1")]),
            sql,
            "this project has no data source nowhere",
        ),
        (json!([slow]), sql, "2 to 5 queries, not 1"),
        (
            json!([slow, slow, slow, slow, slow, slow]),
            sql,
            "2 to 5 queries, not 6",
        ),
        (json!([slow, names]), "attach database '/tmp/x.db' as x", "`sql`: "),
        (json!([slow, names]), "select load_extension('x')", "`sql`: "),
        (json!([slow, names]), "pragma query_only = off", "`sql`: "),
        (json!([slow, names]), "select 1; select 2", "`sql`: "),
        (
            json!([slow, names]),
            "with x as (delete from names returning 1) select * from x",
            "`sql`: ",
        ),
        (json!([slow, names]), "", "`sql`: the query is empty"),
    ];
    for (queries, sql, said) in refusals {
        let (status, problem) = join(&app, json!({"queries": queries, "sql": sql})).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!("query_refused")),
            "{sql}: {problem}"
        );
        assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
    }
    works(&app, false).await.expect("nothing was sent");

    let one = query("one", "shop", "select 1 as a");
    let (status, problem) = join(&app, json!({"queries": [one, names], "sql": "select b from one"})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("query_failed"))
    );
    assert!(
        problem["detail"].as_str().unwrap().contains("no such column: b"),
        "{problem}"
    );
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    let (status, problem) = join(&app, json!({"queries": [one, names], "sql": endless})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::GATEWAY_TIMEOUT, &json!("query_timed_out")),
        "{problem}"
    );

    // A failing one ends the others, on their servers, too.
    let wrong = query("wrong", "names", "select nothing from nowhere");
    let (status, problem) = join(&app, json!({"queries": [slow, wrong], "sql": "select 1"})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("query_failed"))
    );
    assert!(
        problem["detail"].as_str().unwrap().starts_with("the query `wrong`"),
        "{problem}"
    );
    wait_for("the slow query to be ended", async || works(&app, false).await).await;
    let path = format!("/api/projects/{}/data-sources/join", uuid::Uuid::now_v7());
    let (status, _) = app
        .client()
        .post(&path, json!({"queries": [one, names], "sql": "select 1"}))
        .await;
    assert!(
        status == StatusCode::FORBIDDEN || status == StatusCode::NOT_FOUND,
        "{status}"
    );
}

/// Requirements: D52.
#[tokio::test]
async fn an_agents_join_marks_partial_answers_and_ends_on_cancel() {
    let app = app(1).await;
    let _folder = shop_and_names(&app).await;
    let agent = app.agent("analyst", &["join_query_results"]).await;
    let names = json!({"name": "names", "databaseId": "names/main", "query": "select * from names"});
    let orders = json!({"name": "orders", "databaseId": "shop", "query": "select a.id from orders a, orders b"});
    app.model.script([
        Reply::tool(
            "join_query_results",
            json!({"queries": [orders, names], "sql": "select name, count(*) from orders join names using (id) group by 1 order by 1", "maxRows": null}),
        ),
        Reply::tool(
            "join_query_results",
            json!({"queries": [orders, names], "sql": "drop table names"}),
        ),
        Reply::text("At least so many."),
    ]);
    let events = json_of(&app.client().ask(Some(agent), "How many of each?").await);
    let ends: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter(|event| event["status"] != "started")
        .collect();
    assert_eq!(ends[0]["result"]["partial"], true, "{ends:?}");
    assert!(
        ends[1]["error"]
            .as_str()
            .is_some_and(|error| error.starts_with("`sql`: ")),
        "{ends:?}"
    );
    let given = app.model.requests().last().unwrap().to_string();
    assert!(
        given.contains("This result is partial: only the first 1000 rows of `orders`"),
        "{given}"
    );
    app.wait_until_idle().await;

    let slow = json!({"name": "slow", "databaseId": "shop", "query": SLOW});
    app.model.script([Reply::tool(
        "join_query_results",
        json!({"queries": [slow, names], "sql": "select 1"}),
    )]);
    let posted = app
        .client()
        .post_message(json!({"message": "Count.", "agentDefinitionId": agent}))
        .await;
    wait_for("the query to run", async || works(&app, true).await).await;
    let run = posted["runId"].as_str().unwrap();
    app.client().post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    wait_for("the query to be cancelled", async || works(&app, false).await).await;
    app.wait_until_idle().await;
}
