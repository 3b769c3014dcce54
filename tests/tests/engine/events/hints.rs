//! Hints that carry events: who gets them, who can read them, and what they leave to a query.

use std::sync::Arc;

use rejoin_event_log::group_commit::WriterOptions;
use rejoin_event_log::wakeup::{self, Hearing, SharedBus, Wake};
use rejoin_event_log::{EventWriter, log};
use tokio::sync::broadcast::Receiver;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::writer::{claim, post, stream, token};
use rejoin_tests::support::{self, TestDatabase, wait_for};

/// Maximum number of payloads that wait to be looked at.
const PAYLOADS: usize = 1_000;
pub(super) const TEXT: &str = "the words of a \"tenant\"";

/// The bus of a process, and its hints from now on.
async fn listener(db: &TestDatabase) -> (SharedBus, Receiver<Arc<Wake>>) {
    let bus = wakeup::over_postgres(&db.db);
    wait_for("a listening bus", async || {
        (bus.hearing() == Hearing::Listening).then_some(())
    })
    .await;
    let hints = bus.subscribe();
    (bus, hints)
}

/// Writes one event of this text in a new log, and returns the log.
pub(super) async fn write(db: &TestDatabase, bus: &SharedBus, text: &str) -> Uuid {
    let posted = post(db).await;
    claim(db, 1).await;
    let writer = EventWriter::start(db.db.clone(), bus.clone(), WriterOptions::default());
    let stream = stream(&posted, 1);
    writer.append(&stream, &token(&posted, text)).await.unwrap();
    writer.flush(&stream).await.unwrap();
    posted.conversation_id
}

/// Returns the next hint about the log.
pub(super) async fn hint_about(log: Uuid, hints: &mut Receiver<Arc<Wake>>) -> Wake {
    loop {
        let hint = Wake::clone(&*wakeup::next(hints).await);
        if hint.all_logs().any(|named| named == log) {
            return hint;
        }
    }
}

#[tokio::test]
async fn a_hint_carries_the_events_of_a_small_commit() {
    let db = support::database().await;
    let (writing, _) = listener(&db).await;
    let (_reading, mut hints) = listener(&db).await;
    let log = write(&db, &writing, TEXT).await;
    let hint = hint_about(log, &mut hints).await;
    assert!(
        hint.logs.is_empty() && !hint.all,
        "nothing is left to a query: {hint:?}"
    );
    let carried: Vec<_> = hint.rows.into_iter().flat_map(|row| row.events(0)).collect();
    assert_eq!(carried, log::read(&db.db.pool_pg, log, 1).await.unwrap());
}

#[tokio::test]
async fn a_hint_leaves_a_large_commit_to_a_query() {
    let db = support::database().await;
    let (writing, mut hints) = listener(&db).await;
    let log = write(&db, &writing, &"long ".repeat(2_000)).await;
    let hint = hint_about(log, &mut hints).await;
    assert!(hint.logs.contains(&log) && hint.rows.is_empty(), "{hint:?}");
}

#[tokio::test]
async fn without_its_key_a_hint_carries_nothing() {
    let db = support::database().await;
    sqlx::query("delete from stream.hint_keys")
        .execute(&db.pool)
        .await
        .unwrap();
    let (writing, mut hints) = listener(&db).await;
    let log = write(&db, &writing, TEXT).await;
    let hint = hint_about(log, &mut hints).await;
    assert!(hint.logs.contains(&log) && hint.rows.is_empty(), "{hint:?}");
}

#[tokio::test]
async fn hints_under_another_key_make_readers_query() {
    let db = support::database().await;
    let (writing, _) = listener(&db).await;
    sqlx::query("update stream.hint_keys set key = sha256(key)")
        .execute(&db.pool)
        .await
        .unwrap();
    let (_reading, mut hints) = listener(&db).await;
    write(&db, &writing, TEXT).await;
    while !wakeup::next(&mut hints).await.all {}
}

/// LISTEN needs no privilege: every role that connects gets all payloads.
#[tokio::test]
async fn a_payload_shows_no_words_of_its_events() {
    let db = support::database().await;
    let (payloads, mut received) = mpsc::channel(PAYLOADS);
    let connect = db.db.connector().listen_connection(move |notice| {
        // The test may have ended.
        let _ = payloads.try_send(notice.payload().to_owned());
    });
    let (client, connection) = connect.await.unwrap();
    client.batch_execute("listen rejoin").await.unwrap();
    let (writing, _) = listener(&db).await;
    write(&db, &writing, TEXT).await;
    let carrying = loop {
        let payload = received.recv().await.unwrap();
        assert!(!payload.contains("words"), "{payload}");
        if payload.contains("\"e\":") {
            break payload;
        }
    };
    assert!(!carrying.contains("token"), "{carrying}");
    let may_all_read: bool = sqlx::query_scalar("select has_table_privilege('public', 'stream.hint_keys', 'select')")
        .fetch_one(&db.pool)
        .await
        .unwrap();
    assert!(!may_all_read, "its key is for the roles of the product");
    connection.abort();
}
