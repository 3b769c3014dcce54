//! What is moved, and when; and moves that are interrupted or overtaken.

use rejoin_api::{ApiConfig, Server};
use rejoin_archive::moving::{self as archive, Committed};
use rejoin_event_log::compaction;
use rejoin_tests::app::AppOptions;
use rejoin_tests::client::Client;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Archiving, end, read_through};

const ROWS: &str = "select count(*) from stream.events";
const OBJECTS: &str = "select count(*) from stream.archives";
const LEFT: &str = "select count(*) from stream.archive_leftovers";

#[tokio::test]
async fn an_upload_without_a_commit_changes_nothing() {
    let archiving = Archiving::start().await;
    let (id, _) = archiving.conversation().await;
    let last = end(&archiving, id).await;
    let client = archiving.app.client();
    let whole = read_through(&client, id, 0, last).await;
    let rows = archiving.count(ROWS).await;
    // The process dies after the upload.
    let uploaded = archive::upload(
        &archiving.pool,
        &archiving.archive,
        id,
        Some(archiving.app.db.workspace_id),
    )
    .await
    .expect("the store works")
    .expect("the log has rows");
    assert_eq!(archiving.objects().len(), 1);
    assert_eq!((archiving.count(ROWS).await, archiving.count(OBJECTS).await), (rows, 0));
    assert_eq!(read_through(&client, id, 0, last).await, whole);
    // Too early to remove it: it may still be completed.
    assert!(
        !rejoin_archive::leftovers::sweep(&archiving.pool, Some(&archiving.archive))
            .await
            .expect("a sweep")
    );
    assert_eq!(archiving.objects().len(), 1);
    sqlx::query("update stream.archive_leftovers set due_at = now()")
        .execute(&archiving.app.db.pool)
        .await
        .expect("it is due");
    assert!(
        !rejoin_archive::leftovers::sweep(&archiving.pool, Some(&archiving.archive))
            .await
            .expect("a sweep")
    );
    assert_eq!((archiving.objects().len(), archiving.count(LEFT).await), (0, 0));
    // A process that only seemed dead completes nothing without its object.
    assert_eq!(
        uploaded.commit(&archiving.pool).await.expect("an answer"),
        Committed::Changed
    );
    assert_eq!(archiving.count(ROWS).await, rows);
    assert!(archiving.archive_all().await > 0);
    assert_eq!(read_through(&client, id, 0, last).await, whole);
}

#[tokio::test]
async fn rows_that_change_during_an_upload_stay() {
    let archiving = Archiving::start().await;
    let (id, _) = archiving.conversation().await;
    let last = end(&archiving, id).await;
    let client = archiving.app.client();
    let whole = read_through(&client, id, 0, last).await;
    let upload = async || {
        archive::upload(
            &archiving.pool,
            &archiving.archive,
            id,
            Some(archiving.app.db.workspace_id),
        )
        .await
        .expect("the store works")
        .expect("the log has rows")
    };
    let before_change = upload().await;
    sqlx::query("update stream.events set created_at = created_at - interval '1 s' where log_id = $1 and seq = 1")
        .bind(id)
        .execute(&archiving.app.db.pool)
        .await
        .expect("the row");
    assert_eq!(
        before_change.commit(&archiving.pool).await.expect("an answer"),
        Committed::Changed
    );
    // A run begins.
    let before_run = upload().await;
    archiving.app.model.script([Reply::hang_after(1)]);
    client
        .post_message(json!({"message": "go on", "conversationId": id}))
        .await;
    assert_eq!(
        before_run.commit(&archiving.pool).await.expect("an answer"),
        Committed::Active
    );
    assert_eq!(archiving.count(OBJECTS).await, 0);
    assert_eq!(archiving.archive_all().await, 0, "an active log stays in the table");
    assert_eq!(read_through(&client, id, 0, last).await, whole);
}

#[tokio::test]
async fn compacted_logs_are_archived_with_the_same_events() {
    let archiving = Archiving::start().await;
    let (id, _) = archiving.conversation().await;
    let last = end(&archiving, id).await;
    let client = archiving.app.client();
    let whole = read_through(&client, id, 0, last).await;
    while compaction::compact(&archiving.app.db.pool, 0.0)
        .await
        .expect("compaction")
        .runs
        > 0
    {}
    assert_eq!(archiving.archive_all().await, last.unsigned_abs());
    assert_eq!(read_through(&client, id, 0, last).await, whole);
    assert_eq!(archiving.archive_all().await, 0, "nothing is moved twice");
}

/// A hundredth of a second.
const SOON_DAYS: f64 = 0.01 / 86_400.0;

#[tokio::test]
async fn workers_archive_what_is_old_enough() {
    let options = AppOptions {
        archive: rejoin_archive::ArchiveArgs {
            archive_after_days: SOON_DAYS,
            ..rejoin_archive::ArchiveArgs::default()
        },
        ..AppOptions::default()
    };
    let mut archiving = Archiving::with(options).await;
    archiving.conversation().await;
    // Its first round of maintenance is at once.
    archiving.app.add_worker();
    wait_for("the log to be archived", async || {
        (archiving.count(ROWS).await == 0 && archiving.count(OBJECTS).await > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn archived_events_need_the_archive_s_url() {
    let archiving = Archiving::start().await;
    let (id, _) = archiving.conversation().await;
    archiving.archive_all().await;
    // Another API of the same database, which has no archive.
    let mut config = ApiConfig::new(archiving.app.db.args());
    config.listen = "127.0.0.1:0".parse().expect("an address");
    let other = Server::start(config, CancellationToken::new())
        .await
        .expect("the API starts");
    let client = Client::new(other.url(), &archiving.app.db.api_key);
    let (status, problem) = client.get(&format!("/api/conversations/{id}/events")).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (503, &json!("archive_unavailable"))
    );
    other.stop().await.expect("it stops");
}
