//! The endpoints of a workspace's webhooks: rows of `kb.webhook_endpoints` that belong to the workspace. Those that belong to a run are in
//! `configs`.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// Maximum number of endpoints of a workspace.
pub const MAX_ENDPOINTS: i64 = 20;
/// Maximum length of a URL, in bytes.
pub const URL_MAX_BYTES: usize = 2_000;
/// Maximum length of a description, in characters.
pub const DESCRIPTION_MAX_CHARS: usize = 500;
/// The event of a test.
pub const TEST_EVENT: &str = "webhook.test";

rejoin_types::text_enum! {
    /// An event that webhooks send.
    pub enum EventKind {
        /// A turn of a run has ended.
        RunEnded = "run.ended",
        /// A run asks a person.
        QuestionAsked = "question.asked",
        /// A DAG of tasks has ended.
        DagEnded = "dag.ended",
        /// A run was paused because its tree has used up its budget of tokens or dollars.
        BudgetReached = "budget.reached",
    }
}

rejoin_types::text_enum! {
    /// Why an endpoint is disabled.
    pub enum DisabledReason {
        /// By an admin.
        Admin = "admin",
        /// The receiver has responded 410.
        Gone = "gone",
    }
}

/// What admins set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub url: String,
    pub description: String,
    pub events: Vec<EventKind>,
    pub enabled: bool,
}

/// An endpoint as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub id: Uuid,
    pub content: Content,
    pub disabled_reason: Option<DisabledReason>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

struct Row {
    id: Uuid,
    url: String,
    description: String,
    events: Vec<String>,
    disabled_reason: Option<String>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<Row> for Endpoint {
    type Error = sqlx::Error;

    fn try_from(row: Row) -> Result<Self, sqlx::Error> {
        let broken =
            |what: &str| sqlx::Error::Decode(format!("the {what} of the webhook {} is invalid", row.id).into());
        let events: Result<Vec<EventKind>, _> = row.events.iter().map(|event| event.parse()).collect();
        let reason = row.disabled_reason.as_deref().map(str::parse).transpose();
        Ok(Self {
            id: row.id,
            disabled_reason: reason.map_err(|_| broken("reason"))?,
            content: Content {
                events: events.map_err(|_| broken("events"))?,
                enabled: row.disabled_reason.is_none(),
                url: row.url,
                description: row.description,
            },
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

fn texts(events: &[EventKind]) -> Vec<String> {
    events.iter().map(|event| event.as_str().to_owned()).collect()
}

/// Returns the endpoints of a workspace, the oldest first.
pub async fn list(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<Endpoint>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        "select id, url, description, events, disabled_reason, created_at, updated_at
         from kb.webhook_endpoints where project_id = $1 and run_id is null order by id",
        workspace_id
    )
    .fetch_all(db)
    .await?;
    rows.into_iter().map(Endpoint::try_from).collect()
}

pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Option<Endpoint>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select id, url, description, events, disabled_reason, created_at, updated_at
         from kb.webhook_endpoints where project_id = $1 and run_id is null and id = $2",
        workspace_id,
        id
    )
    .fetch_optional(db)
    .await?;
    row.map(Endpoint::try_from).transpose()
}

pub async fn count(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.webhook_endpoints where project_id = $1 and run_id is null"#,
        workspace_id
    )
    .fetch_one(db)
    .await
}

pub async fn create(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    content: &Content,
) -> Result<Endpoint, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "insert into kb.webhook_endpoints (id, project_id, url, description, events, disabled_at, disabled_reason)
         values ($1, $2, $3, $4, $5, case when $6 then null else now() end, case when $6 then null else 'admin' end)
         returning id, url, description, events, disabled_reason, created_at, updated_at",
        id,
        workspace_id,
        content.url,
        content.description,
        &texts(&content.events),
        content.enabled
    )
    .fetch_one(db)
    .await?;
    row.try_into()
}

/// Changes an endpoint; None: it does not exist.
pub async fn update(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    content: &Content,
) -> Result<Option<Endpoint>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "update kb.webhook_endpoints
         set url = $3, description = $4, events = $5, updated_at = now(),
             disabled_at = case when $6 then null else coalesce(disabled_at, now()) end,
             disabled_reason = case when $6 then null else coalesce(disabled_reason, 'admin') end
         where project_id = $1 and run_id is null and id = $2
         returning id, url, description, events, disabled_reason, created_at, updated_at",
        workspace_id,
        id,
        content.url,
        content.description,
        &texts(&content.events),
        content.enabled
    )
    .fetch_optional(db)
    .await?;
    row.map(Endpoint::try_from).transpose()
}

/// Removes an endpoint with its secrets and deliveries; false: it does not exist.
pub async fn delete(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!(
        "delete from kb.webhook_endpoints where project_id = $1 and run_id is null and id = $2",
        workspace_id,
        id
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected() > 0)
}

/// Disables an endpoint whose receiver has responded 410.
pub async fn disable_gone(db: impl PgExecutor<'_>, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.webhook_endpoints set disabled_at = now(), disabled_reason = 'gone', updated_at = now()
         where id = $1 and disabled_at is null",
        id
    )
    .execute(db)
    .await?;
    Ok(())
}
