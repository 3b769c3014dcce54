//! Claiming: `queue.claim` in batches. It commits at once; no transaction is open while a job runs.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use deadpool_postgres::Pool;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

/// A job that this worker may run until its lease ends, as long as nobody has a higher attempt.
#[derive(Debug, Clone)]
pub struct ClaimedJob {
    pub id: i64,
    pub queue: String,
    pub kind: String,
    pub run_id: Option<Uuid>,
    pub project_id: Uuid,
    pub payload: Value,
    pub attempt: i32,
    pub max_attempts: i32,
    pub last_error: Option<String>,
}

/// Where claims of a queue go on: whose turn it is, and how far each lane was served. A worker keeps one a queue.
///
/// Floors spare a claim the walk over jobs that are gone but not vacuumed yet. They are hints with a short life: a claim that was not
/// full forgets them, so that an idle queue has none, and a busy one looks at everything once in [`FLOORS_LIVE`].
#[derive(Debug)]
pub struct Turn {
    /// The project that was served last.
    after: Uuid,
    /// By (project, priority): the place (run_at, id) of the last job that was claimed.
    floors: BTreeMap<(Uuid, i16), (DateTime<Utc>, i64)>,
    /// When there were none.
    since: Instant,
}

/// A job that becomes claimable behind a floor waits this long at most.
const FLOORS_LIVE: Duration = Duration::from_millis(800);

impl Default for Turn {
    fn default() -> Self {
        Self {
            after: Uuid::nil(),
            floors: BTreeMap::new(),
            since: Instant::now(),
        }
    }
}

impl Turn {
    /// As if `project` had just been served.
    pub fn after(project: Uuid) -> Self {
        Self {
            after: project,
            ..Self::default()
        }
    }

    fn forget(&mut self) {
        self.floors.clear();
        self.since = Instant::now();
    }

    /// Whose turn a project is, counted from the one that was served last.
    fn order(&self, project: Uuid) -> (bool, Uuid) {
        (project <= self.after, project)
    }

    /// Takes note of claimed jobs, which are in the order of their turns.
    fn served(&mut self, jobs: &[Claimed], full: bool) {
        for job in jobs {
            let place = (job.run_at, job.job.id);
            let floor = self.floors.entry((job.job.project_id, job.priority)).or_insert(place);
            *floor = place.max(*floor);
        }
        if let Some(last) = jobs.last() {
            self.after = last.job.project_id;
        }
        if !full || self.since.elapsed() > FLOORS_LIVE {
            self.forget();
        }
    }
}

/// A claimed job and its place in its lane.
struct Claimed {
    job: ClaimedJob,
    priority: i16,
    run_at: DateTime<Utc>,
}

/// Claims up to `limit` due jobs of a queue.
pub async fn claim(
    pool: &Pool,
    queue: &str,
    worker_id: Uuid,
    lease: Duration,
    limit: usize,
    turn: &mut Turn,
) -> Result<Vec<ClaimedJob>, super::settle::HotError> {
    let client = pool.get().await?;
    let statement = client
        .prepare_cached(
            "select id, queue, kind, run_id, project_id, payload, attempt, max_attempts, last_error, priority, run_at
             from queue.claim($1, $2, make_interval(secs => $3), $4, $5, $6, $7, $8, $9)",
        )
        .await?;
    let mut projects = Vec::with_capacity(turn.floors.len());
    let mut priorities = Vec::with_capacity(turn.floors.len());
    let mut run_ats = Vec::with_capacity(turn.floors.len());
    let mut ids = Vec::with_capacity(turn.floors.len());
    for ((project, priority), (run_at, id)) in &turn.floors {
        projects.push(*project);
        priorities.push(*priority);
        run_ats.push(*run_at);
        ids.push(*id);
    }
    let rows = client
        .query(
            &statement,
            &[
                &queue,
                &worker_id,
                &lease.as_secs_f64(),
                &i32::try_from(limit).unwrap_or(i32::MAX),
                &turn.after,
                &projects,
                &priorities,
                &run_ats,
                &ids,
            ],
        )
        .await;
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => {
            turn.forget();
            return Err(error.into());
        }
    };
    let mut claimed: Vec<Claimed> = rows
        .into_iter()
        .map(|row| Claimed {
            job: ClaimedJob {
                id: row.get(0),
                queue: row.get(1),
                kind: row.get(2),
                run_id: row.get(3),
                project_id: row.get(4),
                payload: row.get(5),
                attempt: row.get(6),
                max_attempts: row.get(7),
                last_error: row.get(8),
            },
            priority: row.get(9),
            run_at: row.get(10),
        })
        .collect();
    // The server returns them as they lie in the table.
    claimed.sort_unstable_by_key(|c| (turn.order(c.job.project_id), c.priority, c.run_at, c.job.id));
    turn.served(&claimed, claimed.len() >= limit);
    Ok(claimed.into_iter().map(|claimed| claimed.job).collect())
}
