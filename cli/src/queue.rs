//! `rejoin queue`: the job queue, for operators; directly in the database, so that it works without an API.
use anyhow::{Context, Result};
use chrono::{DateTime, Utc};
use clap::Subcommand;
use rejoin_queue::DEFAULT_QUEUE;
use rejoin_queue::stats::{self, QueueStats, WorkerStats};
use sqlx::PgPool;

use crate::{database, exit::Exit, global::Global, out::Out};

/// Inspect the job queue, retry dead jobs, pause and resume queues. Talks to the database.
///
/// Examples:
///   rejoin queue stats
///   rejoin queue stats --json | jq '.queues[].available'
///   rejoin queue dead
///   rejoin queue retry 4711
///   rejoin queue pause default
///   rejoin queue resume default
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Show jobs by queue and state, the age of the oldest, and the fleet: workers, their slots and last heartbeats.
    Stats,
    /// List dead jobs, newest first, with their last error.
    Dead {
        /// Only jobs of this queue.
        #[arg(long, default_value = DEFAULT_QUEUE)]
        queue: String,
        /// Maximum number of jobs.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Make a dead job available again, under a new number. If its run has ended, post the message again instead.
    Retry { job: i64 },
    /// Pause a queue: no more of its jobs are claimed; running jobs continue.
    Pause { queue: String },
    /// Resume a queue.
    Resume { queue: String },
}

/// # Errors
/// The database can't be reached, or the job does not exist.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let pool = database::connect(global).await?;
    match args.action {
        Action::Stats => show_stats(&pool, out).await?,
        Action::Dead { queue, limit } => show_dead(&pool, &queue, i64::from(limit), out).await?,
        Action::Retry { job } => {
            let retried = stats::retry_dead(&pool, job, None).await;
            let Some(new) = retried.with_context(|| format!("retrying job {job} failed"))? else {
                let message = format!(
                    "there is no dead job {job} that can be retried (`rejoin queue dead` lists them; if a job's run \
                    has ended, post the message again)"
                );
                return Err(Exit::NotFound.because(message).into());
            };
            if out.is_json() {
                out.json(&serde_json::json!({ "job": job, "newJob": new.id }))?;
            } else {
                out.line(&format!("job {job} is available again as job {}", new.id))?;
            }
        }
        Action::Pause { queue } => {
            let paused = stats::pause(&pool, &queue).await;
            paused.with_context(|| format!("pausing the queue {queue} failed"))?;
            say(out, &queue, true)?;
        }
        Action::Resume { queue } => {
            let resumed = stats::resume(&pool, &queue).await;
            resumed.with_context(|| format!("resuming the queue {queue} failed"))?;
            say(out, &queue, false)?;
        }
    }
    Ok(Exit::Done)
}

fn say(out: Out, queue: &str, paused: bool) -> Result<()> {
    if out.is_json() {
        return out.json(&serde_json::json!({ "queue": queue, "paused": paused }));
    }
    out.line(&if paused {
        format!("the queue {queue} is paused; running jobs continue (`rejoin queue resume {queue}`)")
    } else {
        format!("the queue {queue} is resumed")
    })
}

async fn show_stats(pool: &PgPool, out: Out) -> Result<()> {
    let queues = stats::queues(pool).await.context("reading the queues failed")?;
    let workers = stats::workers(pool).await.context("reading the fleet failed")?;
    if out.is_json() {
        return out.json(&serde_json::json!({ "queues": queues, "workers": workers }));
    }
    let now = database::now(pool).await?;
    let rows: Vec<[String; 9]> = queues.iter().map(queue_row).collect();
    let head = [
        "QUEUE",
        "STATE",
        "DUE",
        "LATER",
        "BEHIND",
        "RUNNING",
        "DEAD",
        "DONE IN 1 H",
        "OLDEST DUE",
    ];
    out.table(head, &rows)?;
    out.line("")?;
    if workers.is_empty() {
        return out.line("no workers; start one with `rejoin worker`");
    }
    let rows: Vec<[String; 8]> = workers.iter().map(|worker| worker_row(worker, now)).collect();
    out.table(
        ["WORKER", "HOST", "PID", "STATE", "BUSY", "SLOTS", "QUEUES", "SEEN"],
        &rows,
    )
}

fn queue_row(stats: &QueueStats) -> [String; 9] {
    let queue = &stats.depth;
    [
        queue.queue.clone(),
        if queue.paused { "PAUSED" } else { "open" }.to_owned(),
        queue.available.to_string(),
        queue.scheduled.to_string(),
        queue.held.to_string(),
        queue.running.to_string(),
        queue.dead.to_string(),
        stats.completed_last_hour.to_string(),
        queue.oldest_available_s.map(ago).unwrap_or_default(),
    ]
}

fn worker_row(worker: &WorkerStats, now: DateTime<Utc>) -> [String; 8] {
    let state = match (worker.alive, worker.draining) {
        (false, _) => "SILENT",
        (true, true) => "draining",
        (true, false) => "working",
    };
    let seen = (now - worker.seen_at).num_milliseconds().max(0);
    [
        worker.id.to_string(),
        worker.hostname.clone(),
        worker.pid.to_string(),
        state.to_owned(),
        worker.busy.to_string(),
        worker.slots.to_string(),
        worker.queues.join(","),
        format!("{} ago", ago(seen as f64 / 1000.0)),
    ]
}

async fn show_dead(pool: &PgPool, queue: &str, limit: i64, out: Out) -> Result<()> {
    let dead = stats::dead(pool, queue, limit)
        .await
        .context("reading the dead jobs failed")?;
    if out.is_json() {
        return out.json(&dead);
    }
    if dead.is_empty() {
        return out.line(&format!("no dead jobs in the queue {queue}"));
    }
    let rows: Vec<[String; 6]> = dead
        .iter()
        .map(|job| {
            [
                job.id.to_string(),
                job.kind.clone(),
                job.run_id.map(|id| id.to_string()).unwrap_or_default(),
                job.attempt.to_string(),
                job.finished_at.format("%Y-%m-%d %H:%M:%S UTC").to_string(),
                job.last_error.clone().unwrap_or_default().replace('\n', " "),
            ]
        })
        .collect();
    out.table(["JOB", "KIND", "RUN", "ATTEMPTS", "DIED", "LAST ERROR"], &rows)
}

/// Formats a duration in one unit.
fn ago(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}
