//! The queue and the workers of the whole fleet as metrics, read from the database when they are asked for. Called by `metrics_text`.
//!
//! Invariant: these queries take at most a twentieth of the time of one connection, however often they are asked for and however long they
//! take.

use std::sync::Arc;
use std::time::Duration;

use rejoin_db::Db;
use rejoin_db::failure_log::ErrorChain;
use rejoin_queue::stats::{self, QueueDepth, WorkerStats};
use rejoin_telemetry::exposition::Exposition;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tracing::debug;

/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(5);
/// The same, as a multiple of the queries' duration.
const REST: u32 = 20;
/// Timeout of the queries.
const QUERY_LIMIT: Duration = Duration::from_secs(2);

/// The last answer of the database.
#[derive(Clone)]
struct Answer {
    asked_at: Instant,
    took: Duration,
    /// None: the database did not answer.
    fleet: Option<Arc<Fleet>>,
}

struct Fleet {
    queues: Vec<QueueDepth>,
    workers: Vec<WorkerStats>,
}

/// The last answer, shared by all requests of the process.
#[derive(Default)]
pub struct FleetMetrics(Mutex<Option<Answer>>);

impl FleetMetrics {
    /// Writes the metrics, after a query if the last one is old.
    pub async fn write(&self, db: &Db, text: &mut Exposition) {
        let answer = self.current(db).await;
        text.value("rejoin_database_up", flag(answer.fleet.is_some()));
        text.value("rejoin_queue_read_seconds", answer.took.as_secs_f64());
        if let Some(fleet) = answer.fleet {
            write_queues(&fleet.queues, text);
            write_workers(&fleet.workers, text);
        }
    }

    async fn current(&self, db: &Db) -> Answer {
        // Those who ask meanwhile wait for the same answer.
        let mut last = self.0.lock().await;
        if let Some(answer) = &*last
            && answer.asked_at.elapsed() < KEPT.max(answer.took * REST)
        {
            return answer.clone();
        }
        let asked_at = Instant::now();
        let fleet = match timeout(QUERY_LIMIT, read(db)).await {
            Ok(Ok(fleet)) => Some(Arc::new(fleet)),
            Ok(Err(error)) => {
                debug!(error = %ErrorChain(&error), "reading the fleet's metrics failed");
                None
            }
            Err(_) => None,
        };
        let answer = Answer {
            asked_at,
            took: asked_at.elapsed(),
            fleet,
        };
        last.insert(answer).clone()
    }
}

async fn read(db: &Db) -> Result<Fleet, sqlx::Error> {
    Ok(Fleet {
        queues: stats::depths(&db.pool_sqlx).await?,
        workers: stats::workers(&db.pool_sqlx).await?,
    })
}

fn write_queues(queues: &[QueueDepth], text: &mut Exposition) {
    let mut jobs = text.family("rejoin_queue_jobs");
    for queue in queues {
        for (state, count) in [
            ("available", queue.available),
            ("scheduled", queue.scheduled),
            ("held", queue.held),
            ("running", queue.running),
        ] {
            jobs.sample(&[("queue", queue.queue.as_str()), ("state", state)], count as f64);
        }
    }
    let mut of_each = |name, value: fn(&QueueDepth) -> f64| {
        let mut family = text.family(name);
        for queue in queues {
            family.sample(&[("queue", queue.queue.as_str())], value(queue));
        }
    };
    of_each("rejoin_queue_dead_jobs", |queue| queue.dead as f64);
    of_each("rejoin_queue_oldest_job_seconds", |queue| {
        queue.oldest_available_s.unwrap_or_default()
    });
    of_each("rejoin_queue_paused", |queue| flag(queue.paused));
}

fn write_workers(workers: &[WorkerStats], text: &mut Exposition) {
    let state = |worker: &WorkerStats| match (worker.alive, worker.draining) {
        (false, _) => "silent",
        (true, true) => "draining",
        (true, false) => "live",
    };
    let mut family = text.family("rejoin_workers");
    for name in ["live", "draining", "silent"] {
        let count = workers.iter().filter(|worker| state(worker) == name).count();
        family.sample(&[("state", name)], count as f64);
    }
    let slots: i32 = workers
        .iter()
        .filter(|worker| state(worker) == "live")
        .map(|worker| worker.slots)
        .fold(0, i32::saturating_add);
    text.value("rejoin_workers_slots", f64::from(slots));
}

fn flag(is_so: bool) -> f64 {
    if is_so { 1.0 } else { 0.0 }
}
