//! The worker's heartbeat: renews its leases, stops the jobs that it has lost, and says whether its session holds its lock
//! (`rejoin_queue::presence`).

use std::time::Duration;

use rejoin_db::failure_log::{ErrorChain, FailureLog};
use rejoin_event_log::wakeup::{self, Hearing};
use rejoin_faults::Fault;
use rejoin_queue::lease;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::held_jobs::Jobs;
use crate::services::Services;

/// Retry delay of a failed heartbeat, as a fraction of the interval; its timeout is half the interval. So a worker
/// always renews its leases within one interval after the database is back. Sweeps wait that long.
const HEARTBEAT_RETRY_DIVISOR: u32 = 10;
const HEARTBEAT_LIMIT_DIVISOR: u32 = 2;
/// Minimum timeout of a heartbeat, so that a busy database is not taken for an unreachable one.
const HEARTBEAT_LIMIT_MIN: Duration = Duration::from_secs(1);

/// Renews all leases with one statement per interval. Jobs whose lease was lost are stopped.
pub async fn run(services: Services, jobs: Jobs, drain: CancellationToken, stop: CancellationToken) {
    let lease = services.config.lease();
    let limit = (services.config.heartbeat() / HEARTBEAT_LIMIT_DIVISOR).max(HEARTBEAT_LIMIT_MIN);
    let retry_delay = services.config.heartbeat() / HEARTBEAT_RETRY_DIVISOR;
    let mut ticks = interval(services.config.heartbeat());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = FailureLog::of("the heartbeat");
    let mut downtime = services.downtime.observe();
    let mut wakes = services.bus.subscribe();
    // As of the last heartbeat.
    let mut had_session_lock = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            // The bus is connected for the first time, or again.
            wake = wakeup::next(&mut wakes), if services.has_session_lock && !had_session_lock => {
                if !wake.all || services.bus.hearing() != Hearing::Listening {
                    continue;
                }
            }
            () = tokio::time::sleep(retry_delay), if downtime.is_down() => {}
            () = stop.cancelled() => return,
        }
        let holding: Vec<(i64, i32)> = jobs.with(|jobs| jobs.iter().map(|(id, held)| (*id, held.attempt)).collect());
        had_session_lock = services.has_session_lock && services.bus.hearing() == Hearing::Listening;
        let renewal = lease::heartbeat(
            &services.db.pool_pg,
            &services.worker,
            &holding,
            lease,
            drain.is_cancelled(),
            had_session_lock,
        );
        match tokio::time::timeout(limit, renewal).await {
            Ok(Ok(ours)) => {
                outage.over();
                downtime.record_answer();
                jobs.with(|jobs| {
                    for (id, attempt) in &holding {
                        if let Some(held) = jobs.get(id)
                            && held.attempt == *attempt
                            && !ours.contains(id)
                            && !rejoin_faults::enabled(Fault::NoFence)
                        {
                            held.signals.lost.cancel();
                        }
                    }
                });
            }
            Ok(Err(error)) => {
                outage.failed(ErrorChain(&error));
                downtime.record_failure();
            }
            Err(_) => {
                outage.failed("no response from the database in time");
                downtime.record_failure();
            }
        }
    }
}
