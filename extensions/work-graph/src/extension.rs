//! The work graph as an extension: its tools, in projects where the pack `work` is installed.

use async_trait::async_trait;
use rejoin_extension::Extension;
use rejoin_tools::SharedTool;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::{pack, tools};

/// The work graph.
pub struct WorkGraph;

#[async_trait]
impl Extension for WorkGraph {
    fn name(&self) -> &'static str {
        "work-graph"
    }

    async fn workspace_tools(&self, db: &mut PgConnection, workspace_id: Uuid) -> Result<Vec<SharedTool>, sqlx::Error> {
        if pack::is_active(db, workspace_id).await? {
            Ok(tools::tools())
        } else {
            Ok(Vec::new())
        }
    }
}
