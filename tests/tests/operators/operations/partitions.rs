//! The table of events, partitioned by the SQL of docs/operations/partitions.md while the product runs.

use rejoin_db::row_security;
use rejoin_event_log::{compaction, log, retention};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::text;
use rejoin_tests::model_server::Reply;
use serde_json::json;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

const PAGE: &str = include_str!("../../../../docs/operations/partitions.md");
/// What becomes of the old table, what no other partition takes, and twelve months.
const PARTITIONS: i64 = 14;

/// The SQL that operators run, in order.
fn blocks() -> Vec<&'static str> {
    let blocks = PAGE.split("```sql\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap_or_default())
        .collect()
}

#[tokio::test]
async fn a_partitioned_table_of_events_serves_the_product() {
    let app = TestApp::start().await;
    app.model.script([Reply::text("before"), Reply::text("after")]);
    let client = app.client();
    let frames = client.ask(None, "one").await;
    app.wait_until_idle().await;
    let id = frames[1].json()["conversationId"].as_str().expect("an id").to_owned();
    let blocks = blocks();
    assert_eq!(blocks.len(), 4);
    // The last one again: it may run each month.
    for block in blocks.iter().chain(blocks.last()) {
        sqlx::raw_sql(AssertSqlSafe(*block))
            .execute(&app.db.pool)
            .await
            .unwrap_or_else(|error| panic!("{block}: {error}"));
    }
    let leaves: i64 = sqlx::query_scalar("select count(*) from pg_partition_tree('stream.events') where isleaf")
        .fetch_one(&app.db.pool)
        .await
        .expect("the partitions");
    assert_eq!(leaves, PARTITIONS);
    let mut connection = app.db.pool.acquire().await.expect("a connection");
    assert_eq!(row_security::lacking(&mut connection).await.expect("an answer"), None);
    drop(connection);

    // The conversation goes on, and is read from its beginning.
    let more = client.chat(json!({"message": "two", "conversationId": id})).await;
    assert_eq!(text(&more), "after");
    app.wait_until_idle().await;
    let log_id: Uuid = id.parse().expect("an id");
    let events = log::read(&app.db.db.pool_pg, log_id, 0).await.expect("a page");
    let seqs: Vec<i64> = events.iter().map(|event| event.seq).collect();
    let last = i64::try_from(seqs.len()).expect("small");
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>());
    assert_eq!(more.last().expect("a frame").id, Some(last));
    assert_eq!(
        compaction::compact(&app.db.pool, 0.0).await.expect("compaction").runs,
        2
    );
    assert_eq!(log::read(&app.db.db.pool_pg, log_id, 0).await.expect("a page"), events);

    // A log of a later month has another partition.
    let later: Uuid = sqlx::query_scalar(
        "insert into stream.logs (log_id)
         values ((lpad(to_hex((extract(epoch from now() + interval '45 days') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid)
         returning log_id",
    )
    .fetch_one(&app.db.pool)
    .await
    .expect("a log");
    sqlx::query("select stream.append($1, null, array['a', 'b'], array['{}', '{}'])")
        .bind(later)
        .execute(&app.db.pool)
        .await
        .expect("an append");
    assert_eq!(log::read(&app.db.db.pool_pg, later, 0).await.expect("a page").len(), 2);
    let partition: String =
        sqlx::query_scalar("select tableoid::regclass::text from stream.events where log_id = $1 limit 1")
            .bind(later)
            .fetch_one(&app.db.pool)
            .await
            .expect("a row");
    assert!(partition.starts_with("stream.events_2"), "{partition}");

    while retention::trim(&app.db.pool, 0.0).await.expect("retention").more {}
    let left: i64 = sqlx::query_scalar("select count(*) from stream.events where log_id = $1")
        .bind(log_id)
        .fetch_one(&app.db.pool)
        .await
        .expect("a count");
    assert_eq!(left, 0);
}
