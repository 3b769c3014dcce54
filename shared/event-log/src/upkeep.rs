//! The progress of compaction and retention. Both process runs in the order of their end, one bounded batch per
//! transaction, and store their progress in `stream.upkeep`. That row's lock lets one worker at a time do either.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

/// Maximum number of runs in one transaction.
const RUNS: i64 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Compaction,
    Retention,
}

/// An ended run, and its part of its log.
#[derive(Debug, Clone)]
pub(super) struct EndedRun {
    pub id: Uuid,
    pub log_id: Uuid,
    /// The number before its first event.
    pub first_seq: i64,
    pub done_seq: i64,
    pub finished_at: DateTime<Utc>,
}

/// Returns the next runs that ended more than `age_s` seconds ago, under the lock. None: another worker holds it.
pub(super) async fn next(db: &mut PgConnection, task: Task, age_s: f64) -> Result<Option<Vec<EndedRun>>, sqlx::Error> {
    let Some(mark) = sqlx::query!("select * from stream.upkeep for update skip locked")
        .fetch_optional(&mut *db)
        .await?
    else {
        return Ok(None);
    };
    let (at, run) = match task {
        Task::Compaction => (mark.compacted_at, mark.compacted_run),
        Task::Retention => (mark.trimmed_at, mark.trimmed_run),
    };
    // Sub-agents write into the log of their root, and end before it.
    let runs = sqlx::query_as!(
        EndedRun,
        r#"select id, log_id, first_seq, coalesce(done_seq, first_seq) as "done_seq!", finished_at as "finished_at!"
           from kb.agent_runs
           where parent_run_id is null and (finished_at, id) > ($1, $2) and finished_at < now() - make_interval(secs => $3)
           order by finished_at, id limit $4"#,
        at,
        run,
        age_s,
        RUNS
    )
    .fetch_all(db)
    .await?;
    Ok(Some(runs))
}

/// Records that `task` has processed `run`, and all that ended before it.
pub(super) async fn done_with(db: &mut PgConnection, task: Task, run: &EndedRun) -> Result<(), sqlx::Error> {
    match task {
        Task::Compaction => {
            sqlx::query!(
                "update stream.upkeep set compacted_at = $1, compacted_run = $2",
                run.finished_at,
                run.id
            )
            .execute(db)
            .await?
        }
        Task::Retention => {
            sqlx::query!(
                "update stream.upkeep set trimmed_at = $1, trimmed_run = $2",
                run.finished_at,
                run.id
            )
            .execute(db)
            .await?
        }
    };
    Ok(())
}
