//! The job poller: claims due jobs into bounded slots, spawns their handlers, passes cancellations on, and drains.
//!
//! Wake-up, poll, freed slot and shutdown share one `select!`. A worker that can't reach the database keeps its jobs:
//! nothing can be written meanwhile, and once reconnected it asks which of them it still holds. Jobs that another
//! worker has taken over are then stopped (every write is fenced by the attempt, I4).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use rejoin_db::PgError;
use rejoin_db::config::poll_interval;
use rejoin_db::failure_log::{ErrorChain, FailureLog};
use rejoin_event_log::wakeup::{self, Wake};
use rejoin_extension::Signals;
use rejoin_faults::Fault;
use rejoin_queue::settler::Surroundings;
use rejoin_queue::{ClaimCursor, ClaimedJob, Outcome, Settlement, Settler, SettlerOptions, lease};
use rejoin_runs::runs;
use rejoin_telemetry::labels;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use uuid::Uuid;

use crate::held_jobs::{Held, Jobs};
use crate::jobs::Handlers;
use crate::services::Services;
use crate::{executor, heartbeat};

/// Batching delay of freed slots: they are filled together, as soon as half a batch is free, or this long after the
/// first.
const REFILL_DELAY: Duration = Duration::from_millis(3);
/// Backoff after a wake-up that yielded no job; doubles each time, so that slower workers claim in batches.
const IDLE_BACKOFF_MIN: Duration = Duration::from_micros(500);
/// Maximum backoff.
const IDLE_BACKOFF_MAX: Duration = Duration::from_millis(8);
/// Delay after a failed claim; doubles each time, up to [`CLAIM_RETRY_MAX`].
const CLAIM_RETRY: Duration = Duration::from_millis(100);
const CLAIM_RETRY_MAX: Duration = Duration::from_millis(800);
/// Timeout of the last settlements after the drain.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);

/// State shared by a worker's claims.
struct JobPoller {
    services: Services,
    handlers: Handlers,
    jobs: Jobs,
    /// The futures that run the jobs.
    tasks: TaskTracker,
    /// Notified when a slot becomes free.
    freed: Arc<Notify>,
    settler: Settler,
    drain: CancellationToken,
}

/// What the settler knows of the worker.
struct WorkerOfSettler {
    services: Services,
    jobs: Jobs,
}

impl Surroundings for WorkerOfSettler {
    fn running(&self) -> usize {
        self.jobs.with(|jobs| jobs.len())
    }

    fn work_appeared(&self) {
        wake_queues(&self.services);
    }
}

/// Runs until `drain` is cancelled and all claimed jobs are settled or released.
pub async fn run(services: Services, handlers: Handlers, drain: CancellationToken) {
    let jobs = Jobs::default();
    let options = SettlerOptions {
        max_batch: usize::from(services.config.claim_batch),
        keep_completed: services.config.keep_jobs_h > 0,
    };
    let worker = WorkerOfSettler {
        services: services.clone(),
        jobs: jobs.clone(),
    };
    let (settler, settling) = Settler::start(services.db.pool_pg.clone(), options, worker);
    let stop = CancellationToken::new();
    let heartbeat_task = tokio::spawn(heartbeat::run(
        services.clone(),
        jobs.clone(),
        drain.clone(),
        stop.clone(),
    ));
    let mut outage = FailureLog::of("claiming");
    let mut claim_retry = CLAIM_RETRY;
    let watch_task = tokio::spawn(watch_runs(services.clone(), jobs.clone(), stop.clone()));
    let poller = JobPoller {
        services,
        handlers,
        jobs,
        tasks: TaskTracker::new(),
        freed: Arc::new(Notify::new()),
        settler,
        drain,
    };
    let (services, drain) = (&poller.services, &poller.drain);

    let mut wakes = services.bus.subscribe();
    let mut poll = interval(stagger(poll_interval(), services.worker.id));
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut cursors: Vec<ClaimCursor> = services.config.queues.iter().map(|_| ClaimCursor::default()).collect();
    // Consecutive wake-ups that yielded nothing.
    let mut empty_wakeups = 0_u32;
    let mut is_woken = false;
    loop {
        let mut round = ClaimRound::default();
        for (queue, cursor) in services.config.queues.iter().zip(&mut cursors) {
            match poller.claim_all(queue, cursor).await {
                Ok(claimed) => round.add(claimed),
                Err(error) => {
                    outage.failed(ErrorChain(&error));
                    round.failed = true;
                    break;
                }
            }
        }
        if round.failed {
            // Any further claim would fail again: freed slots and due full scans are ignored.
            tokio::select! {
                () = drain.cancelled() => break,
                () = tokio::time::sleep(claim_retry) => {}
            }
            claim_retry = (claim_retry * 2).min(CLAIM_RETRY_MAX);
            continue;
        }
        outage.over();
        claim_retry = CLAIM_RETRY;
        empty_wakeups = match (round.claimed, is_woken) {
            // Not for lack of a free slot.
            (0, true) if !round.more => empty_wakeups + 1,
            (0, _) => empty_wakeups,
            (1.., _) => 0,
        };
        is_woken = false;
        // The deadline for filling freed slots, or for a full scan.
        let mut refill_at = match poller.free_slots() {
            0 => None,
            _ => cursors.iter().filter_map(ClaimCursor::next_scan_at).min(),
        };
        loop {
            tokio::select! {
                () = drain.cancelled() => break,
                _ = poll.tick() => break,
                // If claims got all jobs, a wake-up announces further ones.
                () = poller.freed.notified(), if round.more => {
                    if poller.free_slots() * 2 >= poller.batch() {
                        break;
                    }
                    let latest = Instant::now() + REFILL_DELAY;
                    refill_at = Some(refill_at.map_or(latest, |at| at.min(latest)));
                }
                () = sleep_until(refill_at.unwrap_or_else(Instant::now)), if refill_at.is_some() => break,
                wake = wakeup::next(&mut wakes) => {
                    if wake.all || services.config.queues.iter().any(|queue| wake.queues.contains(queue)) {
                        is_woken = true;
                        let Some(backoff) = idle_backoff(empty_wakeups) else { break };
                        let latest = Instant::now() + backoff;
                        refill_at = Some(refill_at.map_or(latest, |at| at.min(latest)));
                    }
                }
            }
        }
        if drain.is_cancelled() {
            break;
        }
    }

    info!(
        running = poller.jobs.with(|jobs| jobs.len()),
        "draining: handing over running jobs"
    );
    let JobPoller {
        services,
        tasks,
        settler,
        ..
    } = poller;
    tasks.close();
    let limit = Duration::from_secs(services.config.drain_s);
    if tokio::time::timeout(limit, tasks.wait()).await.is_err() {
        warn!(
            "some jobs did not stop within {} s; their leases will expire",
            limit.as_secs()
        );
    }
    drop(settler);
    let _ = tokio::time::timeout(SETTLE_LIMIT, settling).await;
    stop.cancel();
    let _ = heartbeat_task.await;
    let _ = watch_task.await;
    wake_queues(&services);
    if let Err(error) = lease::leave(&services.db.pool_pg, services.worker.id).await {
        warn!(error = %ErrorChain(&error), "removing the worker's row failed; it will expire");
    }
    // The bus's own task sends the wake-up of the release.
    tokio::time::sleep(Duration::from_millis(50)).await;
    info!("drained");
}

/// Wakes the workers of this worker's queues.
fn wake_queues(services: &Services) {
    services.bus.publish(Wake {
        queues: services.config.queues.iter().cloned().collect(),
        ..Wake::default()
    });
}

/// Staggers the polls of a fleet, so that workers don't poll at the same moment.
fn stagger(base: Duration, id: Uuid) -> Duration {
    base + Duration::from_millis(u64::from(id.as_bytes()[15]) / 2)
}

/// Returns the backoff of a woken worker. None: no backoff.
fn idle_backoff(empty_wakeups: u32) -> Option<Duration> {
    // A single one may be chance.
    let factor = 2_u32.saturating_pow(empty_wakeups.checked_sub(2)?);
    Some(IDLE_BACKOFF_MIN.saturating_mul(factor).min(IDLE_BACKOFF_MAX))
}

/// The result of a round of claims.
#[derive(Default)]
struct ClaimRound {
    claimed: usize,
    /// Whether there may be more jobs.
    more: bool,
    /// Whether the database failed to respond.
    failed: bool,
}

impl ClaimRound {
    fn add(&mut self, other: Self) {
        self.claimed += other.claimed;
        self.more |= other.more;
    }
}

impl JobPoller {
    /// Returns the number of free slots.
    fn free_slots(&self) -> usize {
        self.services
            .config
            .slots
            .saturating_sub(self.jobs.with(|jobs| jobs.len()))
    }

    /// Returns the number of jobs per claim when all slots are free.
    fn batch(&self) -> usize {
        let config = &self.services.config;
        config.slots.min(usize::from(config.claim_batch))
    }

    /// Claims until slots or jobs run out.
    async fn claim_all(&self, queue: &str, cursor: &mut ClaimCursor) -> Result<ClaimRound, PgError> {
        let mut backed_up = false;
        let mut round = ClaimRound::default();
        loop {
            let free = self.free_slots();
            let limit = free.min(self.batch());
            if limit == 0 || self.drain.is_cancelled() {
                round.more = true;
                return Ok(round);
            }
            let claim = async |cursor: &mut ClaimCursor| {
                let (db, worker) = (&self.services.db.pool_pg, self.services.worker.id);
                rejoin_queue::claim(db, queue, worker, self.services.config.lease(), limit, cursor).await
            };
            // While the queue has a backlog, two claims at a time: one executes while the other waits for the disk.
            let claimed = if backed_up && free >= 2 * limit {
                let mut beside = cursor.clone();
                let (one, other) = tokio::join!(claim(cursor), claim(&mut beside));
                cursor.merge(beside);
                match (one, other) {
                    (Ok(mut one), Ok(other)) => {
                        one.extend(other);
                        Ok((one, 2 * limit))
                    }
                    // The result of a successful one counts.
                    (Ok(got), Err(_)) | (Err(_), Ok(got)) => Ok((got, 2 * limit)),
                    (Err(error), Err(_)) => Err(error),
                }
            } else {
                claim(cursor).await.map(|claimed| (claimed, limit))
            };
            let (claimed, asked) = claimed?;
            let full = claimed.len() == asked;
            backed_up = full;
            round.claimed += claimed.len();
            round.more = full;
            metrics::counter!("rejoin_jobs_claimed_total", "queue" => queue.to_owned()).increment(claimed.len() as u64);
            for job in claimed {
                metrics::histogram!("rejoin_job_wait_seconds", "queue" => queue.to_owned())
                    .record(job.waited.as_secs_f64());
                self.start(job);
            }
            // If few slots are left, more are filled together later.
            if !full || self.free_slots() * 2 < self.batch() {
                return Ok(round);
            }
        }
    }

    fn start(&self, job: ClaimedJob) {
        let signals = Signals {
            cancel: CancellationToken::new(),
            lost: CancellationToken::new(),
            drain: self.drain.clone(),
        };
        let held = Held {
            attempt: job.attempt,
            run_id: job.run_id,
            signals: signals.clone(),
        };
        self.jobs.with(|jobs| jobs.insert(job.id, held));
        metrics::gauge!("rejoin_jobs_running").increment(1.0);
        let (services, handlers, jobs) = (self.services.clone(), self.handlers.clone(), self.jobs.clone());
        let (freed, settler) = (self.freed.clone(), self.settler.clone());
        let kind = labels::bounded("kind", &job.kind);
        self.tasks.spawn(async move {
            let began = Instant::now();
            let (id, attempt, max_attempts, is_run) = (job.id, job.attempt, job.max_attempts, job.run_id.is_some());
            // A panic ends only this job's attempt.
            let executing = AssertUnwindSafe(executor::execute_job(services, handlers, job, signals)).catch_unwind();
            let outcome = executing.await.unwrap_or_else(|panic| {
                Some(Outcome::Retry {
                    error: format!("the job panicked: {}", panic_message(panic.as_ref())),
                    after: None,
                })
            });
            // A run needs its `error` and `done`: the sweep writes them once the lease of its last attempt has expired.
            let leave_to_sweep = matches!(outcome, Some(Outcome::Retry { .. })) && is_run && attempt >= max_attempts;
            if let Some(outcome) = outcome.filter(|_| !leave_to_sweep) {
                let settlement = Settlement {
                    job_id: id,
                    attempt,
                    max_attempts,
                    outcome,
                };
                settler.settle(settlement).await;
            }
            jobs.with(|jobs| jobs.remove(&id));
            metrics::gauge!("rejoin_jobs_running").decrement(1.0);
            metrics::histogram!("rejoin_job_seconds", "kind" => kind).record(began.elapsed().as_secs_f64());
            freed.notify_one();
        });
    }
}

/// Returns a panic's message.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no words")
}

/// Passes cancellations on to the executors: immediately on a wake-up, else within the poll interval. And to held runs, that a call has ended.
async fn watch_runs(services: Services, jobs: Jobs, stop: CancellationToken) {
    let mut wakes = services.bus.subscribe();
    let mut poll = interval(poll_interval());
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = FailureLog::of("looking up cancelled runs");
    loop {
        let look = tokio::select! {
            () = stop.cancelled() => return,
            _ = poll.tick() => true,
            wake = wakeup::next(&mut wakes) => {
                services.held_runs.wake(&wake);
                if !wake.cancels.is_empty() {
                    cancel(&jobs, wake.cancels.iter().copied());
                }
                wake.all
            }
        };
        if !look {
            continue;
        }
        let running: Vec<Uuid> = jobs.with(|jobs| jobs.values().filter_map(|held| held.run_id).collect());
        if running.is_empty() {
            continue;
        }
        match runs::cancel_requested(&services.db.pool_sqlx, &running).await {
            Ok(cancelled) => {
                outage.over();
                cancel(&jobs, cancelled.into_iter());
            }
            Err(error) => outage.failed(ErrorChain(&error)),
        }
    }
}

fn cancel(jobs: &Jobs, run_ids: impl Iterator<Item = Uuid>) {
    if rejoin_faults::enabled(Fault::CancelIgnored) {
        return;
    }
    let run_ids: Vec<Uuid> = run_ids.collect();
    jobs.with(|jobs| {
        for held in jobs.values() {
            if held.run_id.is_some_and(|run_id| run_ids.contains(&run_id)) {
                held.signals.cancel.cancel();
            }
        }
    });
}
