//! Systematic concurrency tests: runs our own code in thousands of interleavings, with another scheduler, locks and
//! clock. Unit tests of `shared` and `api` use these in place of std's and tokio's.
//!
//! # Layout
//! - here      [`explore`]: one model, many interleavings
//! - `sync`    locks and atomics: each access is a scheduling point
//! - `time`    a clock moved by the scheduler: any time may pass between two steps
//!
//! The internals of tokio's channels and notifications are not interleaved, only their users are: at each `await`. A
//! failure prints the seed of its interleaving; `SHUTTLE_RANDOM_SEED=… cargo test …` runs that one first.

pub mod time;

use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner, rand::Rng};

pub use shuttle::future::{JoinHandle, spawn, yield_now};

/// Locks and atomics that yield to the scheduler.
pub mod sync {
    pub use shuttle::sync::{Mutex, MutexGuard, PoisonError, atomic};
}

/// A fixed seed: the same interleavings every time.
const SEED: u64 = 0x2026_1122;
/// One in this many interleavings is mostly round-robin, with this number of preemptions: rare bugs need few of them,
/// and time passes only if no task can run. The others are random throughout.
const IN_TURN_SHARE: usize = 4;
const IN_TURN_CHANGES: usize = 3;
/// Maximum number of steps of a model: beyond it, it waits for something that never comes, while others loop.
const MAX_STEPS: usize = 200_000;
/// A spawned future's stack size: debug builds of readers and writers are large.
const STACK_BYTES: usize = 256 * 1024;

/// Runs `model` to its end in this many interleavings. Fails if the model panics or deadlocks. The model must end
/// everything that it spawns.
pub fn explore<F>(orders: usize, model: impl Fn() -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let model = Arc::new(model);
    let in_turn = orders / IN_TURN_SHARE;
    run(RandomScheduler::new_from_seed(SEED, orders - in_turn), model.clone());
    if in_turn > 0 {
        run(PctScheduler::new_from_seed(SEED, IN_TURN_CHANGES, in_turn), model);
    }
}

fn run<F>(scheduler: impl Scheduler + 'static, model: Arc<impl Fn() -> F + Send + Sync + 'static>)
where
    F: Future<Output = ()> + 'static,
{
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    // They are long; the seed suffices.
    config.failure_persistence = FailurePersistence::None;
    Runner::new(scheduler, config).run(move || {
        time::begin();
        let clock = spawn(time::pass());
        shuttle::future::block_on(model());
        time::end();
        shuttle::future::block_on(clock).expect("the clock is not aborted");
    });
}

/// Returns a number below `end`, chosen by the scheduler.
pub fn any(end: usize) -> usize {
    shuttle::rand::thread_rng().gen_range(0..end)
}

/// Returns true once in `n` times on average.
pub fn once_in(n: usize) -> bool {
    any(n) == 0
}

/// Yields for a number of steps chosen by the scheduler.
pub async fn pause() {
    for _ in 0..any(3) {
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;
    use crate::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_lost_update_is_found() {
        let found = catch_unwind(AssertUnwindSafe(|| {
            explore(200, || async {
                let count = Arc::new(AtomicU64::new(0));
                let both = [count.clone(), count.clone()].map(|count| {
                    spawn(async move {
                        let before = count.load(Ordering::SeqCst);
                        count.store(before + 1, Ordering::SeqCst);
                    })
                });
                for one in both {
                    one.await.expect("it ends");
                }
                assert_eq!(count.load(Ordering::SeqCst), 2);
            });
        }));
        assert!(found.is_err(), "two hundred orders, and in none did they meet");
    }

    #[test]
    fn time_passes_in_the_order_of_deadlines_for_those_who_wait() {
        explore(200, || async {
            let began = time::Instant::now();
            let late = spawn(async {
                time::sleep(Duration::from_secs(2)).await;
                time::Instant::now()
            });
            let limited = time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await;
            assert!(limited.is_err());
            let now = time::Instant::now();
            assert!(now >= began + Duration::from_secs(1));
            assert!(late.await.expect("it ends") >= began + Duration::from_secs(2));
        });
    }

    #[test]
    fn a_wait_without_end_is_found() {
        let found = catch_unwind(AssertUnwindSafe(|| {
            explore(1, || async {
                std::future::pending::<()>().await;
            });
        }));
        assert!(found.is_err());
    }
}
