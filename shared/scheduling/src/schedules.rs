//! Schedules start an agent or a task DAG by the clock. Rows of `kb.schedules` and their SQL; `commands::FireSchedule`
//! fires them, from every worker's sweep.
//!
//! - `content`  a schedule's definition, its validation, and when it is due
//!
//! Invariant: `next_at` advances in the firing transaction, under the row's lock: each due moment fires once.

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_types::ids;

pub mod content;

pub use content::{Due, ScheduleContent, Target, UTC, When, input_text};

/// Maximum number of schedules in one workspace.
pub const MAX_SCHEDULES: i64 = 1_000;

rejoin_types::text_enum! {
    /// The handling of missed firings.
    #[derive(Default)]
    pub enum Missed {
        /// They are skipped.
        Skip = "skip",
        /// One firing for all of them.
        #[default]
        Once = "once",
        /// Each, one after the other.
        All = "all",
    }
}

/// A query for whole rows: what precedes the columns, what follows them, then the arguments.
macro_rules! schedule_query {
    ($head:literal, $tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Schedule,
            $head + " id, project_id as workspace_id, name, cron, at, time_zone, agent, input, dag, missed, enabled, \
             next_at, last_at, last_run_id, last_dag_id, last_error, created_by, created_at, updated_at " + $tail
            $(, $argument)*
        )
    };
}

/// A schedule as stored.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub id: Uuid,
    pub workspace_id: Uuid,
    pub name: String,
    pub cron: Option<String>,
    pub at: Option<DateTime<Utc>>,
    pub time_zone: String,
    pub agent: Option<String>,
    pub input: Option<String>,
    pub dag: Option<Value>,
    pub missed: String,
    pub enabled: bool,
    pub next_at: Option<DateTime<Utc>>,
    pub last_at: Option<DateTime<Utc>>,
    pub last_run_id: Option<Uuid>,
    pub last_dag_id: Option<Uuid>,
    pub last_error: Option<String>,
    /// The user on whose behalf it starts runs. None: a product's job.
    pub created_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// Returns the database's time.
pub async fn now(db: &mut PgConnection) -> Result<DateTime<Utc>, sqlx::Error> {
    sqlx::query_scalar!(r#"select now() as "now!""#).fetch_one(db).await
}

/// Inserts a schedule. None: the name is taken.
pub async fn insert(
    db: &mut PgConnection,
    workspace_id: Uuid,
    created_by: Option<Uuid>,
    content: &ScheduleContent,
) -> Result<Option<Schedule>, sqlx::Error> {
    let next_at = content.next_after(now(db).await?).filter(|_| content.enabled);
    let (cron, at) = columns(&content.when);
    schedule_query!("insert into kb.schedules (id, project_id, name, cron, at, time_zone, agent, input, dag, missed, enabled, next_at, created_by)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         on conflict (project_id, name) do nothing
         returning", "",
        ids::new(),
        workspace_id,
        content.name,
        cron as _,
        at as _,
        content.time_zone,
        content.target.agent() as _,
        content.target.input() as _,
        content.target.dag() as _,
        content.missed.as_str(),
        content.enabled,
        next_at as _,
        created_by as _
    )
    .fetch_optional(db)
    .await
}

/// Replaces a schedule's content; its next firing is the first one from now on, on behalf of `created_by`. A taken name
/// is a unique violation.
pub async fn update(
    db: &mut PgConnection,
    id: Uuid,
    content: &ScheduleContent,
    created_by: Option<Uuid>,
) -> Result<Schedule, sqlx::Error> {
    let next_at = content.next_after(now(db).await?).filter(|_| content.enabled);
    let (cron, at) = columns(&content.when);
    schedule_query!("update kb.schedules
         set name = $2, cron = $3, at = $4, time_zone = $5, agent = $6, input = $7, dag = $8, missed = $9, enabled = $10, next_at = $11,
             last_error = null, created_by = $12, updated_at = now()
         where id = $1
         returning", "",
        id,
        content.name,
        cron as _,
        at as _,
        content.time_zone,
        content.target.agent() as _,
        content.target.input() as _,
        content.target.dag() as _,
        content.missed.as_str(),
        content.enabled,
        next_at as _,
        created_by as _
    )
    .fetch_one(db)
    .await
}

fn columns(when: &When) -> (Option<&str>, Option<DateTime<Utc>>) {
    match when {
        When::Cron(cron) => (Some(cron), None),
        When::At(at) => (None, Some(*at)),
    }
}

/// False: it does not exist.
pub async fn delete(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "delete from kb.schedules where id = $1 and project_id = $2",
        id,
        workspace_id
    );
    Ok(done.execute(db).await?.rows_affected() > 0)
}

pub async fn count(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.schedules where project_id = $1"#,
        workspace_id
    )
    .fetch_one(db)
    .await
}

pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Option<Schedule>, sqlx::Error> {
    schedule_query!(
        "select",
        "from kb.schedules where id = $1 and project_id = $2",
        id,
        workspace_id
    )
    .fetch_optional(db)
    .await
}

/// Locks it for a change: changes and firings exclude each other.
pub async fn lock(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<Option<Schedule>, sqlx::Error> {
    schedule_query!(
        "select",
        "from kb.schedules where id = $1 and project_id = $2 for update",
        id,
        workspace_id
    )
    .fetch_optional(db)
    .await
}

pub async fn find_by_name(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    name: &str,
) -> Result<Option<Schedule>, sqlx::Error> {
    schedule_query!(
        "select",
        "from kb.schedules where project_id = $1 and name = $2",
        workspace_id,
        name
    )
    .fetch_optional(db)
    .await
}

/// Returns a page by name, after `after`.
pub async fn list(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<Schedule>, sqlx::Error> {
    schedule_query!(
        "select",
        "from kb.schedules where project_id = $1 and ($2::text is null or name > $2) order by name limit $3",
        workspace_id,
        after,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns whether any schedule is due: checked by a sweep before it opens a transaction.
pub async fn any_due(db: impl PgExecutor<'_>) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select exists (select from kb.schedules where next_at <= now() and not cells.is_held(project_id)) as "due!""#
    )
    .fetch_one(db)
    .await
}

/// Returns the longest due schedule that is not being fired or changed; locked.
pub async fn lock_due(db: &mut PgConnection) -> Result<Option<Schedule>, sqlx::Error> {
    schedule_query!(
        "select",
        "from kb.schedules where next_at <= now() and not cells.is_held(project_id)
         order by next_at limit 1 for update skip locked"
    )
    .fetch_optional(db)
    .await
}

/// The result of a firing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome<'a> {
    /// None: nothing was fired.
    pub at: Option<DateTime<Utc>>,
    pub run_id: Option<Uuid>,
    pub dag_id: Option<Uuid>,
    pub error: Option<&'a str>,
    pub next_at: Option<DateTime<Utc>>,
}

/// Advances a schedule. The caller holds its lock. One without a next firing is disabled: it has ended.
pub async fn fired(db: &mut PgConnection, id: Uuid, outcome: Outcome<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.schedules
         set next_at = $2, enabled = enabled and $2::timestamptz is not null, last_error = $3,
             last_at = coalesce($4, last_at), last_run_id = case when $4::timestamptz is null then last_run_id else $5 end,
             last_dag_id = case when $4::timestamptz is null then last_dag_id else $6 end
         where id = $1",
        id,
        outcome.next_at as _,
        outcome.error as _,
        outcome.at as _,
        outcome.run_id as _,
        outcome.dag_id as _
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the exhausted quota of a workspace today, if any.
pub async fn exhausted(db: &mut PgConnection, workspace_id: Uuid) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!("select kb.exhausted($1)", workspace_id)
        .fetch_one(db)
        .await
}
