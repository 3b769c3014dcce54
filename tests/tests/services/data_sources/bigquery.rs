//! BigQuery with a service account, over a strict fake: the token assertion, job locations, pages, and cancellation of
//! abandoned jobs.

use rejoin_data_sources::{Ask, Opened, SourceArgs, SourceError, Sources};
use rejoin_integrations::data_sources::{Content, Kind, Settings};
use rejoin_secrets::Plaintext;
use rejoin_tests::bigquery::{BigQuery, LOCATION, ORDERS, PROJECT};
use rejoin_tests::sources;
use rejoin_tests::support::wait_for;
use serde_json::json;
use uuid::Uuid;

fn content(server: &BigQuery, location: Option<&str>) -> Content {
    let settings = Settings {
        cloud_project: Some(PROJECT.to_owned()),
        database: Some("shop".to_owned()),
        endpoint: Some(server.url.clone()),
        location: location.map(str::to_owned),
        ..Settings::default()
    };
    sources::content(Kind::Bigquery, settings)
}

fn opened(server: &BigQuery, account: &str, location: Option<&str>) -> Opened {
    let args = SourceArgs {
        source_google_token_url: server.token_url(),
        source_max_rows: 100_000,
        ..sources::args()
    };
    let secret = Plaintext::new(account.as_bytes().to_vec());
    Sources::new(&args, None)
        .opened(Uuid::now_v7(), &content(server, location), Some(secret))
        .unwrap()
}

#[tokio::test]
async fn a_service_account_gets_one_token_by_a_valid_jwt() {
    let server = BigQuery::start().await;
    let opened = opened(&server, &server.account(), None);
    let tested = opened.test().await.unwrap();
    assert_eq!((tested.server.as_str(), tested.warnings.len()), ("BigQuery, acme", 0));
    let datasets = opened.databases().await.unwrap();
    assert_eq!(
        (datasets.len(), datasets[0].as_str()),
        (1_005, "shop"),
        "both pages of the list"
    );
    assert_eq!(opened.tables(None).await.unwrap()[0].name, "orders");
    let schema = opened.schema(None, "orders").await.unwrap();
    assert_eq!(
        (&schema["rows"], &schema["bytes"], &schema["partitionedBy"]),
        (&json!(ORDERS), &json!(60_000), &json!("day"))
    );
    let claims = server.claims();
    assert_eq!(claims.len(), 1, "one token serves all of them");
    let lifetime = claims[0]["exp"].as_u64().unwrap() - claims[0]["iat"].as_u64().unwrap();
    assert_eq!(lifetime, 3_600);
    assert_eq!(server.refused(), Vec::<String>::new());
}

#[tokio::test]
async fn a_refused_account_is_reported_and_sends_nothing_unauthorized() {
    let server = BigQuery::start().await;
    let refused = opened(&server, &server.foreign_account(), None)
        .test()
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("Invalid JWT Signature."), "{refused}");
    for account in ["", "{}", "no JSON", r#"{"client_email": "a", "private_key": "b"}"#] {
        let refused = opened(&server, account, None).test().await.unwrap_err();
        assert!(
            matches!(&refused, SourceError::Refused(said) if said.contains("not a service account key")),
            "{account}: {refused:?}"
        );
    }
    assert_eq!(server.claims(), Vec::<serde_json::Value>::new());
    assert_eq!(server.refused(), ["Invalid JWT Signature."]);
}

#[tokio::test]
async fn a_jobs_pages_are_read_at_its_location_named_or_not() {
    for location in [Some(LOCATION), None] {
        let server = BigQuery::start().await;
        let opened = opened(&server, &server.account(), location);
        let answer = opened
            .query(Ask::reading(None, "select id, customer from orders"))
            .await
            .unwrap();
        assert_eq!((answer.rows.rows.len(), answer.rows.truncated), (ORDERS, false));
        assert_eq!(answer.rows.rows[0], [json!(1), json!("c1")]);
        assert_eq!(answer.rows.rows[ORDERS - 1], [json!(ORDERS), json!("c1")]);
        assert_eq!(answer.rows.bytes_billed, Some(60_000));
        assert_eq!(server.pages(), 3);
        let some = Ask {
            max_rows: Some(10),
            ..Ask::reading(None, "select id from orders")
        };
        let answer = opened.query(some).await.unwrap();
        assert_eq!((answer.rows.rows.len(), answer.rows.truncated), (10, true));
        assert_eq!(server.pages(), 4, "no more is fetched than is shown");
        assert_eq!(server.refused(), Vec::<String>::new(), "{location:?}");
        assert_eq!(server.cancelled(), 0);
    }
    let server = BigQuery::start().await;
    let elsewhere = opened(&server, &server.account(), Some("us-east1"));
    let refused = elsewhere
        .query(Ask::reading(None, "select id from orders"))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("was not found in this location"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_abandoned_job_is_cancelled_where_it_runs() {
    for location in [Some(LOCATION), None] {
        let server = BigQuery::start().await;
        let opened = opened(&server, &server.account(), location);
        let asking = tokio::spawn(async move { opened.query(Ask::reading(None, "select slow from orders")).await });
        wait_for("the job to run", async || (server.running() == 1).then_some(())).await;
        asking.abort();
        wait_for("the job to be cancelled", async || {
            (server.cancelled() == 1).then_some(())
        })
        .await;
        assert_eq!((server.running(), server.refused()), (0, Vec::new()), "{location:?}");
    }
}
