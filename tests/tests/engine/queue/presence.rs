//! Workers that die are noticed by the locks that their sessions held, and no others.

use std::time::Duration;

use rejoin_event_log::wakeup::{self, Hearing, SharedBus};
use rejoin_queue::presence::{self, Gone, PresenceWatch};
use rejoin_queue::{Outcome, lease};
use rejoin_tests::support::TestDatabase;
use uuid::Uuid;

use rejoin_tests::jobs::{add, job};
use rejoin_tests::support;

/// Short, so that the server has been up for longer.
const HEARTBEAT: Duration = Duration::from_millis(1);

async fn register(db: &TestDatabase, id: Uuid, session_lock: bool) {
    let worker = lease::WorkerInfo {
        id,
        hostname: "h".into(),
        pid: 1,
        version: "0".into(),
        queues: vec!["default".into()],
        slots: 1,
    };
    lease::heartbeat(&db.db.pool_pg, &worker, &[], lease::LEASE, false, session_lock)
        .await
        .expect("a heartbeat");
}

/// A bus whose session holds the worker's lock.
async fn holding(db: &TestDatabase, id: Uuid) -> SharedBus {
    let bus = wakeup::start_with_session(&db.args(), &db.db, presence::lock_statement(id))
        .await
        .expect("valid settings");
    support::wait_for("the lock", async || (bus.hearing() == Hearing::Listening).then_some(())).await;
    bus
}

async fn break_session(db: &TestDatabase) {
    let broken: i64 = sqlx::query_scalar(
        "select count(pg_terminate_backend(pid)) from pg_locks
         where locktype = 'advisory' and granted and pid <> pg_backend_pid()
           and database = (select oid from pg_database where datname = current_database())",
    )
    .fetch_one(&db.pool)
    .await
    .expect("locks");
    assert_eq!(broken, 1);
}

async fn look(watch: &mut PresenceWatch, db: &TestDatabase) -> Option<Gone> {
    watch.look(&db.pool, true).await.expect("a look")
}

#[tokio::test]
async fn only_a_worker_whose_lock_is_free_twice_is_gone() {
    let db = support::database().await;
    let (dead, living, without_session) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    register(&db, dead, true).await;
    register(&db, living, true).await;
    register(&db, without_session, false).await;
    let _bus = holding(&db, living).await;
    let mut watch = PresenceWatch::new(Uuid::now_v7(), HEARTBEAT);
    assert_eq!(look(&mut watch, &db).await, None, "a first look suspects only");
    let gone = look(&mut watch, &db).await.expect("one is gone");
    assert_eq!(gone.workers, [dead]);
    let mut itself = PresenceWatch::new(dead, HEARTBEAT);
    look(&mut itself, &db).await;
    assert_eq!(look(&mut itself, &db).await, None, "a worker does not look at itself");
}

#[tokio::test]
async fn a_session_that_broke_takes_the_lock_again() {
    let db = support::database().await;
    let worker = Uuid::now_v7();
    register(&db, worker, true).await;
    let bus = holding(&db, worker).await;
    let mut hints = bus.subscribe();
    break_session(&db).await;
    // The end of the old session, and the begin of the new one.
    while !(wakeup::next(&mut hints).await.all && bus.hearing() == Hearing::Listening) {}
    let mut watch = PresenceWatch::new(Uuid::now_v7(), HEARTBEAT);
    look(&mut watch, &db).await;
    assert_eq!(look(&mut watch, &db).await, None);
}

#[tokio::test]
async fn free_locks_mean_nothing_after_a_disturbance() {
    let db = support::database().await;
    register(&db, Uuid::now_v7(), true).await;
    let hour = Duration::from_secs(3600);
    let mut young_server = PresenceWatch::new(Uuid::now_v7(), hour);
    let mut cut_off = PresenceWatch::new(Uuid::now_v7(), HEARTBEAT);
    assert_eq!(look(&mut cut_off, &db).await, None, "a first look suspects only");
    for _ in 0..3 {
        assert_eq!(look(&mut young_server, &db).await, None, "PostgreSQL has just started");
        let gone = cut_off.look(&db.pool, false).await.expect("a look");
        assert_eq!(gone, None, "its own session is broken");
    }
}

#[tokio::test]
async fn a_new_process_waits_for_its_own_session_only() {
    let db = support::database().await;
    let dead = Uuid::now_v7();
    register(&db, dead, true).await;
    let second = Duration::from_secs(1);
    let mut watch = PresenceWatch::new(Uuid::now_v7(), second);
    for _ in 0..2 {
        let gone = watch.look(&db.pool, false).await.expect("a look");
        assert_eq!(gone, None, "it has not connected yet");
    }
    assert_eq!(look(&mut watch, &db).await, None, "a first look suspects only");
    let gone = look(&mut watch, &db)
        .await
        .expect("one is gone, without a heartbeat's delay");
    assert_eq!(gone.workers, [dead]);
}

#[tokio::test]
async fn jobs_of_the_gone_are_available_but_for_last_attempts() {
    let db = support::database().await;
    let (dead, living) = (Uuid::now_v7(), Uuid::now_v7());
    let last_attempt = rejoin_queue::NewJob {
        max_attempts: 1,
        ..job("last")
    };
    let first = add(&db, job("first")).await;
    let last = add(&db, last_attempt).await;
    let claim = async |worker, limit| {
        let mut cursor = rejoin_queue::ClaimCursor::default();
        rejoin_queue::claim(&db.db.pool_pg, "default", worker, lease::LEASE, limit, &mut cursor)
            .await
            .expect("a claim")
    };
    assert_eq!(claim(dead, 2).await.len(), 2);
    let kept = add(&db, job("kept")).await;
    let theirs = claim(living, 1).await.remove(0);
    assert_eq!(theirs.id, kept);
    let gone = |until| Gone {
        workers: vec![dead],
        until,
    };
    let too_late = support::later() - chrono::TimeDelta::days(2);
    let release = async |until| presence::release(&db.pool, &gone(until)).await.expect("a release");
    assert_eq!(release(too_late).await, 0, "the database came to it too late");
    assert_eq!(release(support::later()).await, 1);
    let again = claim(living, 5).await;
    assert_eq!(
        again.iter().map(|job| (job.id, job.attempt)).collect::<Vec<_>>(),
        [(first, 2)]
    );
    let state: (String, Option<Uuid>) = sqlx::query_as("select state, worker_id from queue.jobs where id = $1")
        .bind(last)
        .fetch_one(&db.pool)
        .await
        .expect("the job is there");
    assert_eq!(state, ("running".to_owned(), Some(dead)), "its lease ends first");
    assert!(rejoin_tests::jobs::end(&db, &theirs, Outcome::Complete).await);
}
