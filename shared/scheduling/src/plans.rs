//! Plans of agents: steps, stored with their versions. A plan may wait for approval by a user or an agent. While it
//! executes, its steps are the tasks of a DAG (`tasks`) and show their states.
//!
//! - `steps`  the steps and their validation
//!
//! States: (pending_review ->) executing -> completed | completed_with_errors | failed; a rejected or cancelled plan
//! has failed, with the reason in its metadata. Invariant: every change of a plan holds the lock of its run's log.

pub mod steps;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::tasks::{self, DagTask};
use rejoin_runs::runs::Run;
use rejoin_types::owner::Owner;
use steps::{Step, StepStatus, StepTools};

/// Maximum length of an objective, in characters.
pub const OBJECTIVE_MAX_CHARS: usize = 4_000;
/// Maximum length of a step's result shown in its plan, in characters.
const RESULT_MAX_CHARS: usize = 4_000;
/// Maximum number of tool calls in a step's run, and in a planner's turn (the source of both figures: such chat pages).
pub const TOOL_CALLS_MAX: usize = 40;
/// Time after which a step's run must conclude, in seconds.
pub const STEP_TIMEOUT_S: i32 = 120;

rejoin_types::text_enum! {
    #[derive(Default)]
    pub enum ExecutionMode {
        /// Immediately.
        #[default]
        AutoExecute = "auto_execute",
        /// After a user's approval.
        DraftOnly = "draft_only",
        /// After the reviewer's approval.
        AgentReview = "agent_review",
    }
}

/// A query for whole rows: what precedes the columns, what follows them, then the arguments.
macro_rules! plan_query {
    ($head:literal, $tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            Plan,
            $head + " id, project_id as workspace_id, user_id, conversation_id, run_id, call_id, revises_plan_id, \
             objective, user_message, strategy, execution_mode, status, version, steps, metadata, dag_id, \
             created_at, updated_at, finished_at " + $tail
            $(, $argument)*
        )
    };
}

/// A plan as stored.
#[derive(Debug, Clone)]
pub struct Plan {
    pub id: Uuid,
    pub workspace_id: Uuid,
    pub user_id: Option<Uuid>,
    pub conversation_id: Option<Uuid>,
    pub run_id: Uuid,
    pub call_id: Uuid,
    pub revises_plan_id: Option<Uuid>,
    pub objective: String,
    pub user_message: String,
    pub strategy: String,
    pub execution_mode: String,
    pub status: String,
    pub version: i32,
    pub steps: Value,
    pub metadata: Value,
    pub dag_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
}

impl Plan {
    pub fn steps(&self) -> Vec<Step> {
        serde_json::from_value(self.steps.clone()).unwrap_or_default()
    }

    pub fn mode(&self) -> ExecutionMode {
        self.execution_mode.parse().unwrap_or_default()
    }

    /// The representation in events and the API.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "conversationId": self.conversation_id,
            "runId": self.run_id,
            "revisesPlanId": self.revises_plan_id,
            "objective": self.objective,
            "userMessage": self.user_message,
            "strategy": self.strategy,
            "executionMode": self.execution_mode,
            "status": self.status,
            "version": self.version,
            "steps": self.steps,
            "dagId": self.dag_id,
            "metadata": self.metadata,
        })
    }
}

/// Returns steps with their progress: a step with a task shows its state and result.
pub fn with_tasks(mut steps: Vec<Step>, tasks: &[DagTask]) -> Vec<Step> {
    for step in &mut steps {
        let number = step.step_number.to_string();
        if let Some(task) = tasks.iter().find(|task| task.r#ref == number) {
            step.status = StepStatus::of_task(&task.state);
            step.result = task.summary.as_deref().map(shown);
            let failed = matches!(step.status, StepStatus::Failed | StepStatus::Skipped);
            step.error = task.failure_context.as_deref().filter(|_| failed).map(shown);
        }
    }
    steps
}

fn shown(text: &str) -> String {
    text.chars().take(RESULT_MAX_CHARS).collect()
}

/// A plan to be stored.
#[derive(Debug, Clone)]
pub struct NewPlan {
    pub id: Uuid,
    pub objective: String,
    pub mode: ExecutionMode,
    pub steps: Vec<Step>,
    /// The tools of each step, resolved.
    pub tools: StepTools,
    /// `requestedOutputs`, `priorityEntities`, `executor`, `planner`.
    pub metadata: Value,
    pub revises: Option<Uuid>,
    pub strategy: &'static str,
}

pub async fn insert(
    db: &mut PgConnection,
    run: &Run,
    call_id: Uuid,
    new: &NewPlan,
    status: &str,
) -> Result<Plan, sqlx::Error> {
    let mut metadata = new.metadata.clone();
    metadata["tools"] = json!(new.tools);
    let plan = plan_query!("insert into kb.agent_plans (id, project_id, user_id, conversation_id, run_id, call_id, revises_plan_id, objective, user_message,
                                     strategy, execution_mode, status, steps, metadata)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) returning", "",
        new.id,
        run.workspace_id,
        run.user_id as _,
        run.conversation_id as _,
        run.id,
        call_id,
        new.revises as _,
        new.objective,
        run.input,
        new.strategy,
        new.mode.as_str(),
        status,
        json!(new.steps),
        metadata
    )
    .fetch_one(&mut *db)
    .await?;
    keep_version(db, &plan, "agent").await?;
    Ok(plan)
}

async fn keep_version(db: &mut PgConnection, plan: &Plan, by: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.agent_plan_versions (plan_id, version, steps, changed_by) values ($1, $2, $3, $4)",
        plan.id,
        plan.version,
        plan.steps,
        by
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the plan of a tool call. The project is the run's: for callers within it only.
pub async fn of_call(db: impl PgExecutor<'_>, call_id: Uuid) -> Result<Option<Plan>, sqlx::Error> {
    plan_query!("select", "from kb.agent_plans where call_id = $1", call_id)
        .fetch_optional(db)
        .await
}

pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Option<Plan>, sqlx::Error> {
    plan_query!(
        "select",
        "from kb.agent_plans where id = $1 and project_id = $2",
        id,
        workspace_id
    )
    .fetch_optional(db)
    .await
}

/// A plan of a run that `owner` may see, as [`rejoin_runs::runs::get_visible`].
pub async fn get_visible(db: impl PgExecutor<'_>, owner: Owner, id: Uuid) -> Result<Option<Plan>, sqlx::Error> {
    plan_query!("select", "from kb.agent_plans p
         where p.id = $1 and p.project_id = $2
           and (p.conversation_id is null and coalesce(p.user_id = $3, true)
                or exists (select from kb.chat_conversations c where c.id = p.conversation_id and c.owner_user_id = $3))",
        id,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_optional(db)
    .await
}

/// Returns a page of the plans of runs that `owner` may see, optionally of a conversation, newest first, after the
/// cursor (created_at, id).
pub async fn list(
    db: impl PgExecutor<'_>,
    owner: Owner,
    conversation_id: Option<Uuid>,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Plan>, sqlx::Error> {
    let (at, id) = after.unzip();
    plan_query!(
        "select",
        "from kb.agent_plans p
         where p.project_id = $1
           and (p.conversation_id is null and coalesce(p.user_id = $2, true)
                or exists (select from kb.chat_conversations c where c.id = p.conversation_id and c.owner_user_id = $2))
           and ($3::uuid is null or p.conversation_id = $3)
           and ($4::timestamptz is null or (p.created_at, p.id) < ($4, $5))
         order by p.created_at desc, p.id desc limit $6",
        owner.workspace_id,
        owner.user_id,
        conversation_id,
        at,
        id,
        limit
    )
    .fetch_all(db)
    .await
}

/// A version of a plan's steps.
#[derive(Debug, Clone)]
pub struct Version {
    pub version: i32,
    pub steps: Value,
    pub changed_by: String,
    pub created_at: DateTime<Utc>,
}

/// Returns all versions, newest first.
pub async fn versions(db: impl PgExecutor<'_>, plan_id: Uuid) -> Result<Vec<Version>, sqlx::Error> {
    sqlx::query_as!(
        Version,
        "select version, steps, changed_by, created_at from kb.agent_plan_versions where plan_id = $1 order by version desc",
        plan_id
    )
    .fetch_all(db)
    .await
}

/// Replaces a draft's steps on a user's request. None: it is no longer a draft, or has another version.
pub async fn edit(
    db: &mut PgConnection,
    plan: &Plan,
    version: i32,
    steps: &[Step],
    tools: &StepTools,
) -> Result<Option<Plan>, sqlx::Error> {
    let edited = plan_query!(
        "update kb.agent_plans
         set steps = $3, version = version + 1, metadata = jsonb_set(metadata, '{tools}', $4), updated_at = now()
         where id = $1 and version = $2 and status = 'pending_review' returning",
        "",
        plan.id,
        version,
        json!(steps),
        json!(tools)
    )
    .fetch_optional(&mut *db)
    .await?;
    if let Some(edited) = &edited {
        keep_version(db, edited, "user").await?;
    }
    Ok(edited)
}

/// Marks a plan as being executed by this DAG.
pub async fn begin(db: &mut PgConnection, id: Uuid, dag_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_plans set status = 'executing', dag_id = $2, updated_at = now() where id = $1",
        id,
        dag_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Adds to a plan's metadata.
pub async fn record_metadata(db: &mut PgConnection, id: Uuid, what: &Value) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_plans set metadata = metadata || $2, updated_at = now() where id = $1",
        id,
        what
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Ends a plan, with the results of its steps.
pub async fn end(db: &mut PgConnection, id: Uuid, status: &str, steps: &[Step]) -> Result<Option<Plan>, sqlx::Error> {
    plan_query!(
        "update kb.agent_plans set status = $2, steps = $3, updated_at = now(), finished_at = now()
         where id = $1 and finished_at is null returning",
        "",
        id,
        status,
        json!(steps)
    )
    .fetch_optional(db)
    .await
}

/// Ends a draft whose run was cancelled.
pub async fn abandon(db: impl PgExecutor<'_>, call_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_plans
         set status = 'failed', metadata = metadata || '{\"notes\": \"the run was cancelled\"}', updated_at = now(), finished_at = now()
         where call_id = $1 and status = 'pending_review'",
        call_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns a plan's steps with their current state.
pub async fn current_steps(db: impl PgExecutor<'_>, plan: &Plan) -> Result<Vec<Step>, sqlx::Error> {
    let steps = plan.steps();
    match (plan.finished_at, plan.dag_id) {
        (None, Some(dag_id)) => Ok(with_tasks(steps, &tasks::of_dag(db, dag_id).await?)),
        (_, _) => Ok(steps),
    }
}
