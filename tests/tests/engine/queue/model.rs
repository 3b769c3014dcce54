//! Model-based tests of the queue: random histories of lease, attempt, fence, keys, settlement and sweep over the real
//! statements, compared with a model of a few lines. A failing history is shrunk to a minimal one.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use rejoin_queue::{ClaimCursor, ClaimedJob, NewJob, Outcome, Settlement, fencing, settle, sweep};
use rejoin_tests::support::{self, TestDatabase};
use serde_json::json;
use tokio::runtime::Handle;
use uuid::Uuid;

/// Total number of histories, and number of threads.
const HISTORIES: u32 = 10_000;
const THREADS: u32 = 4;
/// Maximum number of steps in a history.
const STEPS: usize = 14;
/// Longer than any history: leases end by steps.
const LEASE: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone)]
enum Step {
    Enqueue {
        key: Option<u8>,
        max_attempts: i32,
    },
    Claim {
        limit: usize,
    },
    /// The outcome of a claim in this history, possibly an outdated one.
    Settle {
        claim: usize,
        outcome: End,
    },
    /// A worker died: the lease of a claim ends now.
    Expire {
        claim: usize,
    },
    Sweep,
    /// A claim's worker writes.
    Write {
        claim: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum End {
    Complete,
    Retry,
    Release,
    Cancel,
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        Just(End::Complete),
        Just(End::Retry),
        Just(End::Release),
        Just(End::Cancel)
    ];
    let claim = 0_usize..8;
    prop_oneof![
        4 => (prop::option::of(0_u8..2), 1..=3).prop_map(|(key, max_attempts)| Step::Enqueue { key, max_attempts }),
        4 => (1_usize..4).prop_map(|limit| Step::Claim { limit }),
        4 => (claim.clone(), end).prop_map(|(claim, outcome)| Step::Settle { claim, outcome }),
        2 => claim.clone().prop_map(|claim| Step::Expire { claim }),
        2 => Just(Step::Sweep),
        2 => claim.prop_map(|claim| Step::Write { claim }),
    ]
}

/// The expected state of the queue.
#[derive(Default)]
struct Model {
    /// Live jobs, in order of id.
    jobs: Vec<Job>,
    /// Places are assigned in the order in which jobs became due.
    next_place: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Job {
    id: i64,
    key: Option<u8>,
    state: State,
    attempt: i32,
    max_attempts: i32,
    place: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Held,
    Available,
    Running { expired: bool },
}

impl Model {
    fn place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }

    fn enqueue(&mut self, id: i64, key: Option<u8>, max_attempts: i32) {
        let waits = key.is_some() && self.jobs.iter().any(|job| job.key == key);
        let place = self.place();
        self.jobs.push(Job {
            id,
            key,
            state: if waits { State::Held } else { State::Available },
            attempt: 0,
            max_attempts,
            place,
        });
    }

    /// Returns the first of the due jobs.
    fn claim(&mut self, limit: usize) -> Vec<(i64, i32)> {
        let mut due: Vec<&mut Job> = self
            .jobs
            .iter_mut()
            .filter(|job| job.state == State::Available)
            .collect();
        due.sort_by_key(|job| job.place);
        let taken = due.into_iter().take(limit).map(|job| {
            job.state = State::Running { expired: false };
            job.attempt += 1;
            (job.id, job.attempt)
        });
        taken.collect()
    }

    /// Returns the job held by this attempt.
    fn held_by(&mut self, id: i64, attempt: i32) -> Option<&mut Job> {
        let job = self
            .jobs
            .iter_mut()
            .find(|job| job.id == id && job.attempt == attempt)?;
        matches!(job.state, State::Running { .. }).then_some(job)
    }

    fn settle(&mut self, id: i64, attempt: i32, end: End) -> bool {
        let place = self.place();
        let Some(job) = self.held_by(id, attempt) else {
            return false;
        };
        match end {
            End::Retry if job.attempt < job.max_attempts => {
                job.state = State::Available;
                job.place = place;
            }
            End::Release => {
                job.state = State::Available;
                job.place = place;
                job.max_attempts += 1;
            }
            End::Complete | End::Cancel | End::Retry => self.remove(id),
        }
        true
    }

    /// Removes it, and releases the next of its key.
    fn remove(&mut self, id: i64) {
        let Some(at) = self.jobs.iter().position(|job| job.id == id) else {
            return;
        };
        let key = self.jobs.remove(at).key;
        if key.is_some()
            && let Some(next) = self.jobs.iter_mut().find(|job| job.key == key)
        {
            next.state = State::Available;
        }
    }

    /// Sweeps in order; returns the ids of jobs whose last attempt was lost.
    fn sweep(&mut self) -> Vec<i64> {
        let mut place = self.next_place;
        // From the third loss on it is delayed: those come last, once they are due.
        for waits in [false, true] {
            for job in &mut self.jobs {
                let is_lost = job.state == State::Running { expired: true };
                if is_lost && job.attempt < job.max_attempts && (job.attempt > 2) == waits {
                    place += 1;
                    job.state = State::Available;
                    job.place = place;
                }
            }
        }
        self.next_place = place;
        let dead = self
            .jobs
            .iter()
            .filter(|job| job.state == State::Running { expired: true });
        dead.map(|job| job.id).collect()
    }

    fn rows(&self) -> Vec<Row> {
        let rows = self.jobs.iter().map(|job| {
            let state = match job.state {
                State::Held | State::Available => "available",
                State::Running { .. } => "running",
            };
            (
                job.id,
                state.to_owned(),
                job.state == State::Held,
                job.attempt,
                job.max_attempts,
            )
        });
        rows.collect()
    }
}

/// id, state, held, attempt, max_attempts
type Row = (i64, String, bool, i32, i32);

async fn rows(db: &TestDatabase) -> Vec<Row> {
    sqlx::query_as("select id, state, held, attempt, max_attempts from queue.jobs order by id")
        .fetch_all(&db.pool)
        .await
        .unwrap()
}

/// Plays a history; returns the first difference.
async fn play(db: &TestDatabase, history: &[Step]) -> Result<(), String> {
    sqlx::query("delete from queue.jobs").execute(&db.pool).await.unwrap();
    let mut model = Model::default();
    let mut claims: Vec<ClaimedJob> = Vec::new();
    for (nth, step) in history.iter().enumerate() {
        let disagree = |what: &str, real: String, wanted: String| {
            Err(format!("step {nth}, {step:?}: {what}: {real}, and should be {wanted}"))
        };
        match step {
            Step::Enqueue { key, max_attempts } => {
                let job = NewJob {
                    concurrency_key: key.map(|key| format!("key-{key}")),
                    max_attempts: *max_attempts,
                    run_id: Some(Uuid::now_v7()),
                    ..NewJob::new("step", json!({}))
                };
                let mut connection = db.pool.acquire().await.unwrap();
                let id = rejoin_queue::enqueue(&mut connection, &job).await.unwrap();
                model.enqueue(id, *key, *max_attempts);
            }
            Step::Claim { limit } => {
                let claimed = rejoin_queue::claim(
                    &db.db.pool_pg,
                    "default",
                    Uuid::now_v7(),
                    LEASE,
                    *limit,
                    &mut ClaimCursor::default(),
                )
                .await
                .unwrap();
                let real: Vec<(i64, i32)> = claimed.iter().map(|job| (job.id, job.attempt)).collect();
                let wanted = model.claim(*limit);
                if real != wanted {
                    return disagree("claimed", format!("{real:?}"), format!("{wanted:?}"));
                }
                claims.extend(claimed);
            }
            Step::Settle { claim, outcome } => {
                let Some(claim) = pick(&claims, *claim) else { continue };
                let settlement = Settlement {
                    job_id: claim.id,
                    attempt: claim.attempt,
                    max_attempts: claim.max_attempts,
                    outcome: match outcome {
                        End::Complete => Outcome::Complete,
                        End::Retry => Outcome::Retry {
                            error: "again".to_owned(),
                            after: Some(Duration::ZERO),
                        },
                        End::Release => Outcome::Release,
                        End::Cancel => Outcome::Cancel,
                    },
                };
                let settled = rejoin_queue::settle(&db.db.pool_pg, &[settlement], true).await.unwrap();
                let wanted = model.settle(claim.id, claim.attempt, *outcome);
                if settled.ids.contains(&claim.id) != wanted {
                    return disagree("settled", format!("{:?}", settled.ids), wanted.to_string());
                }
            }
            Step::Expire { claim } => {
                let Some(claim) = pick(&claims, *claim) else { continue };
                sqlx::query("update queue.jobs set lease_until = now() - interval '1 s' where id = $1 and attempt = $2 and state = 'running'")
                    .bind(claim.id)
                    .bind(claim.attempt)
                    .execute(&db.pool)
                    .await
                    .unwrap();
                if let Some(job) = model.held_by(claim.id, claim.attempt) {
                    job.state = State::Running { expired: true };
                }
            }
            Step::Sweep => {
                sweep::expired(&db.pool, support::later()).await.unwrap();
                // Time passes.
                sqlx::query("update queue.jobs set run_at = now() where state = 'available' and run_at > now()")
                    .execute(&db.pool)
                    .await
                    .unwrap();
                let dead = sweep::dead(&db.pool, support::later()).await.unwrap();
                let real: Vec<i64> = dead.iter().map(|job| job.id).collect();
                let wanted = model.sweep();
                if real != wanted {
                    return disagree("dead", format!("{real:?}"), format!("{wanted:?}"));
                }
                // Like a sweeper.
                for job in dead {
                    let mut connection = db.pool.acquire().await.unwrap();
                    settle::settle_one(&mut connection, job.id, job.attempt, "failed", Some("lost"))
                        .await
                        .unwrap();
                    model.remove(job.id);
                }
            }
            Step::Write { claim } => {
                let Some(claim) = pick(&claims, *claim) else { continue };
                let mut connection = db.pool.acquire().await.unwrap();
                let run_id = claim.run_id.expect("each job has one");
                let real = fencing::fence(&mut connection, run_id, claim.attempt).await.unwrap();
                let wanted = model.held_by(claim.id, claim.attempt).map(|job| job.id);
                if real != wanted {
                    return disagree("may write", format!("{real:?}"), format!("{wanted:?}"));
                }
            }
        }
        let (real, wanted) = (rows(db).await, model.rows());
        if real != wanted {
            return disagree("jobs", format!("{real:?}"), format!("{wanted:?}"));
        }
    }
    Ok(())
}

fn pick(claims: &[ClaimedJob], nth: usize) -> Option<&ClaimedJob> {
    // Newest first: most others have ended.
    claims.iter().rev().nth(nth % claims.len().max(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_histories_of_the_queue_agree_with_a_model() {
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let db = Arc::new(support::database().await);
        let runtime = Handle::current();
        threads.push(tokio::task::spawn_blocking(move || {
            let config = Config {
                cases: HISTORIES / THREADS,
                failure_persistence: None,
                max_shrink_iters: 2_000,
                ..Config::default()
            };
            TestRunner::new(config)
                .run(&prop::collection::vec(step(), 1..STEPS), |history| {
                    runtime.block_on(play(&db, &history)).map_err(TestCaseError::fail)
                })
                .map_err(|error| error.to_string())
        }));
    }
    for thread in threads {
        if let Err(error) = thread.await.unwrap() {
            panic!("{error}");
        }
    }
}
