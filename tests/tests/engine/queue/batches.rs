//! The job queue in batches: the claim cursor, COPY, batches of outcomes, and consecutive losses.

use std::time::Duration;

use rejoin_queue::{ClaimCursor, NewJob, Outcome, Settlement, fencing, sweep};
use serde_json::json;
use uuid::Uuid;

use rejoin_tests::jobs::{LEASE, add, claim, claim_after, end, ended, job, kinds, time_passes};
use rejoin_tests::support::{self, TestDatabase};

#[tokio::test]
async fn a_claim_goes_on_from_the_last_one_and_looks_back_in_time() {
    let db = support::database().await;
    let jobs: Vec<NewJob> = (0..60)
        .map(|n| NewJob::new(format!("job-{n}"), json!({ "n": n })))
        .collect();
    rejoin_queue::enqueue_many(&mut db.pool.acquire().await.unwrap(), &jobs)
        .await
        .unwrap();
    // Dead rows make full scans expensive: there is one per second.
    let mut cursor = ClaimCursor::with_scans_of(Duration::from_millis(50));
    let mut next = async || {
        rejoin_queue::claim(&db.db.pool_pg, "default", Uuid::now_v7(), LEASE, 20, &mut cursor)
            .await
            .unwrap()
    };
    let first = next().await;
    assert_eq!(first[0].kind, "job-0");
    assert_eq!(first[19].payload, json!({ "n": 19 }), "in order");
    // Below the watermark of a full claim: one that was due yesterday, and one with priority.
    add(
        &db,
        NewJob {
            delay_s: -86_400.0,
            ..job("late")
        },
    )
    .await;
    add(
        &db,
        NewJob {
            priority: -5,
            ..job("urgent")
        },
    )
    .await;
    let second = next().await;
    assert_eq!(
        second[0].kind, "urgent",
        "a lane that is not known yet is looked for each time"
    );
    assert_eq!(second[1].kind, "job-20");
    let late = support::wait_for("the job behind the floor", async || {
        let claimed = next().await;
        for job in &claimed {
            end(&db, job, Outcome::Snooze { after: Duration::ZERO }).await;
        }
        claimed.iter().any(|job| job.kind == "late").then_some(())
    });
    tokio::time::timeout(Duration::from_secs(2), late)
        .await
        .expect("with the next walk");
}

#[tokio::test]
async fn a_lane_that_ran_dry_takes_no_turn() {
    let db = support::database().await;
    // Expensive enough that watermarks outlast the test.
    let mut cursor = ClaimCursor::with_scans_of(Duration::from_secs(60));
    let mut next = async |limit: usize| {
        let claimed = rejoin_queue::claim(&db.db.pool_pg, "default", Uuid::now_v7(), LEASE, limit, &mut cursor)
            .await
            .unwrap();
        claimed.into_iter().map(|job| job.kind).collect::<Vec<String>>()
    };
    for project in 1..=20 {
        add(
            &db,
            NewJob {
                workspace_id: Uuid::from_u128(project),
                ..job("old")
            },
        )
        .await;
    }
    assert_eq!(next(50).await.len(), 20);
    assert!(next(50).await.is_empty());
    // One slot, and twenty known lanes: the one with a job is found.
    add(
        &db,
        NewJob {
            workspace_id: Uuid::from_u128(7),
            ..job("new")
        },
    )
    .await;
    assert_eq!(next(1).await, ["new"]);
}

#[tokio::test]
async fn a_full_claim_continues_and_a_partial_one_starts_over() {
    let db = support::database().await;
    for kind in ["a", "b", "c"] {
        add(&db, job(kind)).await;
    }
    for (limit, expected, goes_on) in [(1, 1, true), (1, 1, true), (2, 1, false), (2, 0, false)] {
        // A single slow full scan does not count as expensive.
        let mut cursor = ClaimCursor::default();
        let claimed = rejoin_queue::claim(&db.db.pool_pg, "default", Uuid::now_v7(), LEASE, limit, &mut cursor)
            .await
            .unwrap();
        assert_eq!(
            (claimed.len(), cursor.next_scan_at().is_some()),
            (expected, goes_on),
            "{limit} were asked for"
        );
    }
}

#[tokio::test]
async fn many_projects_with_nothing_due_do_not_hide_one_that_has() {
    let db = support::database().await;
    sqlx::query("insert into queue.jobs (kind, project_id, run_at) select 'later', gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 200)")
        .execute(&db.pool)
        .await
        .unwrap();
    let last = Uuid::from_u128(u128::MAX);
    add(
        &db,
        NewJob {
            workspace_id: last,
            ..job("now")
        },
    )
    .await;
    assert_eq!(kinds(&claim_after(&db, 10, Uuid::nil()).await), ["now"]);
}

#[tokio::test]
async fn jobs_that_are_copied_keep_whatever_their_texts_hold() {
    let db = support::database().await;
    let payload = json!({ "text": "a\\b\t\"c\"\nd\r\u{1F980} \\N \\." });
    let jobs: Vec<NewJob> = (0..40).map(|_| NewJob::new("tab\tand\\n", payload.clone())).collect();
    rejoin_queue::enqueue_many(&mut db.pool.acquire().await.unwrap(), &jobs)
        .await
        .unwrap();
    let claimed = claim(&db, 100).await;
    assert_eq!(claimed.len(), 40);
    for job in claimed {
        assert_eq!((job.kind.as_str(), &job.payload), ("tab\tand\\n", &payload));
    }
}

#[tokio::test]
async fn a_batch_with_every_outcome_settles_each_job_its_own_way() {
    let db = support::database().await;
    for kind in ["complete", "fail", "retry", "cancel", "lost"] {
        add(&db, job(kind)).await;
    }
    let claimed = claim(&db, 5).await;
    let error = || "no luck".to_owned();
    let mut batch: Vec<Settlement> = claimed
        .iter()
        .map(|job| {
            let outcome = match job.kind.as_str() {
                "complete" | "lost" => Outcome::Complete,
                "fail" => Outcome::Fail { error: error() },
                "retry" => Outcome::Retry {
                    error: error(),
                    after: None,
                },
                _ => Outcome::Cancel,
            };
            ended(job, outcome)
        })
        .collect();
    // Another worker has it by now.
    batch[4].attempt += 1;
    batch.reverse();
    let mut settled = rejoin_queue::settle(&db.db.pool_pg, &batch, true).await.unwrap().ids;
    settled.sort_unstable();
    let ours: Vec<i64> = claimed[..4].iter().map(|job| job.id).collect();
    assert_eq!(settled, ours);
    let finished: Vec<(String, String, Option<String>)> =
        sqlx::query_as("select kind, state, last_error from queue.finished_jobs order by kind")
            .fetch_all(&db.pool)
            .await
            .unwrap();
    let row = |kind: &str, state: &str, error: Option<&str>| (kind.into(), state.into(), error.map(str::to_owned));
    assert_eq!(
        finished,
        [
            row("cancel", "cancelled", None),
            row("complete", "completed", None),
            row("fail", "failed", Some("no luck"))
        ]
    );
    let live: Vec<(String, String)> = sqlx::query_as("select kind, state from queue.jobs order by kind")
        .fetch_all(&db.pool)
        .await
        .unwrap();
    assert_eq!(
        live,
        [("lost".into(), "running".into()), ("retry".into(), "available".into())]
    );
}

/// PostgreSQL refuses the one character and such a time, and would take the whole batch back, again and again.
#[tokio::test]
async fn no_outcome_keeps_the_others_of_its_batch_from_being_settled() {
    let db = support::database().await;
    for kind in ["fail", "retry", "snooze", "complete"] {
        add(&db, job(kind)).await;
    }
    let claimed = claim(&db, 4).await;
    let error = || "no\0luck".to_owned();
    let batch: Vec<Settlement> = claimed
        .iter()
        .map(|job| {
            let outcome = match job.kind.as_str() {
                "fail" => Outcome::Fail { error: error() },
                "retry" => Outcome::Retry {
                    error: error(),
                    after: Some(Duration::MAX),
                },
                "snooze" => Outcome::Snooze { after: Duration::MAX },
                _ => Outcome::Complete,
            };
            ended(job, outcome)
        })
        .collect();
    let settled = rejoin_queue::settle(&db.db.pool_pg, &batch, true).await.unwrap();
    assert_eq!(settled.ids.len(), 4);
    let failed: String = sqlx::query_scalar("select last_error from queue.finished_jobs where state = 'failed'")
        .fetch_one(&db.pool)
        .await
        .unwrap();
    assert_eq!(failed, "no\u{FFFD}luck");
    let waiting: Vec<(String, Option<String>, bool)> = sqlx::query_as(
        "select kind, last_error, run_at between now() + interval '365 days' and now() + interval '367 days'
         from queue.jobs order by kind",
    )
    .fetch_all(&db.pool)
    .await
    .unwrap();
    assert_eq!(
        waiting,
        [
            ("retry".into(), Some("no\u{FFFD}luck".into()), true),
            ("snooze".into(), None, true)
        ]
    );
}

/// Claims the only job, loses its lease, and returns the job's delay, in seconds.
async fn lose(db: &TestDatabase) -> f64 {
    assert_eq!(claim(db, 1).await.len(), 1);
    time_passes(db).await;
    assert_eq!(sweep::expired(&db.pool, support::later()).await.unwrap(), 1);
    let wait_s = sqlx::query_scalar("select extract(epoch from run_at - now())::float8 from queue.jobs")
        .fetch_one(&db.pool)
        .await
        .unwrap();
    time_passes(db).await;
    wait_s
}

#[tokio::test]
async fn consecutive_losses_without_progress_delay_a_job() {
    let db = support::database().await;
    let run = Uuid::now_v7();
    let of_run = NewJob {
        run_id: Some(run),
        max_attempts: 5,
        ..job("a")
    };
    add(&db, of_run).await;
    for _ in 0..4 {
        let claimed = claim(&db, 1).await.remove(0);
        assert!(end(&db, &claimed, Outcome::Release).await);
    }
    assert!(lose(&db).await <= 0.0 && lose(&db).await <= 0.0);
    assert!(lose(&db).await > 0.5, "the third in a row");

    let claimed = claim(&db, 1).await.remove(0);
    let mut connection = db.pool.acquire().await.unwrap();
    let job = fencing::fence_progress(&mut connection, run, claimed.attempt)
        .await
        .unwrap();
    assert_eq!(job, Some(claimed.id));
    time_passes(&db).await;
    assert_eq!(sweep::expired(&db.pool, support::later()).await.unwrap(), 1);
    let (losses, left): (i16, i32) = sqlx::query_as("select losses, max_attempts - attempt from queue.jobs")
        .fetch_one(&mut *connection)
        .await
        .unwrap();
    assert_eq!(
        (losses, left),
        (1, rejoin_queue::RUN_MAX_ATTEMPTS),
        "as if it were the first"
    );
    let none = fencing::fence_progress(&mut connection, run, claimed.attempt)
        .await
        .unwrap();
    assert_eq!(none, None, "the lease is lost");
}
