//! MCP servers of a workspace: their settings and the tools that they offer. SQL of `kb.project_mcp_servers` and
//! `kb.mcp_tools`.
//!
//! - `commands`  the operator's list of processes that may be started
//! - `accounts`  users' accounts at servers that act for each user by itself
//! - `consents`  users who are asked for their consent by an authorization server
//! - `oauth`     settings for obtaining tokens for HTTP servers
//! - `settings`  the settings of a server and their validation
//! - `template`  `${NAME}` in settings: placeholders for the workspace's secrets
//! - `offers`    the tools that servers offer, each held until its definition is approved
//!
//! Called by the API's routes (settings), by workers (connections, in `rejoin-mcp-client`) and by manifests. Invariants: no
//! setting holds a secret's value; no command line comes from here.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_types::ids;

pub mod accounts;
pub mod commands;
pub mod consents;
mod oauth;
pub mod offers;
mod settings;
pub mod template;
mod url;

pub use oauth::OAuth;
pub use settings::{Approval, Settings, Transport};

/// The kind of jobs that list a server's tools; the payload names it: `{"serverId"}`.
pub const KIND_PROBE: &str = "mcp_probe";
/// Maximum number of servers in a workspace.
pub const MAX_SERVERS: i64 = 100;

/// A server as stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    pub id: Uuid,
    #[serde(rename = "projectId")]
    pub workspace_id: Uuid,
    #[serde(flatten)]
    pub settings: Settings,
    /// The product that installed it.
    pub product: Option<String>,
    /// The revision: counts changes of the connection settings.
    pub revision: i32,
    /// When its tools were last listed.
    pub seen_at: Option<DateTime<Utc>>,
    /// Its description of itself at that time.
    pub server_info: Option<Value>,
    /// The tools left out at that time: a list of [`offers::LeftOut`].
    pub left_out: Value,
    /// The time of the last failed listing; none since a success.
    pub failed_at: Option<DateTime<Utc>>,
    pub failure: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// A row as sqlx reads it.
struct Row {
    id: Uuid,
    project_id: Uuid,
    name: String,
    transport: String,
    command: Option<String>,
    env: Value,
    url: Option<String>,
    headers: Value,
    oauth: Option<Value>,
    enabled: bool,
    tools: Vec<String>,
    timeout_s: Option<i32>,
    approval: String,
    trust_hints: bool,
    product: Option<String>,
    revision: i32,
    seen_at: Option<DateTime<Utc>>,
    server_info: Option<Value>,
    failed_at: Option<DateTime<Utc>>,
    failure: Option<String>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    left_out: Value,
}

impl From<Row> for Server {
    fn from(row: Row) -> Self {
        let object = |value: Value| match value {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Self {
            id: row.id,
            workspace_id: row.project_id,
            settings: Settings {
                name: row.name,
                transport: row.transport.parse().unwrap_or(Transport::Http),
                command: row.command,
                env: object(row.env),
                url: row.url,
                headers: object(row.headers),
                // Validated when it was stored.
                oauth: row.oauth.and_then(|oauth| serde_json::from_value(oauth).ok()),
                enabled: row.enabled,
                tools: row.tools,
                timeout_s: row.timeout_s,
                approval: row.approval.parse().unwrap_or(Approval::Each),
                trust_hints: row.trust_hints,
            },
            product: row.product,
            revision: row.revision,
            seen_at: row.seen_at,
            server_info: row.server_info,
            left_out: row.left_out,
            failed_at: row.failed_at,
            failure: row.failure,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// Returns all servers of a workspace, by name.
pub async fn list(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<Server>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        "select * from kb.project_mcp_servers where project_id = $1 order by name",
        workspace_id
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(Server::from).collect())
}

pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Option<Server>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select * from kb.project_mcp_servers where project_id = $1 and id = $2",
        workspace_id,
        id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(Server::from))
}

/// Inserts a server with validated settings. None: the name is taken.
pub async fn create(
    db: &mut PgConnection,
    workspace_id: Uuid,
    settings: &Settings,
    product: Option<&str>,
) -> Result<Option<Server>, sqlx::Error> {
    let s = settings;
    let row = sqlx::query_as!(
        Row,
        "insert into kb.project_mcp_servers
             (id, project_id, name, transport, command, env, url, headers, enabled, tools, timeout_s, approval, trust_hints, product,
              oauth)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
         on conflict (project_id, name) do nothing
         returning *",
        ids::new(),
        workspace_id,
        s.name,
        s.transport.as_str(),
        s.command,
        Value::Object(s.env.clone()),
        s.url,
        Value::Object(s.headers.clone()),
        s.enabled,
        &s.tools,
        s.timeout_s,
        s.approval.as_str(),
        s.trust_hints,
        product,
        s.oauth.as_ref().map(|oauth| json!(oauth)),
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(Server::from))
}

/// Changes a server to validated settings; its name is immutable. Different connection settings mean a different
/// server: its tools must be listed and approved again.
pub async fn update(
    db: &mut PgConnection,
    server: &Server,
    settings: &Settings,
) -> Result<Option<Server>, sqlx::Error> {
    let s = settings;
    let is_another = !s.is_reached_like(&server.settings);
    if is_another {
        sqlx::query!("delete from kb.mcp_tools where server_id = $1", server.id)
            .execute(&mut *db)
            .await?;
    }
    let row = sqlx::query_as!(
        Row,
        "update kb.project_mcp_servers
         set transport = $3, command = $4, env = $5, url = $6, headers = $7, enabled = $8, tools = $9, timeout_s = $10,
             approval = $11, trust_hints = $12, oauth = $14, updated_at = now(),
             revision = revision + case when $13 then 1 else 0 end,
             seen_at = case when $13 then null else seen_at end,
             server_info = case when $13 then null else server_info end,
             left_out = case when $13 then '[]' else left_out end,
             failed_at = case when $13 then null else failed_at end,
             failure = case when $13 then null else failure end
         where project_id = $1 and id = $2
         returning *",
        server.workspace_id,
        server.id,
        s.transport.as_str(),
        s.command,
        Value::Object(s.env.clone()),
        s.url,
        Value::Object(s.headers.clone()),
        s.enabled,
        &s.tools,
        s.timeout_s,
        s.approval.as_str(),
        s.trust_hints,
        is_another,
        s.oauth.as_ref().map(|oauth| json!(oauth)),
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(Server::from))
}

/// False: it does not exist.
pub async fn delete(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!(
        "delete from kb.project_mcp_servers where project_id = $1 and id = $2",
        workspace_id,
        id
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected() > 0)
}

pub async fn count(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.project_mcp_servers where project_id = $1"#,
        workspace_id
    )
    .fetch_one(db)
    .await
}
