//! Keys of jobs: a unique key has one live job, and jobs of a concurrency key run one at a time.

use rejoin_queue::{NewJob, Outcome};

use rejoin_tests::jobs::{add, claim, end, job, kinds, time_passes};
use rejoin_tests::support;

#[tokio::test]
async fn a_unique_key_gives_one_live_job() {
    let db = support::database().await;
    let keyed = || NewJob {
        unique_key: Some("nightly".into()),
        ..job("nightly")
    };
    let first = add(&db, keyed()).await;
    assert_eq!(add(&db, keyed()).await, first);
    let claimed = claim(&db, 10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(add(&db, keyed()).await, first, "a running job counts");
    assert!(end(&db, &claimed[0], Outcome::Complete).await);
    assert_ne!(add(&db, keyed()).await, first);
}

#[tokio::test]
async fn jobs_of_a_concurrency_key_run_one_at_a_time_in_order() {
    let db = support::database().await;
    for kind in ["a", "b", "c"] {
        add(
            &db,
            NewJob {
                concurrency_key: Some("k".into()),
                ..job(kind)
            },
        )
        .await;
    }
    add(
        &db,
        NewJob {
            concurrency_key: Some("other".into()),
            ..job("x")
        },
    )
    .await;
    let first = claim(&db, 10).await;
    assert_eq!(kinds(&first), ["a", "x"]);
    assert!(claim(&db, 10).await.is_empty());
    // A retry keeps its place: b must not overtake a.
    assert!(
        end(
            &db,
            &first[0],
            Outcome::Retry {
                error: "again".into(),
                after: None
            }
        )
        .await
    );
    assert!(claim(&db, 10).await.is_empty());
    time_passes(&db).await;
    let again = claim(&db, 10).await;
    assert_eq!(kinds(&again), ["a"]);
    assert!(end(&db, &again[0], Outcome::Fail { error: "no".into() }).await);
    let second = claim(&db, 10).await;
    assert_eq!(kinds(&second), ["b"]);
    assert!(end(&db, &second[0], Outcome::Cancel).await);
    assert_eq!(kinds(&claim(&db, 10).await), ["c"]);
}

#[tokio::test]
async fn racing_enqueues_and_settles_of_a_key_leave_no_job_behind() {
    let db = support::database().await;
    let add_all = async {
        for batch in 0..10 {
            futures::future::join_all((0..8).map(|i| {
                let kind = format!("{batch}-{i}");
                let db = &db;
                async move {
                    add(
                        db,
                        NewJob {
                            concurrency_key: Some("k".into()),
                            ..job(&kind)
                        },
                    )
                    .await
                }
            }))
            .await;
        }
    };
    let work = async {
        let mut done = 0;
        while done < 80 {
            let claimed = claim(&db, 10).await;
            assert!(claimed.len() <= 1, "two jobs of one key at once");
            for job in &claimed {
                assert!(end(&db, job, Outcome::Complete).await);
                done += 1;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(support::LIMIT, async { tokio::join!(add_all, work) })
        .await
        .expect("no job is left behind");
}
