//! The job queue: results and order of claims, and the effect of each outcome on a job.

use std::time::Duration;

use rejoin_queue::{ClaimCursor, NewJob, Outcome, lease, settle, stats, sweep};
use serde_json::json;
use uuid::Uuid;

use rejoin_tests::jobs::{LEASE, add, claim, claim_after, end, job, kinds, time_passes};
use rejoin_tests::support::{self};

#[tokio::test]
async fn a_job_exists_exactly_when_its_transaction_commits() {
    let db = support::database().await;
    let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
    rejoin_queue::enqueue(&mut tx, &job("lost")).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
    rejoin_queue::enqueue(&mut tx, &job("kept")).await.unwrap();
    assert!(claim(&db, 10).await.is_empty(), "not before the commit");
    tx.commit().await.unwrap();
    assert_eq!(kinds(&claim(&db, 10).await), ["kept"]);
}

#[tokio::test]
async fn other_programs_enqueue_with_the_sql_function() {
    let db = support::database().await;
    sqlx::query(r#"select queue.enqueue('report', '{"month": 7}')"#)
        .execute(&db.pool)
        .await
        .unwrap();
    let claimed = claim(&db, 10).await;
    assert_eq!(
        (claimed[0].kind.as_str(), &claimed[0].payload, claimed[0].attempt),
        ("report", &json!({"month": 7}), 1)
    );
}

#[tokio::test]
async fn two_workers_never_get_the_same_job() {
    let db = support::database().await;
    let jobs: Vec<NewJob> = (0..400).map(|_| job("noop")).collect();
    rejoin_queue::enqueue_many(&mut db.pool.acquire().await.unwrap(), &jobs)
        .await
        .unwrap();
    let claims = futures::future::join_all((0..8).map(|_| claim(&db, 50))).await;
    let mut ids: Vec<i64> = claims.concat().iter().map(|job| job.id).collect();
    let total = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), total, "a job was claimed twice");
    assert_eq!(total, 400);
}

#[tokio::test]
async fn smaller_priorities_run_first_and_later_times_wait() {
    let db = support::database().await;
    add(
        &db,
        NewJob {
            priority: 5,
            ..job("low")
        },
    )
    .await;
    add(
        &db,
        NewJob {
            priority: -5,
            ..job("high")
        },
    )
    .await;
    add(
        &db,
        NewJob {
            priority: -9,
            delay_s: 3600.0,
            ..job("later")
        },
    )
    .await;
    add(&db, job("middle")).await;
    let mut order = Vec::new();
    for _ in 0..4 {
        order.extend(claim(&db, 1).await.into_iter().map(|job| job.kind));
    }
    assert_eq!(order, ["high", "middle", "low"]);
    time_passes(&db).await;
    assert_eq!(kinds(&claim(&db, 1).await), ["later"]);
}

#[tokio::test]
async fn a_project_with_100_000_jobs_does_not_starve_another() {
    let db = support::database().await;
    let (big, small) = (Uuid::now_v7(), Uuid::now_v7());
    sqlx::query("insert into queue.jobs (kind, project_id, run_at) select 'noop', $1, now() - interval '1 hour' from generate_series(1, 100000)")
        .bind(big)
        .execute(&db.pool)
        .await
        .unwrap();
    add(
        &db,
        NewJob {
            workspace_id: small,
            ..job("urgent")
        },
    )
    .await;
    // Wherever the cursor is: two claims serve everyone.
    for after in [Uuid::nil(), big, small] {
        let claimed = claim_after(&db, 1, after).await;
        let then = claim_after(&db, 1, claimed[0].workspace_id).await;
        let served = [claimed[0].workspace_id, then[0].workspace_id];
        assert!(served.contains(&small), "the small project waited");
        for job in claimed.iter().chain(&then).filter(|job| job.workspace_id == small) {
            assert!(end(&db, job, Outcome::Snooze { after: Duration::ZERO }).await);
        }
    }
    let batch = claim(&db, 100).await;
    assert_eq!(batch.len(), 100, "what one project does not use goes to the other");
    assert!(batch.iter().any(|job| job.workspace_id == small));
}

#[tokio::test]
async fn a_paused_queue_gives_nothing_until_it_is_resumed() {
    let db = support::database().await;
    add(&db, job("a")).await;
    stats::pause(&db.pool, "default").await.unwrap();
    stats::pause(&db.pool, "default").await.unwrap();
    assert!(claim(&db, 10).await.is_empty());
    assert!(stats::queues(&db.pool).await.unwrap()[0].depth.paused);
    stats::resume(&db.pool, "default").await.unwrap();
    assert_eq!(kinds(&claim(&db, 10).await), ["a"]);
}

#[tokio::test]
async fn retries_back_off_and_end_as_a_dead_job_to_bring_back() {
    let db = support::database().await;
    add(
        &db,
        NewJob {
            max_attempts: 2,
            ..job("flaky")
        },
    )
    .await;
    let first = claim(&db, 1).await;
    assert!(
        end(
            &db,
            &first[0],
            Outcome::Retry {
                error: "one".into(),
                after: None
            }
        )
        .await
    );
    assert!(claim(&db, 1).await.is_empty(), "it waits");
    time_passes(&db).await;
    let second = claim(&db, 1).await;
    assert_eq!((second[0].attempt, second[0].last_error.as_deref()), (2, Some("one")));
    assert!(
        end(
            &db,
            &second[0],
            Outcome::Retry {
                error: "two".into(),
                after: None
            }
        )
        .await
    );
    time_passes(&db).await;
    assert!(claim(&db, 1).await.is_empty());
    let dead = stats::dead(&db.pool, "default", 10).await.unwrap();
    assert_eq!((dead[0].attempt, dead[0].last_error.as_deref()), (2, Some("two")));
    assert!(stats::retry_dead(&db.pool, dead[0].id, None).await.unwrap().is_some());
    assert!(stats::dead(&db.pool, "default", 10).await.unwrap().is_empty());
    assert_eq!(kinds(&claim(&db, 1).await), ["flaky"]);
}

#[tokio::test]
async fn snoozes_and_releases_cost_no_attempt() {
    let db = support::database().await;
    add(
        &db,
        NewJob {
            max_attempts: 1,
            ..job("patient")
        },
    )
    .await;
    let mut attempt = 0;
    for outcome in [
        Outcome::Snooze {
            after: Duration::from_secs(60),
        },
        Outcome::Release,
    ] {
        let claimed = claim(&db, 1).await;
        assert!(claimed[0].attempt > attempt, "the fencing number goes up all the same");
        attempt = claimed[0].attempt;
        assert!(end(&db, &claimed[0], outcome.clone()).await);
        if outcome != Outcome::Release {
            assert!(claim(&db, 1).await.is_empty(), "snoozing");
            time_passes(&db).await;
        }
    }
    let claimed = claim(&db, 1).await;
    assert_eq!(
        claimed[0].attempt, claimed[0].max_attempts,
        "still one real attempt left"
    );
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_changes_nothing() {
    let db = support::database().await;
    add(&db, job("a")).await;
    let zombie = claim(&db, 1).await.remove(0);
    time_passes(&db).await;
    assert_eq!(sweep::expired(&db.pool, support::later()).await.unwrap(), 1);
    assert!(!end(&db, &zombie, Outcome::Complete).await, "expired and put back");
    let next = claim(&db, 1).await.remove(0);
    assert_eq!(next.attempt, zombie.attempt + 1);
    let worker = lease::WorkerInfo {
        id: Uuid::now_v7(),
        hostname: "h".into(),
        pid: 1,
        version: "0".into(),
        queues: vec!["default".into()],
        slots: 1,
    };
    let held = [(zombie.id, zombie.attempt)];
    assert!(
        lease::heartbeat(&db.db.pool_pg, &worker, &held, LEASE, false, false)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(!end(&db, &zombie, Outcome::Complete).await, "claimed by another");
    assert!(end(&db, &next, Outcome::Complete).await);
}

#[tokio::test]
async fn a_heartbeat_keeps_jobs_and_shows_the_worker_in_the_fleet() {
    let db = support::database().await;
    add(&db, job("a")).await;
    let worker = lease::WorkerInfo {
        id: Uuid::now_v7(),
        hostname: "host".into(),
        pid: 42,
        version: "0.1.0".into(),
        queues: vec!["default".into()],
        slots: 7,
    };
    let mine = rejoin_queue::claim(
        &db.db.pool_pg,
        "default",
        worker.id,
        LEASE,
        1,
        &mut ClaimCursor::default(),
    )
    .await
    .unwrap()
    .remove(0);
    time_passes(&db).await;
    let ours = lease::heartbeat(&db.db.pool_pg, &worker, &[(mine.id, mine.attempt)], LEASE, false, false)
        .await
        .unwrap();
    assert_eq!(ours, [mine.id]);
    assert_eq!(sweep::expired(&db.pool, support::later()).await.unwrap(), 0);
    let fleet = stats::workers(&db.pool).await.unwrap();
    assert_eq!(
        (fleet[0].pid, fleet[0].slots, fleet[0].busy, fleet[0].alive),
        (42, 7, 1, true)
    );
    lease::leave(&db.db.pool_pg, worker.id).await.unwrap();
    assert!(stats::workers(&db.pool).await.unwrap().is_empty());
}

#[tokio::test]
async fn finished_jobs_are_removed_by_age_and_dead_ones_later() {
    let db = support::database().await;
    for kind in ["done", "dead"] {
        add(&db, job(kind)).await;
    }
    let claimed = claim(&db, 2).await;
    end(&db, &claimed[0], Outcome::Complete).await;
    end(&db, &claimed[1], Outcome::Fail { error: "no".into() }).await;
    sqlx::query("update queue.finished_jobs set finished_at = now() - interval '2 days'")
        .execute(&db.pool)
        .await
        .unwrap();
    assert_eq!(sweep::retention(&db.pool, 86_400.0, 86_400.0 * 30.0).await.unwrap(), 1);
    assert_eq!(stats::dead(&db.pool, "default", 10).await.unwrap().len(), 1);
    assert_eq!(settle::backoff_s(3), 4.0);
}
