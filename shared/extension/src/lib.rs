//! The seam for features. A feature is a crate with one type that implements [`Extension`]; `extensions/registry` lists it in one line.
//! The API serves its routes and offers its tools over MCP; workers give its tools to agents, run its jobs and its sweeps; `rejoin migrate`
//! creates its tables.
//!
//! # Layout
//! - `job`       jobs of the queue that workers run for an extension
//! - `sweep`     periodic work of the fleet
//! - `route`     HTTP endpoints, as JSON in and JSON out
//! - `migration` tables of an extension
//!
//! Invariant: an extension sees the database, the bus and its own settings, and nothing of the API or the worker.

pub mod job;
pub mod migration;
pub mod route;
pub mod sweep;

use std::sync::Arc;

use async_trait::async_trait;
use rejoin_event_log::archive::SharedArchive;
use rejoin_event_log::wakeup::SharedBus;
use rejoin_tools::SharedTool;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

pub use job::{JobHandler, Signals};
pub use migration::Migration;
pub use route::{Route, RouteError, RouteRequest};
pub use sweep::Sweep;

/// What the process gives to an extension.
#[derive(Clone)]
pub struct Host {
    /// Connections with the role of the process.
    pub db: PgPool,
    /// The wake-up bus. Publish after a commit, never before.
    pub bus: SharedBus,
    /// Old events of logs.
    pub archive: SharedArchive,
}

/// A feature that plugs into the API and the workers.
#[async_trait]
pub trait Extension: Send + Sync {
    /// A short word, unique among the extensions.
    fn name(&self) -> &'static str;

    /// Tools that an agent of any workspace may be given.
    fn tools(&self) -> Vec<SharedTool> {
        Vec::new()
    }

    /// Those of [`Extension::tools`] that work without a conversation: MCP clients call them.
    fn tools_without_conversation(&self) -> Vec<SharedTool> {
        self.tools()
    }

    /// Tools of one workspace, by what it has set up. Read again when the bus says that the workspace's tools changed.
    async fn workspace_tools(
        &self,
        _db: &mut PgConnection,
        _workspace_id: Uuid,
    ) -> Result<Vec<SharedTool>, sqlx::Error> {
        Ok(Vec::new())
    }

    /// Handlers of the extension's kinds of jobs.
    fn jobs(&self) -> Vec<Arc<dyn JobHandler>> {
        Vec::new()
    }

    /// Periodic work.
    fn sweeps(&self) -> Vec<Arc<dyn Sweep>> {
        Vec::new()
    }

    /// HTTP endpoints, served below `/api/extensions/{name}`.
    fn routes(&self) -> Vec<Route> {
        Vec::new()
    }

    /// The extension's tables, in the order in which they are created. A released migration never changes.
    fn migrations(&self) -> &'static [Migration] {
        &[]
    }
}

/// The extensions of a process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Extensions(Arc<Vec<Arc<dyn Extension>>>);

impl Extensions {
    /// Panics where two extensions have the same name.
    pub fn new(extensions: Vec<Arc<dyn Extension>>) -> Self {
        for (at, extension) in extensions.iter().enumerate() {
            let is_known = extensions[..at].iter().any(|other| other.name() == extension.name());
            assert!(!is_known, "two extensions are named {}", extension.name());
        }
        Self(Arc::new(extensions))
    }

    /// The same and one more.
    pub fn with(&self, extension: Arc<dyn Extension>) -> Self {
        Self::new(self.iter().cloned().chain([extension]).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Extension>> {
        self.0.iter()
    }

    /// Tools that an agent of any workspace may be given.
    pub fn tools(&self) -> Vec<SharedTool> {
        self.iter().flat_map(|extension| extension.tools()).collect()
    }

    /// Those that MCP clients may call in any workspace.
    pub fn tools_without_conversation(&self) -> Vec<SharedTool> {
        self.iter()
            .flat_map(|extension| extension.tools_without_conversation())
            .collect()
    }

    /// The tools that a workspace has by what it has set up.
    pub async fn workspace_tools(
        &self,
        db: &mut PgConnection,
        workspace_id: Uuid,
    ) -> Result<Vec<SharedTool>, sqlx::Error> {
        let mut tools = Vec::new();
        for extension in self.iter() {
            tools.extend(extension.workspace_tools(&mut *db, workspace_id).await?);
        }
        Ok(tools)
    }

    pub fn jobs(&self) -> Vec<Arc<dyn JobHandler>> {
        self.iter().flat_map(|extension| extension.jobs()).collect()
    }

    pub fn sweeps(&self) -> Vec<Arc<dyn Sweep>> {
        self.iter().flat_map(|extension| extension.sweeps()).collect()
    }
}
