//! Tests of the settler's loop under thousands of interleavings: two workers, jobs that are taken over midway, and a database whose answers
//! fail, are late or never arrive, before, between and after its commits, and that can execute a call after its repetition.
//!
//! Properties: the outcome of an attempt that holds its lease is written once (I4), whatever the others of its batch; one of a lost lease
//! changes nothing; closing loses nothing; a batch keeps to its size; workers are woken after the last commit that made work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rejoin_interleave::{JoinHandle, any, explore, once_in, pause, spawn};
use tokio::sync::oneshot;

use super::*;
use crate::settle::Outcome;

/// Number of interleavings tested.
const ORDERS: usize = 1_500;
const JOBS: usize = 6;
const MAX_BATCH: usize = 4;

#[derive(Default)]
struct Job {
    attempt: i32,
    is_running: bool,
    /// What was written, with its attempt.
    written: Vec<(i32, Outcome)>,
}

#[derive(Default)]
struct Rows {
    jobs: [Job; JOBS],
    /// Number of commits that made work, and how many of them were announced.
    commits: usize,
    announced: usize,
    /// Answers that never arrive.
    unanswered: Vec<oneshot::Sender<Settled>>,
    calls: Vec<JoinHandle<()>>,
}

/// A model of a database: rows, and a lock held until a transaction ends.
#[derive(Clone, Default)]
struct Server {
    rows: Arc<Mutex<Rows>>,
    locks: Arc<tokio::sync::Mutex<()>>,
}

impl Server {
    fn rows<T>(&self, act: impl FnOnce(&mut Rows) -> T) -> T {
        act(&mut self.rows.lock().expect("nothing panics while it is held"))
    }

    /// Claims a job, or takes it from a lost attempt. Returns the new attempt, unless the job has ended.
    async fn claim(&self, job: usize) -> Option<i32> {
        let _locks = self.locks.lock().await;
        self.rows(|rows| {
            let job = &mut rows.jobs[job];
            if matches!(job.written.last(), Some((_, Outcome::Complete | Outcome::Cancel))) {
                return None;
            }
            job.attempt += 1;
            job.is_running = true;
            Some(job.attempt)
        })
    }

    /// Executes a call, from its arrival to its end: a statement for each state that jobs can get, each of which commits.
    async fn execute(self, batch: Vec<Settlement>, answer: oneshot::Sender<Settled>) {
        for _ in 0..any(3) {
            pause().await;
        }
        let mut settled = Settled::default();
        for state in [Outcome::Complete, Outcome::Cancel, Outcome::Release] {
            let locks = self.locks.lock().await;
            pause().await;
            if once_in(8) {
                // It is rolled back, and the connection breaks.
                return;
            }
            self.rows(|rows| {
                let mut makes_work = false;
                for settlement in batch.iter().filter(|of| of.outcome == state) {
                    let job = &mut rows.jobs[nth(settlement.job_id)];
                    if job.is_running && job.attempt == settlement.attempt {
                        job.is_running = false;
                        job.written.push((settlement.attempt, state.clone()));
                        settled.ids.push(settlement.job_id);
                        // One that has completed releases the next of its key.
                        makes_work |= state != Outcome::Cancel;
                    }
                }
                rows.commits += usize::from(makes_work);
                settled.makes_work |= makes_work;
            });
            drop(locks);
        }
        match any(6) {
            0 => drop(answer),
            1 => self.rows(|rows| rows.unanswered.push(answer)),
            // The caller may have given up.
            _ => drop(answer.send(settled)),
        }
    }
}

fn nth(job_id: i64) -> usize {
    usize::try_from(job_id).expect("ids count the jobs")
}

/// A worker's connection.
struct Connection(Server);

impl Store for Connection {
    type Failed = &'static str;

    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, &'static str> {
        assert!((1..=MAX_BATCH).contains(&batch.len()), "{} at once", batch.len());
        pause().await;
        if once_in(8) {
            return Err("no connection");
        }
        let (answer, answered) = oneshot::channel();
        let call = spawn(self.0.clone().execute(batch.to_vec(), answer));
        self.0.rows(|rows| rows.calls.push(call));
        answered.await.map_err(|_| "the connection broke")
    }
}

/// A worker, with its settler.
#[derive(Clone)]
struct Worker {
    settler: Settler,
    running: Arc<AtomicUsize>,
}

struct Beside {
    server: Server,
    running: Arc<AtomicUsize>,
}

impl Surroundings for Beside {
    fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    fn work_appeared(&self) {
        self.server.rows(|rows| rows.announced = rows.commits);
    }
}

impl Worker {
    fn of(server: &Server) -> (Self, [JoinHandle<()>; CALLS]) {
        let running = Arc::new(AtomicUsize::new(0));
        let beside = Beside {
            server: server.clone(),
            running: running.clone(),
        };
        let (settler, tasks) = Settler::over(Connection(server.clone()), MAX_BATCH, beside);
        (Self { settler, running }, tasks.map(spawn))
    }

    /// Executes an attempt of a job, up to handing in its outcome.
    async fn attempt(&self, job: usize, attempt: i32, outcome: Outcome) {
        self.running.fetch_add(1, Ordering::SeqCst);
        for _ in 0..any(3) {
            pause().await;
        }
        let settlement = Settlement {
            job_id: i64::try_from(job).expect("it is small"),
            attempt,
            max_attempts: 5,
            outcome,
        };
        self.settler.settle(settlement).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

fn any_outcome() -> Outcome {
    match any(3) {
        0 => Outcome::Complete,
        1 => Outcome::Cancel,
        _ => Outcome::Release,
    }
}

/// A job that the other worker, or the same once more, may take over. Returns the last attempt, and its outcome.
async fn run_once_or_twice(server: Server, workers: [Worker; 2], job: usize) -> (i32, Outcome) {
    let [first, second] = workers;
    let attempt = server.claim(job).await.expect("it is new");
    let outcome = any_outcome();
    let handed_in = outcome.clone();
    let running = spawn(async move { first.attempt(job, attempt, handed_in).await });
    let mut last = (attempt, outcome);
    if once_in(2) {
        for _ in 0..any(4) {
            pause().await;
        }
        if let Some(attempt) = server.claim(job).await {
            last = (attempt, Outcome::Complete);
            second.attempt(job, attempt, Outcome::Complete).await;
        }
    }
    running.await.expect("it ends well");
    last
}

#[test]
fn outcomes_that_share_a_call_are_each_written_once() {
    explore(ORDERS, || async {
        let server = Server::default();
        let (a, a_tasks) = Worker::of(&server);
        let (b, b_tasks) = Worker::of(&server);
        let jobs: [_; JOBS] = std::array::from_fn(|job| {
            let second = if once_in(4) { a.clone() } else { b.clone() };
            spawn(run_once_or_twice(server.clone(), [a.clone(), second], job))
        });
        drop((a, b));
        let mut expected = Vec::new();
        for job in jobs {
            expected.push(job.await.expect("it ends well"));
        }
        for task in a_tasks.into_iter().chain(b_tasks) {
            task.await.expect("it ends well");
        }
        for call in server.rows(|rows| std::mem::take(&mut rows.calls)) {
            call.await.expect("it ends well");
        }
        server.rows(|rows| {
            assert_eq!(
                rows.announced, rows.commits,
                "workers were woken after the last commit that made work"
            );
            for (job, last) in rows.jobs.iter().zip(expected) {
                assert_eq!(job.written.last(), Some(&last), "the last attempt's outcome is written");
                let attempts: Vec<i32> = job.written.iter().map(|(attempt, _)| *attempt).collect();
                assert!(
                    attempts.is_sorted_by(|a, b| a < b),
                    "{attempts:?}: one was written twice, or late"
                );
            }
        });
    });
}

/// One that was never taken over has its outcome, also if it is the last one before the end.
#[test]
fn closing_settles_what_waits() {
    explore(ORDERS / 4, || async {
        let server = Server::default();
        let (worker, tasks) = Worker::of(&server);
        let count = any(JOBS + 1);
        for job in 0..count {
            let attempt = server.claim(job).await.expect("it is new");
            worker.attempt(job, attempt, Outcome::Release).await;
        }
        drop(worker);
        for task in tasks {
            task.await.expect("it ends well");
        }
        let written = server.rows(|rows| rows.jobs.iter().filter(|job| job.written.len() == 1).count());
        assert_eq!(written, count);
    });
}
