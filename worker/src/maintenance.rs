//! Fleet-wide sweeps, run periodically by every worker. Each is idempotent, needs no leader, and skips rows that others
//! are working on.
//!
//! - `dead_jobs` jobs whose attempts are exhausted

mod dead_jobs;

use std::fmt::Display;
use std::time::Duration;

use futures::future::join_all;
use rejoin_archive::leftovers::{self, SweepError};
use rejoin_archive::moving::{self, MoveError};
use rejoin_commands::{AnswerError, ChangeDag, CloseQuestion, Closing, DagChange, DagError, FireSchedule};
use rejoin_db::failure_log::{ErrorChain, FailureLog};
use rejoin_db::vacuum_blockers;
use rejoin_event_log::wakeup::{Hearing, Wake};
use rejoin_event_log::{compaction, retention};
use rejoin_files::objects::{self, SweepError as FilesSweepError};
use rejoin_queue::presence::{self, PresenceWatch};
use rejoin_queue::sweep::{self, AvailabilityWatch};
use rejoin_runs::contexts::location;
use rejoin_runs::{consoles, message_search, questions};
use rejoin_scheduling::{schedules, tasks};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::dead_jobs::sweep_once;
use crate::mcp_accounts;
use crate::services::Services;

/// Interval of checks for expired leases: with the lease, it bounds the recovery time after a crash (I6).
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Interval of retention and compaction.
const UPKEEP_EVERY: Duration = Duration::from_secs(60);
/// Pause between their transactions, as a multiple of the last one's duration: they use at most a third of one
/// connection's time, so that appends are not slowed down.
const UPKEEP_REST: u32 = 2;
/// Interval of checks for messages without words for the search.
const INDEX_EVERY: Duration = Duration::from_secs(5);
/// Interval of checks for vacuum blockers, and of log lines about the same one.
const HORIZON_EVERY: Duration = Duration::from_secs(15);
const HORIZON_SAID_EVERY: Duration = Duration::from_secs(600);
const DAY_S: f64 = 24.0 * 3600.0;
/// Lifetime of idempotency keys, in hours.
const KEEP_KEYS_H: f64 = 48.0;
/// Maximum number of questions expired per sweep.
const QUESTIONS: i64 = 100;
/// Maximum number of consoles removed per statement.
const CONSOLES: i64 = 500;
/// Maximum number of DAGs per sweep.
const DAGS: i64 = 20;

/// Maximum number of schedules fired per sweep.
const FIRINGS: usize = 100;

/// Runs the sweeps until the worker drains.
pub async fn run(services: Services, drain: CancellationToken) {
    tokio::select! {
        () = drain.cancelled() => {}
        // Independently: expired leases must not wait for the removal of old rows.
        ((), (), (), (), (), (), (), ()) = async {
            tokio::join!(
                sweep_leases(&services),
                sweep_workers(&services),
                sweep(&services),
                keep_up(&services),
                keep_archive(&services),
                index_messages(&services),
                watch_horizon(&services),
                sweep_extensions(&services),
            )
        } => {}
    }
}

/// Logs the result of a round of work.
fn note<E: Display>(outage: &mut FailureLog, done: Result<(), E>) {
    match done {
        Ok(()) => outage.over(),
        Err(error) => outage.failed(error),
    }
}

async fn sweep_leases(services: &Services) {
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = FailureLog::of("sweeping leases");
    let mut watch = AvailabilityWatch::new(services.config.heartbeat());
    loop {
        tick.tick().await;
        note(&mut outage, sweep_once(services, &mut watch).await);
    }
}

/// Releases the jobs of workers that have died.
async fn sweep_workers(services: &Services) {
    if !services.has_session_lock {
        return;
    }
    let mut tick = interval(presence::LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = FailureLog::of("looking for workers that died");
    let mut watch = PresenceWatch::new(services.worker.id, services.config.heartbeat());
    loop {
        tick.tick().await;
        note(&mut outage, release_jobs_of_dead(services, &mut watch).await);
    }
}

async fn release_jobs_of_dead(services: &Services, watch: &mut PresenceWatch) -> Result<(), String> {
    let db = &services.db.pool_sqlx;
    let failed = |error: sqlx::Error| ErrorChain(&error).to_string();
    let is_connected = services.bus.hearing() == Hearing::Listening;
    let Some(gone) = watch.look(db, is_connected).await.map_err(failed)? else {
        return Ok(());
    };
    let released = presence::release(db, &gone).await.map_err(failed)?;
    if released > 0 {
        info!(
            jobs = released,
            workers = gone.workers.len(),
            "workers died; their jobs are available again"
        );
        metrics::counter!("rejoin_leases_expired_total").increment(released);
        services.bus.publish(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
    }
    Ok(())
}

async fn sweep(services: &Services) {
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut questions = FailureLog::of("expiring unanswered questions");
    let mut tasks = FailureLog::of("starting tasks that are ready");
    let mut schedules = FailureLog::of("firing schedules");
    let mut accounts = FailureLog::of("answering questions that wait for accounts");
    let mut revocations = FailureLog::of("revoking disconnected accounts");
    loop {
        tick.tick().await;
        note(&mut questions, expire_questions(services).await);
        note(&mut tasks, schedule_tasks(services).await);
        note(
            &mut schedules,
            fire_schedules(services)
                .await
                .map_err(|error| ErrorChain(&error).to_string()),
        );
        let failed = |error: sqlx::Error| ErrorChain(&error).to_string();
        let answered = mcp_accounts::answer_connected(services).await;
        note(&mut accounts, answered.map_err(failed));
        let revoked = mcp_accounts::revoke_disconnected(services).await;
        note(&mut revocations, revoked.map_err(failed));
    }
}

async fn keep_up(services: &Services) {
    let mut tick = interval(UPKEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut retention = FailureLog::of("retention");
    let mut compaction = FailureLog::of("compacting events");
    loop {
        tick.tick().await;
        note(
            &mut retention,
            retain_once(services)
                .await
                .map_err(|error| ErrorChain(&error).to_string()),
        );
        note(
            &mut compaction,
            compact_all(services)
                .await
                .map_err(|error| ErrorChain(&error).to_string()),
        );
    }
}

/// Moves old logs to the archive, and removes what is left there. Apart from retention and compaction, which must not wait for a store.
async fn keep_archive(services: &Services) {
    let mut tick = interval(UPKEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut moving = FailureLog::of("archiving old logs");
    let mut removing = FailureLog::of("removing objects from the archive");
    loop {
        tick.tick().await;
        let removed = remove_archived(services).await;
        note(&mut removing, removed.map_err(|error| ErrorChain(&error).to_string()));
        let moved = archive_all(services).await;
        note(&mut moving, moved.map_err(|error| ErrorChain(&error).to_string()));
    }
}

/// Indexes messages from before the search, and those of projects whose language was changed.
async fn index_messages(services: &Services) {
    let mut tick = interval(INDEX_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = FailureLog::of("indexing messages for the search");
    loop {
        tick.tick().await;
        let indexed = async {
            loop {
                let began = Instant::now();
                if !message_search::index_backlog(&services.db.pool_sqlx).await? {
                    return Ok::<(), sqlx::Error>(());
                }
                sleep(began.elapsed() * UPKEEP_REST).await;
            }
        };
        note(
            &mut outage,
            indexed.await.map_err(|error| ErrorChain(&error).to_string()),
        );
    }
}

/// The sweeps of extensions, each at its own pace: one that is slow delays no other.
async fn sweep_extensions(services: &Services) {
    let sweeps = services.extensions.sweeps();
    join_all(sweeps.iter().map(|one| async {
        let host = services.host();
        let mut tick = interval(one.every());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut outage = FailureLog::of(one.what());
        loop {
            tick.tick().await;
            let done = one.sweep(&host).await;
            note(&mut outage, done.map_err(|error| ErrorChain(&*error).to_string()));
        }
    }))
    .await;
}

/// Reports vacuum blockers.
async fn watch_horizon(services: &Services) {
    let mut said: Option<Instant> = None;
    let mut outage = FailureLog::of("looking up long-running transactions");
    let limit_s = services.config.old_transaction_s as f64;
    // More often with a low threshold, as in tests.
    let mut tick = interval(HORIZON_EVERY.min(Duration::from_secs(services.config.old_transaction_s.max(1))));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let asked = async { vacuum_blockers::oldest(&mut *services.db.pool_sqlx.acquire().await?).await };
        let oldest = match asked.await {
            Ok(oldest) => oldest,
            Err(error) => {
                outage.failed(ErrorChain(&error));
                continue;
            }
        };
        outage.over();
        metrics::gauge!("rejoin_oldest_transaction_seconds").set(oldest.as_ref().map_or(0.0, |holder| holder.age_s));
        match oldest.filter(|holder| holder.age_s > limit_s) {
            Some(holder) if said.is_none_or(|at| at.elapsed() >= HORIZON_SAID_EVERY) => {
                warn!(
                    held_by = holder.what,
                    age_s = holder.age_s.round(),
                    "a long-running transaction blocks vacuum: dead rows cannot be removed, and tables grow"
                );
                said = Some(Instant::now());
            }
            Some(_) => {}
            None => {
                if said.take().is_some() {
                    info!("no long-running transaction blocks vacuum any longer");
                }
            }
        }
    }
}

/// Expires unanswered questions: their runs continue without an answer.
async fn expire_questions(services: &Services) -> Result<(), String> {
    let hours = services.config.question_expires_h;
    if hours <= 0.0 {
        return Ok(());
    }
    let overdue = questions::overdue(&services.db.pool_sqlx, hours * 3600.0, QUESTIONS)
        .await
        .map_err(|error| error.to_string())?;
    for id in overdue {
        let closing = Closing::Expire;
        match services.execute(&CloseQuestion { id, closing }).await {
            // Another worker was faster.
            Ok(_) | Err(AnswerError::Closed { .. } | AnswerError::NotFound | AnswerError::NoSuchCall { .. }) => {}
            Err(error @ (AnswerError::Unfit(_) | AnswerError::Database(_))) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Starts tasks that waited for others of their workspace, and settles those whose run ended on a worker that died then: the end of a task's run
/// continues its own DAG only.
async fn schedule_tasks(services: &Services) -> Result<(), String> {
    let ready = tasks::able_to_proceed(&services.db.pool_sqlx, DAGS)
        .await
        .map_err(|error| error.to_string())?;
    for id in ready {
        let change = DagChange::Proceed;
        match services.execute(&ChangeDag { id, change }).await {
            Ok(_) | Err(DagError::NotFound | DagError::Stands(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Fires due schedules. Concurrent workers fire different ones.
async fn fire_schedules(services: &Services) -> Result<(), sqlx::Error> {
    if !schedules::any_due(&services.db.pool_sqlx).await? {
        return Ok(());
    }
    for _ in 0..FIRINGS {
        let Some(fired) = services.execute(&FireSchedule).await? else {
            break;
        };
        match &fired.error {
            None => metrics::counter!("rejoin_schedules_fired_total").increment(1),
            Some(error) => {
                metrics::counter!("rejoin_schedules_failed_total").increment(1);
                warn!(schedule = %fired.schedule_id, name = fired.name, error, "a schedule started nothing");
            }
        }
    }
    Ok(())
}

async fn retain_once(services: &Services) -> Result<(), sqlx::Error> {
    let db = &services.db.pool_sqlx;
    let hours = |h: u64| h as f64 * 3600.0;
    sweep::retention(
        db,
        hours(services.config.keep_jobs_h),
        hours(services.config.keep_dead_jobs_h),
    )
    .await?;
    if services.config.keep_events_h > 0.0 {
        let mut removed = 0;
        loop {
            let began = Instant::now();
            let trimmed = retention::trim(db, services.config.keep_events_h * 3600.0).await?;
            removed += trimmed.events;
            if !trimmed.more {
                break;
            }
            sleep(began.elapsed() * UPKEEP_REST).await;
        }
        if removed > 0 {
            info!(events = removed, "old events removed");
        }
    }
    sqlx::query!(
        "delete from kb.idempotency_keys where created_at < now() - make_interval(secs => $1)",
        KEEP_KEYS_H * 3600.0
    )
    .execute(db)
    .await?;
    let days = services.config.keep_consoles_d;
    while days > 0.0 && consoles::sweep(db, days, CONSOLES).await? == CONSOLES.unsigned_abs() {}
    while rejoin_files::sweep(db, services.config.keep_files_h * 3600.0).await? {}
    remove_objects(services).await?;
    location::sweep(db).await?;
    mcp_accounts::tidy(services).await?;
    sqlx::query!("delete from kb.stream_tickets where expires_at < now()")
        .execute(db)
        .await?;
    Ok(())
}

/// Removes the objects of deleted files. An unreachable object store does not delay other maintenance.
async fn remove_objects(services: &Services) -> Result<(), sqlx::Error> {
    loop {
        match objects::sweep(&services.db.pool_sqlx, services.files.objects()).await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(FilesSweepError::Database(error)) => return Err(error),
            Err(FilesSweepError::ObjectStore(error)) => {
                warn!(%error, "what deleted files have left in the object store could not be removed; it is tried again");
                return Ok(());
            }
        }
    }
}

async fn compact_all(services: &Services) -> Result<(), sqlx::Error> {
    let after_s = services.config.compact_events_after_s;
    if after_s == 0 {
        return Ok(());
    }
    let (mut runs, mut rows) = (0, 0);
    loop {
        let began = Instant::now();
        let compacted = compaction::compact(&services.db.pool_sqlx, after_s as f64).await?;
        runs += compacted.runs;
        rows += compacted.rows_before - compacted.rows_after;
        if compacted.runs == 0 {
            break;
        }
        sleep(began.elapsed() * UPKEEP_REST).await;
    }
    if rows > 0 {
        info!(runs, rows, "events compacted; number of rows saved");
    }
    Ok(())
}

/// Moves the logs that are due.
async fn archive_all(services: &Services) -> Result<(), MoveError> {
    let days = services.config.archive.archive_after_days;
    let Some(archive) = services.archive.as_ref().filter(|_| days > 0.0) else {
        return Ok(());
    };
    let (mut objects, mut events) = (0, 0);
    loop {
        let began = Instant::now();
        let (db, process) = (&services.db.pool_sqlx, services.worker.id);
        let archived = moving::archive_next(db, archive, days * DAY_S, process).await?;
        objects += archived.objects;
        events += archived.events;
        if !archived.more {
            break;
        }
        sleep(began.elapsed() * UPKEEP_REST).await;
    }
    if events > 0 {
        info!(objects, events, "old logs archived");
    }
    Ok(())
}

/// Removes what incomplete uploads, deleted logs and retention have left in the archive's store.
async fn remove_archived(services: &Services) -> Result<(), SweepError> {
    while leftovers::sweep(&services.db.pool_sqlx, services.archive.as_ref()).await? {}
    Ok(())
}
