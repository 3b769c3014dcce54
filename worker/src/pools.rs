//! Tool pools: the tools of a workspace, and the selection for an agent: the built-in tools, those over the workspace's
//! data sources if it has any, those over its work graph if the pack `work` is installed, web tools if enabled, and
//! those of its enabled MCP servers that match the server's patterns and whose current definition is approved. Called
//! by the executor when an attempt begins.
//!
//! Invariants: a whitelist is never widened; a built-in tool is never shadowed; cached pools are dropped on a wake-up
//! about a change, and reloaded after `REJOIN_TOOLS_KEPT_S` in any case. Known servers need no connection: a server is
//! listed on first use, and on each connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use futures::future::join_all;
use rejoin_event_log::wakeup::{self, SharedBus};
use rejoin_extension::Extensions;
use rejoin_integrations::mcp::offers::Standing;
use rejoin_integrations::mcp::{self, Server, offers};
use rejoin_mcp_client::McpTool;
use rejoin_mcp_client::connections::Connections;
use rejoin_tools::SharedTool;
use rejoin_tools::registry::{Patterns, Registry};
use sqlx::PgPool;
use tracing::warn;
use uuid::Uuid;

use crate::coordination;

/// The tools of a project: over its data sources and work graph, of the web, and of its MCP servers.
struct OfWorkspace {
    tools: BTreeMap<String, SharedTool>,
    /// Servers that were never listed.
    unseen: Vec<Arc<Server>>,
    read_at: Instant,
}

pub struct Pools {
    builtin: Registry,
    connections: Arc<Connections>,
    extensions: Extensions,
    db: PgPool,
    /// Lifetime of a workspace's cached tools: a hint about a change may be lost.
    kept_for: Duration,
    workspaces: DashMap<Uuid, Arc<OfWorkspace>>,
}

impl Pools {
    /// Listens to the bus while it is in use.
    pub fn start(
        builtin: Registry,
        connections: Arc<Connections>,
        extensions: Extensions,
        db: PgPool,
        kept_for: Duration,
        bus: &SharedBus,
    ) -> Arc<Self> {
        let pools = Arc::new(Self {
            builtin: builtin.with(coordination::tools()).with(extensions.tools()),
            connections,
            extensions,
            db,
            kept_for,
            workspaces: DashMap::new(),
        });
        tokio::spawn(forget(Arc::downgrade(&pools), bus.subscribe()));
        pools
    }

    pub fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Returns the tools that a whitelist grants in a workspace, sorted by name.
    pub async fn resolve(&self, workspace_id: Uuid, whitelist: &[String]) -> Result<Vec<SharedTool>, sqlx::Error> {
        let mut granted = self.builtin.resolve(whitelist);
        if whitelist.is_empty() {
            return Ok(granted);
        }
        let patterns = Patterns::new(whitelist);
        let mut workspace = self.of(workspace_id).await?;
        let wanted: Vec<Arc<Server>> = workspace
            .unseen
            .iter()
            .filter(|server| patterns.may_match_beginning(&format!("{}_", server.settings.name)))
            // With accounts of users, a server is listed when the first one is connected.
            .filter(|server| !server.settings.is_per_user())
            .cloned()
            .collect();
        if !wanted.is_empty() {
            let looks = wanted.iter().map(|server| async {
                if let Err(error) = self.connections.look(server).await {
                    warn!(
                        server = server.settings.name,
                        error, "listing an MCP server's tools failed; the agent runs without them"
                    );
                }
            });
            join_all(looks).await;
            self.workspaces.remove(&workspace_id);
            workspace = self.of(workspace_id).await?;
        }
        let matching = workspace.tools.iter().filter(|(name, _)| patterns.is_match(name));
        granted.extend(matching.map(|(_, tool)| tool.clone()));
        granted.sort_by(|a, b| a.spec().name.cmp(&b.spec().name));
        Ok(granted)
    }

    async fn of(&self, workspace_id: Uuid) -> Result<Arc<OfWorkspace>, sqlx::Error> {
        if let Some(known) = self.workspaces.get(&workspace_id).map(|known| known.clone())
            && known.read_at.elapsed() < self.kept_for
        {
            return Ok(known);
        }
        // Taken before reading: concurrent changes cause another read.
        let read_at = Instant::now();
        let servers = mcp::list(&self.db, workspace_id).await?;
        self.connections.keep_only(workspace_id, &servers).await;
        let offered = if servers.is_empty() {
            Vec::new()
        } else {
            offers::of_workspace(&self.db, workspace_id).await?
        };
        let mut connection = self.db.acquire().await?;
        let of_extensions = self.extensions.workspace_tools(&mut connection, workspace_id).await?;
        drop(connection);
        let mut workspace = OfWorkspace {
            tools: of_extensions
                .into_iter()
                .map(|tool| (tool.spec().name.clone(), tool))
                // A newer release may have a built-in tool with the name of a user's.
                .filter(|(name, _)| self.builtin.get(name).is_none())
                .collect(),
            unseen: Vec::new(),
            read_at,
        };
        for server in servers
            .into_iter()
            .filter(|server| server.settings.enabled)
            .map(Arc::new)
        {
            if server.seen_at.is_none() {
                workspace.unseen.push(server);
                continue;
            }
            let patterns = Patterns::new(&server.settings.tools);
            let given = offered.iter().filter(|tool| {
                tool.server_id == server.id && tool.standing() == Standing::Approved && patterns.is_match(&tool.name)
            });
            for tool in given {
                let tool = McpTool::shared(server.clone(), tool, self.connections.clone());
                let name = tool.spec().name.clone();
                if self.builtin.get(&name).is_some() || workspace.tools.contains_key(&name) {
                    warn!(
                        server = server.settings.name,
                        tool = name,
                        "a tool of an MCP server has the same name as another one and is omitted"
                    );
                    continue;
                }
                workspace.tools.insert(name, tool);
            }
        }
        let workspace = Arc::new(workspace);
        self.workspaces.insert(workspace_id, workspace.clone());
        Ok(workspace)
    }
}

/// Drops cached tools on hints of the bus. Projects with connections are reloaded immediately: their server may have
/// been removed or disabled.
async fn forget(pools: Weak<Pools>, mut wakes: tokio::sync::broadcast::Receiver<Arc<wakeup::Wake>>) {
    loop {
        let wake = wakeup::next(&mut wakes).await;
        let Some(pools) = pools.upgrade() else { return };
        let mut connected = pools.connections.workspaces();
        if wake.all {
            pools.workspaces.clear();
        } else {
            for workspace in &wake.tools {
                pools.workspaces.remove(workspace);
            }
            connected.retain(|workspace| wake.tools.contains(workspace));
        }
        for workspace in connected {
            if let Err(error) = pools.of(workspace).await {
                // Retried when an agent of the workspace runs.
                warn!(%workspace, %error, "reading a project's MCP servers failed");
            }
        }
    }
}
