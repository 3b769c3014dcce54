//! Data sources whose servers no registry provides, over fakes of their protocols: MongoDB and BigQuery.

use std::time::Duration;

use rejoin_data_sources::source::{Access, Bounds, Question};
use rejoin_data_sources::{Ask, Opened, SourceError, Sources};
use rejoin_integrations::data_sources::{Content, Kind, Settings};
use rejoin_tests::sources::{self, StandIn};
use serde_json::json;
use uuid::Uuid;

fn opened(content: &Content) -> Opened {
    Sources::new(&sources::args(), None)
        .opened(Uuid::now_v7(), content, None)
        .unwrap()
}

#[tokio::test]
async fn mongodb_is_asked_in_its_shells_words_within_bounds() {
    let Some(server) = StandIn::mongodb().await else { return };
    let settings = Settings {
        host: Some("127.0.0.1".to_owned()),
        port: Some(server.port),
        database: Some("shop".to_owned()),
        tls: Some(false),
        ..Settings::default()
    };
    let mut content = sources::content(Kind::Mongodb, settings);
    content.read_only = false;
    let writable = opened(&content);
    let insert = "db.orders.insertMany([{_id: 1, status: 'open', total: 5, by: {name: 'Ann'}}, {_id: 2, status: 'open', total: 7.5}, {_id: 3, status: 'done', total: 1, note: null}])";
    let write = Ask {
        access: Access::Writes,
        ..Ask::reading(None, insert)
    };
    let written = writable.query(write).await.unwrap();
    assert_eq!(written.rows.affected_rows, Some(3));

    content.read_only = true;
    let refused = opened(&content).test().await.unwrap_err();
    assert!(refused.to_string().contains("without a user"), "{refused}");
    content.settings.accepts_writer = Some(true);
    let opened = opened(&content);
    let tested = opened.test().await.unwrap();
    assert!(tested.server.contains("MongoDB"), "{tested:?}");
    assert!(tested.warnings[0].contains("without a user"), "{tested:?}");
    assert!(opened.databases().await.unwrap().contains(&"shop".to_owned()));
    assert_eq!(opened.tables(None).await.unwrap()[0].name, "orders");
    let ask = async |query: &str| opened.query(Ask::reading(None, query)).await;
    let answer = ask("db.orders.find({status: 'open'}, {_id: 0}).sort({total: -1})")
        .await
        .unwrap();
    let names: Vec<&str> = answer.rows.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["status", "total", "by"]);
    assert_eq!(answer.rows.rows[0], [json!("open"), json!(7.5), json!(null)]);
    assert_eq!(answer.rows.rows[1], [json!("open"), json!(5), json!({"name": "Ann"})]);
    let answer = ask("db.orders.aggregate([{$group: {_id: '$status', n: {$sum: 1}}}, {$sort: {_id: 1}}])")
        .await
        .unwrap();
    assert_eq!(answer.rows.rows, [[json!("done"), json!(1)], [json!("open"), json!(2)]]);
    assert_eq!(
        ask("db.orders.countDocuments({status: 'open'})")
            .await
            .unwrap()
            .rows
            .rows,
        [[json!(2)]]
    );
    assert_eq!(ask("db.orders.distinct('status')").await.unwrap().rows.rows.len(), 2);
    let some = Ask {
        max_rows: Some(2),
        ..Ask::reading(None, "db.orders.find({})")
    };
    let answer = opened.query(some).await.unwrap();
    assert_eq!((answer.rows.rows.len(), answer.rows.truncated), (2, true));
    let schema = opened.schema(None, "orders").await.unwrap();
    assert_eq!(
        (&schema["documentsRead"], schema["sample"].as_array().unwrap().len()),
        (&json!(3), 3)
    );
    let field = |name: &str| {
        schema["columns"]
            .as_array()
            .unwrap()
            .iter()
            .find(|field| field["name"] == name)
            .cloned()
    };
    assert_eq!(field("by.name").unwrap()["type"], "string", "{schema}");
    assert_eq!(field("status").unwrap()["nullable"], json!(false));
    assert!(matches!(
        ask("db.orders.deleteMany({})").await,
        Err(SourceError::Refused(_))
    ));
    assert!(matches!(
        opened.schema(None, "nothing").await,
        Err(SourceError::Failed(_))
    ));
}

#[tokio::test]
async fn bigquery_is_tried_without_running_and_then_asked() {
    let Some(server) = StandIn::bigquery().await else {
        return;
    };
    let settings = Settings {
        cloud_project: Some("acme".to_owned()),
        database: Some("shop".to_owned()),
        endpoint: Some(format!("http://127.0.0.1:{}", server.port)),
        ..Settings::default()
    };
    let api = format!("http://127.0.0.1:{}/bigquery/v2/projects/acme/datasets", server.port);
    let http = reqwest::Client::new();
    for (path, body) in [
        (
            String::new(),
            json!({"datasetReference": {"projectId": "acme", "datasetId": "shop"}}),
        ),
        (
            "/shop/tables".to_owned(),
            json!({"tableReference": {"projectId": "acme", "datasetId": "shop", "tableId": "orders"},
                "schema": {"fields": [{"name": "id", "type": "INTEGER", "mode": "REQUIRED"}, {"name": "item", "type": "STRING"}]}}),
        ),
        (
            "/shop/tables/orders/insertAll".to_owned(),
            json!({"rows": [{"json": {"id": 1, "item": "one"}}, {"json": {"id": 2, "item": "two"}}]}),
        ),
    ] {
        let made = http.post(format!("{api}{path}")).json(&body).send().await.unwrap();
        assert!(made.status().is_success(), "{path}: {}", made.text().await.unwrap());
    }
    let opened = opened(&sources::content(Kind::Bigquery, settings));
    assert!(opened.test().await.unwrap().server.contains("acme"));
    assert_eq!(opened.databases().await.unwrap(), ["shop"]);
    assert_eq!(opened.tables(None).await.unwrap()[0].name, "orders");
    let schema = opened.schema(None, "orders").await.unwrap();
    assert_eq!(
        (&schema["columns"][0]["name"], &schema["columns"][0]["nullable"]),
        (&json!("id"), &json!(false))
    );
    let ask = async |query: &str| opened.query(Ask::reading(None, query)).await;
    let answer = ask("select id, item, id > 1 as late, [1, 2] as list from shop.orders order by id")
        .await
        .unwrap();
    assert_eq!(
        answer.rows.rows[0],
        [json!(1), json!("one"), json!(false), json!([1, 2])]
    );
    assert_eq!(answer.rows.rows.len(), 2);
    let plan = opened
        .explain(Ask::reading(None, "select * from shop.orders"))
        .await
        .unwrap();
    assert!(plan["bytesProcessed"].is_u64(), "{plan}");
    assert!(matches!(
        ask("delete from shop.orders where true").await,
        Err(SourceError::Refused(_))
    ));
    let attacks = include_str!("../../../../extensions/data-sources/tests/attacks/bigquery.sql");
    let mut passed = Vec::new();
    for attack in attacks.lines().filter(|line| !line.starts_with('#')) {
        let bounds = Bounds {
            timeout: Duration::from_secs(5),
            max_rows: 100,
            max_bytes: 100_000,
            max_bytes_billed: 1_000_000,
        };
        let question = Question {
            database: None,
            query: attack,
            access: Access::Reads,
            bounds,
        };
        if opened.unguarded().execute(&question).await.is_ok() {
            passed.push(attack);
        }
    }
    assert!(passed.is_empty(), "BigQuery's own word, too: {passed:#?}");
    let wrong = ask("select nothing from shop.orders").await;
    assert!(matches!(wrong, Err(SourceError::Failed(_))), "{wrong:?}");
}
