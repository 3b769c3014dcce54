//! Jobs whose attempts are exhausted: their runs fail.

use rejoin_commands::{EndRemoteCall, FencedError, FinishRun, RemoteEnd, RunError};
use rejoin_db::failure_log::ErrorChain;
use rejoin_event_log::stream::Seen;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::sweep::{self, AvailabilityWatch, DeadJob};
use rejoin_queue::{Outcome, Settlement};
use rejoin_runs::remote_calls;
use rejoin_runs::runs;
use rejoin_types::events::DoneStatus;
use rejoin_types::ids;
use serde_json::json;
use tracing::info;

use crate::services::Services;

pub(super) async fn sweep_once(services: &Services, watch: &mut AvailabilityWatch) -> Result<(), String> {
    let db = &services.db.pool_sqlx;
    let failed = |error: sqlx::Error| ErrorChain(&error).to_string();
    let orphaned_keys = sweep::orphaned_keys(db).await.map_err(failed)?;
    if orphaned_keys > 0 {
        services.bus.publish(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
    }
    // While live workers may not have renewed their leases yet, an expired one means nothing.
    let Some(until) = watch.sweep_deadline(db).await.map_err(failed)? else {
        return Ok(());
    };
    let expired = sweep::expired(db, until).await.map_err(failed)?;
    if expired > 0 {
        info!(jobs = expired, "leases expired; their jobs are available again");
        metrics::counter!("rejoin_leases_expired_total").increment(expired);
        services.bus.publish(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
    }
    for job in sweep::dead(db, until).await.map_err(failed)? {
        fail_dead_job(services, &job).await?;
        watch.record_answer();
    }
    Ok(())
}

/// Ends a call whose program was lost, or took longer than it may.
async fn end_lost_call(services: &Services, job: &DeadJob) -> Result<(), String> {
    let failed = |error: sqlx::Error| ErrorChain(&error).to_string();
    let lost = remote_calls::lost(&services.db.pool_sqlx, job.id)
        .await
        .map_err(failed)?;
    let Some(lost) = lost else {
        // Its run was deleted.
        return settle(services, job, Outcome::Cancel).await;
    };
    let end = EndRemoteCall {
        id: lost.id,
        attempt: Some(job.attempt),
        end: RemoteEnd::OutcomeUnknown(&lost.in_words()),
    };
    services.execute(&end).await.map(drop).map_err(failed)
}

async fn settle(services: &Services, job: &DeadJob, outcome: Outcome) -> Result<(), String> {
    let settlement = Settlement {
        job_id: job.id,
        attempt: job.attempt,
        max_attempts: job.attempt,
        outcome,
    };
    rejoin_queue::settle(&services.db.pool_pg, &[settlement], true)
        .await
        .map(|_| ())
        .map_err(|error| ErrorChain(&error).to_string())
}

/// Fails a job whose last attempt was lost, with its run: readers get their `error` and `done`.
async fn fail_dead_job(services: &Services, job: &DeadJob) -> Result<(), String> {
    if job.kind == remote_calls::KIND {
        return end_lost_call(services, job).await;
    }
    let message = format!(
        "the run was aborted after {} attempts: its workers died or hung each time",
        job.attempt
    );
    let run = match job.run_id {
        Some(id) => runs::get(&services.db.pool_sqlx, id)
            .await
            .map_err(|error| error.to_string())?,
        None => None,
    };
    let Some(run) = run else {
        return settle(services, job, Outcome::Fail { error: message }).await;
    };
    let error = RunError {
        code: "attempts_exhausted".to_owned(),
        message,
        retryable: true,
    };
    let finish = FinishRun {
        run: &run,
        attempt: job.attempt,
        seen: &Seen::default(),
        message_id: ids::new(),
        status: DoneStatus::Failed,
        text: "",
        citations: &[],
        error: Some(&error),
        usage: &json!(run.usage),
        last_step: None,
        output: None,
    };
    match services.finish(&finish).await {
        // Another worker was faster.
        Ok(_) | Err(FencedError::LeaseLost) => Ok(()),
        Err(error @ FencedError::Database { .. }) => Err(ErrorChain(&error).to_string()),
    }
}
