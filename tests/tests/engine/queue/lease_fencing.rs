//! Fencing (invariant I4), case by case: what a lease permits its attempt, what it prevents others from doing, and its
//! locks. Each test covers one word of a statement: without that word it fails.

use std::time::Duration;

use rejoin_commands::{PostMessage, Posted};
use rejoin_db::PgError;
use rejoin_queue::{NewJob, Outcome, fencing, lease, settle, sweep};
use sqlx::PgConnection;
use uuid::Uuid;

use rejoin_tests::jobs::{LEASE, add, claim, end, ended, job, kinds, time_passes};
use rejoin_tests::support::{self, TestDatabase};

/// SQLSTATE of a lock that was not acquired within `lock_timeout`.
pub(super) const LOCK_NOT_AVAILABLE: &str = "55P03";

/// Posts a message; returns its queued run.
pub(super) async fn post(db: &TestDatabase) -> Posted {
    let command = PostMessage {
        owner: db.owner(),
        conversation_id: None,
        agent_definition_id: None,
        message: "hello".into(),
        attached_context: None,
        files: Vec::new(),
        max_files_bytes: 0,
        models: Default::default(),
        consoles: Vec::new(),
        idempotency: None,
        on_busy: rejoin_commands::OnBusy::Enqueue,
        client_thread: None,
        history: Vec::new(),
        client_tools: Vec::new(),
        extension_tools: Vec::new(),
        instructions: None,
        output_schema: None,
        model: None,
        exhausted: None,
        traceparent: None,
    };
    rejoin_commands::execute(&db.pool, &command)
        .await
        .expect("it is posted")
}

pub(super) async fn expire(db: &TestDatabase) {
    time_passes(db).await;
    assert_eq!(sweep::expired(&db.pool, support::later()).await.unwrap(), 1);
}

/// Attempts a takeover (the job's next attempt) without waiting.
pub(super) async fn takeover(db: &TestDatabase, run_id: Uuid) -> Result<u64, String> {
    let mut tx = rejoin_db::begin(&db.pool).await.expect("a transaction");
    run(&mut tx, "set local lock_timeout = '100ms'").await;
    let done = sqlx::query("update queue.jobs set attempt = attempt + 1 where run_id = $1")
        .bind(run_id)
        .execute(&mut *tx)
        .await;
    // Not committed: only attempted.
    done.map(|done| done.rows_affected()).map_err(|error| {
        let error = error.into_database_error().expect("an error of the database");
        error.code().expect("a code").into_owned()
    })
}

pub(super) async fn run(db: &mut PgConnection, sql: &'static str) {
    sqlx::query(sql).execute(db).await.expect(sql);
}

#[tokio::test]
async fn a_commands_fence_admits_its_attempt_and_blocks_takeovers() {
    let db = support::database().await;
    let posted = post(&db).await;
    let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
    let queued = fencing::fence(&mut tx, posted.run_id, 0).await.unwrap();
    assert_eq!(queued, None, "nobody runs it yet");
    tx.rollback().await.unwrap();

    let first = claim(&db, 1).await.remove(0);
    let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
    assert_eq!(fencing::fence(&mut tx, posted.run_id, 2).await.unwrap(), None);
    assert_eq!(
        takeover(&db, posted.run_id).await,
        Ok(1),
        "a fence that was not had locks nothing"
    );
    assert_eq!(fencing::fence(&mut tx, posted.run_id, 1).await.unwrap(), Some(first.id));
    assert_eq!(takeover(&db, posted.run_id).await, Err(LOCK_NOT_AVAILABLE.to_owned()));
    tx.commit().await.unwrap();

    expire(&db).await;
    let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
    let swept = fencing::fence(&mut tx, posted.run_id, 1).await.unwrap();
    assert_eq!(swept, None, "the attempt is the last one, and nobody's any more");
    tx.rollback().await.unwrap();

    claim(&db, 1).await;
    let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
    assert_eq!(fencing::fence(&mut tx, posted.run_id, 1).await.unwrap(), None);
    assert_eq!(fencing::fence(&mut tx, posted.run_id, 2).await.unwrap(), Some(first.id));
}

#[tokio::test]
async fn whatever_a_lost_attempt_makes_of_its_job_changes_nothing() {
    let db = support::database().await;
    let id = add(&db, job("a")).await;
    let zombie = claim(&db, 1).await.remove(0);
    let outcomes = [
        Outcome::Complete,
        Outcome::Cancel,
        Outcome::Fail { error: "e".into() },
        Outcome::Retry {
            error: "e".into(),
            after: Some(Duration::from_secs(60)),
        },
        Outcome::Snooze {
            after: Duration::from_secs(60),
        },
        Outcome::Release,
    ];
    let row = async || -> String {
        sqlx::query_scalar("select to_jsonb(j)::text from queue.jobs j where id = $1")
            .bind(id)
            .fetch_one(&db.pool)
            .await
            .expect("the job is there")
    };
    expire(&db).await;
    let put_back = row().await;
    for outcome in &outcomes {
        assert!(!end(&db, &zombie, outcome.clone()).await, "put back: {outcome:?}");
        assert_eq!(row().await, put_back, "{outcome:?}");
    }
    let heir = claim(&db, 1).await.remove(0);
    let taken_over = row().await;
    for outcome in &outcomes {
        assert!(!end(&db, &zombie, outcome.clone()).await, "taken over: {outcome:?}");
        assert_eq!(row().await, taken_over, "{outcome:?}");
    }
    assert!(end(&db, &heir, Outcome::Release).await);
}

#[tokio::test]
async fn a_heartbeat_renews_no_job_that_was_put_back_or_taken_over() {
    let db = support::database().await;
    let id = add(&db, job("a")).await;
    let worker = lease::WorkerInfo {
        id: Uuid::now_v7(),
        hostname: "h".into(),
        pid: 1,
        version: "0".into(),
        queues: vec!["default".into()],
        slots: 1,
    };
    let zombie = claim(&db, 1).await.remove(0);
    let held = [(zombie.id, zombie.attempt)];
    let beat = async || {
        lease::heartbeat(&db.db.pool_pg, &worker, &held, LEASE, false, false)
            .await
            .expect("a heartbeat")
    };
    let leased_until = async || -> Option<String> {
        sqlx::query_scalar("select lease_until::text from queue.jobs where id = $1")
            .bind(id)
            .fetch_one(&db.pool)
            .await
            .expect("the job is there")
    };
    assert_eq!(beat().await, [id]);
    expire(&db).await;
    assert_eq!(beat().await, [0_i64; 0]);
    assert_eq!(leased_until().await, None, "put back");
    claim(&db, 1).await;
    time_passes(&db).await;
    let before = leased_until().await;
    assert_eq!(beat().await, [0_i64; 0]);
    assert_eq!(leased_until().await, before, "taken over");
}

#[tokio::test]
async fn a_sweep_takes_what_has_expired_in_time_and_nothing_else() {
    let db = support::database().await;
    let last_attempt = NewJob {
        max_attempts: 1,
        ..job("last")
    };
    add(&db, job("a")).await;
    let last = add(&db, last_attempt).await;
    assert_eq!(claim(&db, 2).await.len(), 2);
    let (expired, dead) = (
        async |until| sweep::expired(&db.pool, until).await.expect("a sweep"),
        async |until| sweep::dead(&db.pool, until).await.expect("a sweep"),
    );
    assert_eq!(expired(support::later()).await, 0, "the leases hold");
    assert!(dead(support::later()).await.is_empty(), "the leases hold");
    time_passes(&db).await;
    let too_late = support::later() - chrono::TimeDelta::days(2);
    assert_eq!(expired(too_late).await, 0, "the database came to it too late");
    assert!(dead(too_late).await.is_empty(), "the database came to it too late");
    assert_eq!(expired(support::later()).await, 1, "not the one on its last attempt");
    let dead: Vec<i64> = dead(support::later()).await.iter().map(|job| job.id).collect();
    assert_eq!(dead, [last]);
}

#[tokio::test]
async fn a_job_that_joins_a_key_keeps_its_head_until_it_is_there() {
    let db = support::database().await;
    let keyed = |kind: &str| NewJob {
        concurrency_key: Some("k".into()),
        ..job(kind)
    };
    add(&db, keyed("head")).await;
    let head = claim(&db, 1).await.remove(0);
    let mut joins = rejoin_db::begin(&db.pool).await.unwrap();
    rejoin_queue::enqueue(&mut joins, &keyed("next")).await.unwrap();
    let mut ends = rejoin_db::begin(&db.pool).await.unwrap();
    run(&mut ends, "set local lock_timeout = '100ms'").await;
    let ended = settle::settle_one(&mut ends, head.id, head.attempt, "completed", None).await;
    let refused = ended
        .expect_err("it waits")
        .into_database_error()
        .expect("an error of the database");
    assert_eq!(refused.code().as_deref(), Some(LOCK_NOT_AVAILABLE));
    ends.rollback().await.unwrap();
    joins.commit().await.unwrap();
    assert!(end(&db, &head, Outcome::Complete).await);
    assert_eq!(claim(&db, 1).await[0].kind, "next");
}

#[tokio::test]
async fn a_claim_passes_over_jobs_that_another_claim_holds() {
    let db = support::database().await;
    let held = add(&db, job("held")).await;
    let free = add(&db, job("free")).await;
    let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
    sqlx::query("select from queue.jobs where id = $1 for update")
        .bind(held)
        .execute(&mut *tx)
        .await
        .unwrap();
    let claimed: Vec<i64> = tokio::time::timeout(support::LIMIT, claim(&db, 2))
        .await
        .expect("it does not wait")
        .iter()
        .map(|job| job.id)
        .collect();
    assert_eq!(claimed, [free]);
}

#[tokio::test]
async fn settling_says_whether_there_is_work_now_that_there_was_not() {
    let db = support::database().await;
    let keyed = |kind: &str| NewJob {
        concurrency_key: Some("k".into()),
        ..job(kind)
    };
    add(&db, keyed("head")).await;
    add(&db, keyed("next")).await;
    add(&db, job("plain")).await;
    let jobs = claim(&db, 10).await;
    assert_eq!(kinds(&jobs), ["head", "plain"]);
    let makes_work = async |job: &rejoin_queue::ClaimedJob, outcome| {
        rejoin_queue::settle(&db.db.pool_pg, &[ended(job, outcome)], true)
            .await
            .expect("an answer")
            .makes_work
    };
    assert!(!makes_work(&jobs[1], Outcome::Complete).await, "nothing waited for it");
    assert!(makes_work(&jobs[0], Outcome::Complete).await, "the next one is let go");
    let next = claim(&db, 10).await.remove(0);
    assert!(makes_work(&next, Outcome::Release).await, "it is available again");
}

#[tokio::test]
async fn only_a_failed_connection_makes_a_statement_repeat() {
    let db = support::database().await;
    let client = db.db.pool_pg.get().await.unwrap();
    let refusal = async |sql| {
        let error = client.query_one(sql, &[]).await.expect_err(sql);
        PgError::from(error).is_transient()
    };
    assert!(!refusal("select 1 / 0").await, "it fails each time");
    assert!(refusal("select pg_terminate_backend(pg_backend_pid())").await);
    assert!(refusal("select 1").await, "the connection is closed");
    db.db.pool_pg.close();
    let none = db.db.pool_pg.get().await.expect_err("the pool is closed");
    assert!(PgError::from(none).is_transient());
}

#[tokio::test]
async fn a_key_whose_head_is_there_lets_no_other_job_go() {
    let db = support::database().await;
    for kind in ["head", "next"] {
        let keyed = NewJob {
            concurrency_key: Some("k".into()),
            ..job(kind)
        };
        add(&db, keyed).await;
    }
    let released = async || -> Vec<i64> {
        sqlx::query_scalar("select queue.release(array['k'])")
            .fetch_all(&db.pool)
            .await
            .expect("it is asked")
    };
    assert_eq!(released().await, [0_i64; 0], "the head waits");
    let head = claim(&db, 2).await;
    assert_eq!(kinds(&head), ["head"]);
    assert_eq!(released().await, [0_i64; 0], "the head runs");
    assert!(claim(&db, 1).await.is_empty());
    assert!(end(&db, &head[0], Outcome::Release).await);
    assert_eq!(released().await, [0_i64; 0], "the head waits once more");
    assert_eq!(kinds(&claim(&db, 2).await), ["head"]);
}

#[tokio::test]
async fn of_a_lane_with_something_due_what_is_not_due_yet_waits() {
    let db = support::database().await;
    add(&db, job("now")).await;
    let tomorrow = "insert into queue.jobs (kind, project_id, run_at) select 'tomorrow', project_id, now() + interval '1 day' from queue.jobs";
    sqlx::query(tomorrow).execute(&db.pool).await.unwrap();
    assert_eq!(kinds(&claim(&db, 5).await), ["now"]);
    assert!(claim(&db, 5).await.is_empty());
    sqlx::query("update queue.jobs set run_at = now() where kind = 'tomorrow'")
        .execute(&db.pool)
        .await
        .unwrap();
    assert_eq!(kinds(&claim(&db, 5).await), ["tomorrow"]);
}
