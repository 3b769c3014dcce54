//! Evaluation sets: questions with the answers that are expected, and evaluations of agents with them.
//!
//! - `cases`   the questions of a set
//! - `results` what came of an evaluation, by its tasks
//!
//! Invariant: an evaluation is a task DAG and the cases as they were; its results are those of the DAG's tasks, stored nowhere else.

mod cases;
mod results;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::PgExecutor;
use uuid::Uuid;

use rejoin_types::ids;

pub use cases::{
    Added, CASES_MAX, Case, CaseChange, NewCase, TEXT_MAX_CHARS, add, all_cases, delete_case, list_cases, of_runs,
    update_case,
};
pub use results::{CaseResult, ResultState, Tally, results, tallies};

/// Maximum length of a set's name, in characters.
pub const NAME_MAX_CHARS: usize = 100;
/// Maximum length of its description, and of the criteria of an evaluation, in characters.
pub const DESCRIPTION_MAX_CHARS: usize = 4_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    pub created_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// The number of its cases.
    pub cases: i64,
}

/// Returns a page of a workspace's sets after `after`, newest first.
pub async fn list(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Set>, sqlx::Error> {
    let (at, id) = after.unzip();
    sqlx::query_as!(
        Set,
        r#"select s.id, s.name, s.description, s.created_by, s.created_at, s.updated_at,
                  (select count(*) from kb.evaluation_cases c where c.set_id = s.id) as "cases!"
           from kb.evaluation_sets s
           where s.project_id = $1 and ($2::timestamptz is null or (s.created_at, s.id) < ($2, $3))
           order by s.created_at desc, s.id desc limit $4"#,
        workspace_id,
        at as _,
        id as _,
        limit
    )
    .fetch_all(db)
    .await
}

pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Option<Set>, sqlx::Error> {
    sqlx::query_as!(
        Set,
        r#"select s.id, s.name, s.description, s.created_by, s.created_at, s.updated_at,
                  (select count(*) from kb.evaluation_cases c where c.set_id = s.id) as "cases!"
           from kb.evaluation_sets s where s.project_id = $1 and s.id = $2"#,
        workspace_id,
        id
    )
    .fetch_optional(db)
    .await
}

/// Creates a set. None: the name is taken.
pub async fn create(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    user_id: Uuid,
    name: &str,
    description: &str,
) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "insert into kb.evaluation_sets (id, project_id, name, description, created_by) values ($1, $2, $3, $4, $5)
         on conflict (project_id, name) do nothing returning id",
        ids::new(),
        workspace_id,
        name,
        description,
        user_id
    )
    .fetch_optional(db)
    .await
}

/// Changes a set (None: unchanged). False: it does not exist. A taken name is a unique violation.
pub async fn update(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    id: Uuid,
    name: Option<&str>,
    description: Option<&str>,
) -> Result<bool, sqlx::Error> {
    let updated = sqlx::query!(
        "update kb.evaluation_sets
         set name = coalesce($3, name), description = coalesce($4, description), updated_at = now()
         where project_id = $1 and id = $2",
        workspace_id,
        id,
        name,
        description
    );
    Ok(updated.execute(db).await?.rows_affected() == 1)
}

/// Deletes a set with its cases and evaluations; their task DAGs stay. False: it does not exist.
pub async fn delete(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!(
        "delete from kb.evaluation_sets where project_id = $1 and id = $2",
        workspace_id,
        id
    );
    Ok(deleted.execute(db).await?.rows_affected() == 1)
}

/// A case as an evaluation keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptCase {
    pub id: Uuid,
    pub question: String,
    pub expected: Option<String>,
}

impl From<Case> for KeptCase {
    fn from(case: Case) -> Self {
        Self {
            id: case.id,
            question: case.question,
            expected: case.expected,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub id: Uuid,
    pub set_id: Uuid,
    pub dag_id: Uuid,
    pub agent_definition_id: Uuid,
    pub agent_name: String,
    pub agent_version: i32,
    pub judge_agent: String,
    pub criteria: Option<String>,
    pub created_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    /// The DAG's.
    pub state: String,
    pub finished_at: Option<DateTime<Utc>>,
    pub cases: sqlx::types::Json<Vec<KeptCase>>,
}

/// An evaluation to be stored, with its DAG.
#[derive(Debug)]
pub struct NewEvaluation<'a> {
    pub id: Uuid,
    pub set_id: Uuid,
    pub workspace_id: Uuid,
    pub dag_id: Uuid,
    pub agent_definition_id: Uuid,
    pub agent_name: &'a str,
    pub agent_version: i32,
    pub judge_agent: &'a str,
    pub criteria: Option<&'a str>,
    pub cases: &'a [KeptCase],
    pub user_id: Uuid,
}

/// Stores an evaluation. A set that was deleted meanwhile is a foreign key violation.
pub async fn insert(db: impl PgExecutor<'_>, new: &NewEvaluation<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.evaluations (id, set_id, project_id, dag_id, agent_definition_id, agent_name, agent_version, judge_agent, criteria,
                                     cases, created_by)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        new.id,
        new.set_id,
        new.workspace_id,
        new.dag_id,
        new.agent_definition_id,
        new.agent_name,
        new.agent_version,
        new.judge_agent,
        new.criteria,
        sqlx::types::Json(new.cases) as _,
        new.user_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns a page of a set's evaluations after `after`, newest first.
pub async fn list_evaluations(
    db: impl PgExecutor<'_>,
    set_id: Uuid,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Evaluation>, sqlx::Error> {
    let (at, id) = after.unzip();
    sqlx::query_as!(
        Evaluation,
        r#"select e.id, e.set_id, e.dag_id, e.agent_definition_id, e.agent_name, e.agent_version, e.judge_agent, e.criteria, e.created_by,
                  e.created_at, d.state, d.finished_at, e.cases as "cases: _"
           from kb.evaluations e join kb.task_dags d on d.id = e.dag_id
           where e.set_id = $1 and ($2::timestamptz is null or (e.created_at, e.id) < ($2, $3))
           order by e.created_at desc, e.id desc limit $4"#,
        set_id,
        at as _,
        id as _,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns the newest evaluation of each of these sets.
pub async fn latest(db: impl PgExecutor<'_>, set_ids: &[Uuid]) -> Result<Vec<Evaluation>, sqlx::Error> {
    sqlx::query_as!(
        Evaluation,
        r#"select e.id, e.set_id, e.dag_id, e.agent_definition_id, e.agent_name, e.agent_version, e.judge_agent, e.criteria, e.created_by,
                  e.created_at, d.state, d.finished_at, e.cases as "cases: _"
           from unnest($1::uuid[]) s(id)
           cross join lateral (select * from kb.evaluations of where of.set_id = s.id order by of.created_at desc, of.id desc limit 1) e
           join kb.task_dags d on d.id = e.dag_id"#,
        set_ids
    )
    .fetch_all(db)
    .await
}

pub async fn get_evaluation(
    db: impl PgExecutor<'_>,
    set_id: Uuid,
    id: Uuid,
) -> Result<Option<Evaluation>, sqlx::Error> {
    sqlx::query_as!(
        Evaluation,
        r#"select e.id, e.set_id, e.dag_id, e.agent_definition_id, e.agent_name, e.agent_version, e.judge_agent, e.criteria, e.created_by,
                  e.created_at, d.state, d.finished_at, e.cases as "cases: _"
           from kb.evaluations e join kb.task_dags d on d.id = e.dag_id
           where e.set_id = $1 and e.id = $2"#,
        set_id,
        id
    )
    .fetch_optional(db)
    .await
}
