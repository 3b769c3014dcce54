//! The tools that MCP servers offer. Approval pins a tool's definition: a changed or new tool is held (not given to any
//! agent) until it is approved, so that a server can't put text into agents' prompts after the review.
//!
//! Called by workers, which list servers' tools, and by the API, where users review and approve them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::{Approval, Server};
use rejoin_types::digest;

/// Maximum number of tools of one server; further ones are left out.
pub const MAX_TOOLS: usize = 500;
/// Maximum size of one definition, in bytes; larger ones are left out.
pub const DEFINITION_MAX_BYTES: usize = 64 * 1024;
/// Maximum length of a tool's name, in characters, by the protocol; longer ones are left out.
pub const NAME_MAX_CHARS: usize = 128;
/// Maximum number of stored reasons for tools left out; further ones are counted.
pub const MAX_LEFT_OUT: usize = 50;

/// A tool as named by its server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Offered {
    #[serde(skip)]
    pub server_id: Uuid,
    pub name: String,
    /// description, inputSchema, annotations
    pub definition: Value,
    pub digest: String,
    pub approved_digest: Option<String>,
    pub approved_at: Option<DateTime<Utc>>,
    /// False: it was offered before, but not when the server was last listed.
    pub offered: bool,
    pub first_seen_at: DateTime<Utc>,
    pub changed_at: DateTime<Utc>,
}

/// Whether a tool is available to agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    Approved,
    /// Never approved.
    New,
    /// Different from its approved definition.
    Changed,
    /// No longer offered by the server.
    Gone,
}

impl Offered {
    pub fn standing(&self) -> Standing {
        match &self.approved_digest {
            _ if !self.offered => Standing::Gone,
            Some(approved) if *approved == self.digest => Standing::Approved,
            Some(_) => Standing::Changed,
            None => Standing::New,
        }
    }
}

/// The result of listing a server's tools.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscoveredTool {
    pub name: String,
    pub definition: Value,
}

/// A tool that agents do not get, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// None: it does not concern a single tool.
    pub tool: Option<String>,
    pub reason: String,
}

/// A server's list of tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listed {
    pub found: Vec<DiscoveredTool>,
    /// The first [`MAX_LEFT_OUT`] of them.
    pub left_out: Vec<LeftOut>,
}

/// Returns all tools of a workspace's servers, by server and name.
pub async fn of_workspace(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<Offered>, sqlx::Error> {
    sqlx::query_as!(
        Offered,
        "select t.* from kb.mcp_tools t join kb.project_mcp_servers s on s.id = t.server_id
         where s.project_id = $1 order by s.name, t.name",
        workspace_id
    )
    .fetch_all(db)
    .await
}

/// Returns those of these names under which agents may get offered tools of the project's servers. (Names that are
/// shortened for models are not found.)
pub async fn named(db: impl PgExecutor<'_>, workspace_id: Uuid, names: &[String]) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select called.name as "name!"
           from kb.mcp_tools t
           join kb.project_mcp_servers s on s.id = t.server_id
           cross join lateral (select s.name || '_' || regexp_replace(t.name, '[^A-Za-z0-9-]', '_', 'g') as name) called
           where s.project_id = $1 and t.offered and called.name = any($2)"#,
        workspace_id,
        names
    )
    .fetch_all(db)
    .await
}

pub async fn of_server(db: impl PgExecutor<'_>, server_id: Uuid) -> Result<Vec<Offered>, sqlx::Error> {
    sqlx::query_as!(
        Offered,
        "select * from kb.mcp_tools where server_id = $1 order by name",
        server_id
    )
    .fetch_all(db)
    .await
}

/// Stores a server's offers, in the caller's transaction, and returns whether anything has changed. No effect if the
/// server was changed or removed meanwhile.
pub async fn record(
    db: &mut PgConnection,
    server: &Server,
    info: &Value,
    listed: &Listed,
) -> Result<bool, sqlx::Error> {
    let locked = sqlx::query!(
        r#"select seen_at is null as "is_first!" from kb.project_mcp_servers where id = $1 and revision = $2 for update"#,
        server.id,
        server.revision
    )
    .fetch_optional(&mut *db)
    .await?;
    let Some(locked) = locked else {
        return Ok(false);
    };
    // Tools of the first listing are approved with the server.
    let approves = server.settings.approval == Approval::First && locked.is_first;
    let known = of_server(&mut *db, server.id).await?;
    let mut known: HashMap<String, Offered> = known.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
    let mut changes = false;
    for tool in &listed.found {
        let digest = digest::hex(&digest::of_json(&[&tool.definition]));
        match known.remove(&tool.name) {
            Some(there) if there.offered && there.digest == digest => continue,
            Some(_) | None => changes = true,
        }
        sqlx::query!(
            "insert into kb.mcp_tools (server_id, name, definition, digest, approved_digest, approved_at)
             values ($1, $2, $3, $4, case when $5 then $4 end, case when $5 then now() end)
             on conflict (server_id, name) do update
             set definition = excluded.definition, digest = excluded.digest, offered = true, changed_at = now()",
            server.id,
            tool.name,
            tool.definition,
            digest,
            approves,
        )
        .execute(&mut *db)
        .await?;
    }
    let left_out = serde_json::to_value(&listed.left_out).unwrap_or_default();
    changes |= server.left_out != left_out;
    let gone = known.into_values().filter(|tool| tool.offered).map(|tool| tool.name);
    // A user's account may see a part of the tools only: what it does not list may be offered to others.
    let gone: Vec<String> = gone.filter(|_| !server.settings.is_per_user()).collect();
    if !gone.is_empty() {
        changes = true;
        sqlx::query!(
            "update kb.mcp_tools set offered = false, changed_at = now() where server_id = $1 and name = any($2)",
            server.id,
            &gone
        )
        .execute(&mut *db)
        .await?;
    }
    // Approved tools are kept in case they return; a server could offer any number of others.
    sqlx::query!(
        "delete from kb.mcp_tools where server_id = $1 and not offered and approved_digest is null",
        server.id
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "update kb.project_mcp_servers
         set seen_at = clock_timestamp(), server_info = $2, left_out = $3, failed_at = null, failure = null where id = $1",
        server.id,
        info,
        left_out
    )
    .execute(db)
    .await?;
    Ok(changes)
}

/// Records that a server could not be listed.
pub async fn record_failure(db: impl PgExecutor<'_>, server: &Server, error: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.project_mcp_servers
         set failed_at = clock_timestamp(), failure = $3
         where id = $1 and revision = $2",
        server.id,
        server.revision,
        error
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Approves tools with their current definition (all of them if none is named), and returns their names.
pub async fn approve(
    db: &mut PgConnection,
    server_id: Uuid,
    names: Option<&[String]>,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "update kb.mcp_tools set approved_digest = digest, approved_at = now()
         where server_id = $1 and offered and approved_digest is distinct from digest
           and ($2::text[] is null or name = any($2))
         returning name",
        server_id,
        names as Option<&[String]>
    )
    .fetch_all(db)
    .await
}
