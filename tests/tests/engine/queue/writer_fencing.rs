//! Fencing of event writers (invariant I4): only the attempt that holds the lease appends, and appends to a log take turns.

use std::sync::Arc;
use std::time::Duration;

use rejoin_commands::Posted;
use rejoin_event_log::group_commit::{LeaseLost, WriterOptions};
use rejoin_event_log::stream::RunStream;
use rejoin_event_log::{EventWriter, log, wakeup};
use rejoin_types::events::{Event, Kind};
use sqlx::PgConnection;
use tokio_util::sync::CancellationToken;

use super::lease_fencing::{LOCK_NOT_AVAILABLE, expire, post, run, takeover};
use rejoin_tests::jobs::claim;
use rejoin_tests::support::{self, TestDatabase};
use rejoin_tests::waiting::wait_for_a_lock;

fn stream(posted: &Posted, attempt: i32) -> Arc<RunStream> {
    Arc::new(RunStream {
        log_id: posted.conversation_id,
        root_run_id: posted.run_id,
        run_id: posted.run_id,
        attempt,
        lost: CancellationToken::new(),
        seen: Default::default(),
    })
}

fn token(posted: &Posted, text: &str) -> Event {
    Event::of(posted.run_id, Kind::Token { token: text.to_owned() })
}

fn writer(db: &TestDatabase) -> Arc<EventWriter> {
    let bus = wakeup::polling();
    Arc::new(EventWriter::start(db.db.clone(), bus, WriterOptions::default()))
}

/// The tokens of the log.
async fn tokens(db: &TestDatabase, posted: &Posted) -> Vec<String> {
    let events = log::read(&db.db.pool_pg, posted.conversation_id, 0)
        .await
        .expect("the log");
    let tokens = events.iter().filter(|event| event.kind == "token");
    tokens
        .map(|event| {
            let event: serde_json::Value = serde_json::from_slice(&event.data).expect("JSON");
            event["token"].as_str().expect("a text").to_owned()
        })
        .collect()
}

#[tokio::test]
async fn a_writer_whose_job_another_attempt_runs_writes_nothing() {
    let db = support::database().await;
    let posted = post(&db).await;
    claim(&db, 1).await;
    expire(&db).await;
    assert_eq!(claim(&db, 1).await[0].attempt, 2);
    // The first notice of it: the job was not made available again while it wrote.
    let writer = writer(&db);
    let (zombie, heir) = (stream(&posted, 1), stream(&posted, 2));
    writer.append(&zombie, &token(&posted, "zombie")).await.unwrap();
    writer.append(&heir, &token(&posted, "heir")).await.unwrap();
    assert_eq!(writer.flush(&zombie).await, Err(LeaseLost));
    writer.flush(&heir).await.unwrap();
    assert_eq!(tokens(&db, &posted).await, ["heir"]);
}

#[tokio::test]
async fn only_runs_without_their_lease_are_left_out_of_a_write() {
    let db = support::database().await;
    let (first, second) = (post(&db).await, post(&db).await);
    let claimed = claim(&db, 2).await;
    assert_eq!(claimed.len(), 2);
    // Late enough for both to be in one batch, in either order.
    let options = WriterOptions {
        flush_interval: Duration::from_secs(60),
        ..WriterOptions::default()
    };
    for lost in [&first, &second] {
        let writer = EventWriter::start(db.db.clone(), wakeup::polling(), options);
        let streams = [&first, &second].map(|posted| {
            let attempt = if posted.run_id == lost.run_id { 7 } else { 1 };
            (posted, stream(posted, attempt))
        });
        for (posted, stream) in &streams {
            writer.append(stream, &token(posted, "written")).await.unwrap();
        }
        for (posted, stream) in &streams {
            let expected = if posted.run_id == lost.run_id {
                Err(LeaseLost)
            } else {
                Ok(())
            };
            assert_eq!(writer.flush(stream).await, expected);
        }
    }
    assert_eq!(tokens(&db, &first).await, ["written"]);
    assert_eq!(tokens(&db, &second).await, ["written"]);
}

#[tokio::test]
async fn a_writer_locks_out_a_takeover_and_waits_for_the_log() {
    let db = support::database().await;
    let posted = post(&db).await;
    claim(&db, 1).await;
    let writer = writer(&db);
    let run_stream = stream(&posted, 1);
    // Another transaction numbers events of this log.
    let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
    assert!(log::lock(&mut tx, posted.conversation_id).await.unwrap().is_some());
    writer.append(&run_stream, &token(&posted, "waited")).await.unwrap();
    let flushed = tokio::spawn({
        let (writer, run_stream) = (writer.clone(), run_stream.clone());
        async move { writer.flush(&run_stream).await }
    });
    wait_for_a_lock(&db.pool).await;
    assert_eq!(
        takeover(&db, posted.run_id).await,
        Err(LOCK_NOT_AVAILABLE.to_owned()),
        "it is in the middle of an append"
    );
    let event = token(&posted, "first");
    log::append(&mut tx, posted.conversation_id, Some(posted.run_id), &[event])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    flushed.await.expect("no panic").expect("the lease holds");
    assert_eq!(tokens(&db, &posted).await, ["first", "waited"]);
}

#[tokio::test]
async fn concurrent_appends_to_a_log_wait_for_each_other() {
    let db = support::database().await;
    let posted = post(&db).await;
    let append = async |db: &mut PgConnection, text: &str| {
        log::append(db, posted.conversation_id, Some(posted.run_id), &[token(&posted, text)]).await
    };
    let mut first = rejoin_db::begin(&db.pool).await.unwrap();
    append(&mut first, "first").await.unwrap();
    let mut second = rejoin_db::begin(&db.pool).await.unwrap();
    run(&mut second, "set local lock_timeout = '100ms'").await;
    let refused = append(&mut second, "second").await.expect_err("it waits");
    let refused = refused.into_database_error().expect("an error of the database");
    assert_eq!(refused.code().as_deref(), Some(LOCK_NOT_AVAILABLE));
    second.rollback().await.unwrap();

    // It continues after the events written meanwhile, with new numbers.
    let waits = tokio::spawn({
        let (pool, log_id, run_id) = (db.pool.clone(), posted.conversation_id, posted.run_id);
        let event = token(&posted, "second");
        async move {
            let mut second = rejoin_db::begin(&pool).await.expect("a transaction");
            log::append(&mut second, log_id, Some(run_id), &[event]).await?;
            second.commit().await
        }
    });
    wait_for_a_lock(&db.pool).await;
    first.commit().await.unwrap();
    waits.await.expect("no panic").expect("it is appended");
    assert_eq!(tokens(&db, &posted).await, ["first", "second"]);
}
