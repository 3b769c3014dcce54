//! Agent definitions: prompt, model, tools, limits. Names are unique within a workspace.
//!
//! - `content`   what the author of a definition writes, and its validation
//! - `settings`  the known entries of a definition's `config`
//! - `defaults`  built-in definitions
//! - `versions`  the contents that a definition has had

mod content;
pub mod defaults;
pub mod settings;
pub mod versions;

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_types::ids;

use rejoin_models::choice::ModelChoice;

pub use content::{DefinitionContent, FLOW_TYPES, FUNCTION};
pub use defaults::{EVALUATION_JUDGE, GRAPH_QUERY_AGENT, defaults, evaluation_judge, planners, specialists};

/// A definition as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDefinition {
    pub id: Uuid,
    pub workspace_id: Uuid,
    pub name: String,
    pub description: String,
    pub system_prompt: String,
    pub model: Option<ModelChoice>,
    /// Whitelist with globs; empty means none.
    pub tools: Vec<String>,
    pub flow_type: String,
    pub is_default: bool,
    pub max_steps: Option<i32>,
    /// Seconds.
    pub default_timeout: Option<i32>,
    pub visibility: String,
    pub max_depth: Option<i32>,
    pub config: Value,
    /// The number of its content: a change adds a version.
    pub version: i32,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

impl AgentDefinition {
    /// Returns whether external callers may choose it. Other agents, tasks and schedules can use all of the workspace's.
    pub fn is_open(&self) -> bool {
        self.visibility != INTERNAL
    }
}

/// Values of `visibility`.
pub const VISIBILITIES: [&str; 3] = [EXTERNAL, PROJECT, INTERNAL];
/// Visible to external programs, too.
pub const EXTERNAL: &str = "external";
/// Visible to the workspace's agents, and to users who configure agents.
pub const INTERNAL: &str = "internal";
/// Visible to everyone who may write in the workspace: the default.
pub const PROJECT: &str = "project";

/// A row as sqlx reads it.
struct Row {
    id: Uuid,
    project_id: Uuid,
    name: String,
    description: String,
    system_prompt: String,
    model: Option<Value>,
    tools: Vec<String>,
    flow_type: String,
    is_default: bool,
    max_steps: Option<i32>,
    default_timeout: Option<i32>,
    visibility: String,
    max_depth: Option<i32>,
    config: Value,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    version: i32,
}

impl From<Row> for AgentDefinition {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            workspace_id: row.project_id,
            name: row.name,
            description: row.description,
            system_prompt: row.system_prompt,
            // Written only here, from the same type.
            model: row.model.and_then(|model| serde_json::from_value(model).ok()),
            tools: row.tools,
            flow_type: row.flow_type,
            is_default: row.is_default,
            max_steps: row.max_steps,
            default_timeout: row.default_timeout,
            visibility: row.visibility,
            max_depth: row.max_depth,
            config: row.config,
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

fn model_json(content: &DefinitionContent) -> Option<Value> {
    content.model.as_ref().map(|model| json!(model))
}

/// Inserts a definition. None: the name is taken.
pub async fn insert(
    db: &mut PgConnection,
    workspace_id: Uuid,
    content: &DefinitionContent,
) -> Result<Option<AgentDefinition>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "insert into kb.agent_definitions (id, project_id, name, description, system_prompt, model, tools, flow_type,
                                           is_default, max_steps, default_timeout, visibility, max_depth, config)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         on conflict (project_id, name) do nothing
         returning *",
        ids::new(),
        workspace_id,
        content.name,
        content.description,
        content.system_prompt,
        model_json(content),
        &content.tools,
        content.flow_type,
        content.is_default,
        content.max_steps,
        content.default_timeout,
        content.visibility,
        content.max_depth,
        content.config,
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(Into::into))
}

/// Replaces a definition's content. None: it does not exist. A taken name is a unique violation.
pub async fn update(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    content: &DefinitionContent,
) -> Result<Option<AgentDefinition>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "update kb.agent_definitions
         set name = $3, description = $4, system_prompt = $5, model = $6, tools = $7, flow_type = $8, is_default = $9,
             max_steps = $10, default_timeout = $11, visibility = $12, max_depth = $13, config = $14, updated_at = now()
         where id = $1 and project_id = $2
         returning *",
        id,
        workspace_id,
        content.name,
        content.description,
        content.system_prompt,
        model_json(content),
        &content.tools,
        content.flow_type,
        content.is_default,
        content.max_steps,
        content.default_timeout,
        content.visibility,
        content.max_depth,
        content.config,
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(Into::into))
}

pub async fn get(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<Option<AgentDefinition>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select * from kb.agent_definitions where id = $1 and project_id = $2",
        id,
        workspace_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(Into::into))
}

/// Returns the definition of a conversation.
pub async fn of_conversation(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    conversation_id: Uuid,
) -> Result<Option<AgentDefinition>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select d.* from kb.agent_definitions d join kb.chat_conversations c on c.agent_definition_id = d.id
         where c.id = $2 and d.project_id = $1",
        workspace_id,
        conversation_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(Into::into))
}

pub async fn find_by_name(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    name: &str,
) -> Result<Option<AgentDefinition>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select * from kb.agent_definitions where project_id = $1 and name = $2",
        workspace_id,
        name
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(Into::into))
}

/// Returns the workspace's definitions with these names.
pub async fn named(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    names: &[String],
) -> Result<Vec<AgentDefinition>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        "select * from kb.agent_definitions where project_id = $1 and name = any($2)",
        workspace_id,
        names
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Returns the names of definitions by their ids.
pub async fn names(db: impl PgExecutor<'_>, ids: &[Uuid]) -> Result<HashMap<Uuid, String>, sqlx::Error> {
    let rows = sqlx::query!("select id, name from kb.agent_definitions where id = any($1)", ids)
        .fetch_all(db)
        .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.name)).collect())
}

/// Returns the `config` of a run's definition; null if there is none.
pub async fn config_of_run(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<Value, sqlx::Error> {
    let config = sqlx::query_scalar!(
        "select d.config from kb.agent_runs r join kb.agent_definitions d on d.id = r.agent_definition_id where r.id = $1",
        run_id
    )
    .fetch_optional(db)
    .await?;
    Ok(config.unwrap_or_default())
}

/// Returns a page by name, after `after`.
pub async fn list(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<AgentDefinition>, sqlx::Error> {
    list_visible(db, workspace_id, &VISIBILITIES, after, limit).await
}

/// The same, restricted to these visibilities.
pub async fn list_visible(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    visibilities: &[&str],
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<AgentDefinition>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        "select * from kb.agent_definitions
         where project_id = $1 and visibility = any($2) and ($3::text is null or name > $3) order by name limit $4",
        workspace_id,
        visibilities as &[&str],
        after,
        limit
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Returns the first of these names that is an internal agent's.
pub async fn internal_among(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    names: &[&str],
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "select name from kb.agent_definitions where project_id = $1 and name = any($2) and visibility = $3 order by name limit 1",
        workspace_id,
        names as &[&str],
        INTERNAL
    )
    .fetch_optional(db)
    .await
}

/// Deletes a definition; false if it does not exist. If conversations refer to it, a foreign key violation.
pub async fn delete(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "delete from kb.agent_definitions where id = $1 and project_id = $2",
        id,
        workspace_id
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}
