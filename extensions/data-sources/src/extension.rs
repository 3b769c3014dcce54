//! Data sources as an extension: the tools over those that a workspace has.

use async_trait::async_trait;
use rejoin_extension::Extension;
use rejoin_integrations::data_sources::{self, Kind};
use rejoin_tools::SharedTool;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Sources;
use crate::tools::for_kinds;

/// Data sources. Without a way to query them (`None`), the process gives no tools.
pub struct DataSources(pub Option<Sources>);

#[async_trait]
impl Extension for DataSources {
    fn name(&self) -> &'static str {
        "data-sources"
    }

    async fn workspace_tools(&self, db: &mut PgConnection, workspace_id: Uuid) -> Result<Vec<SharedTool>, sqlx::Error> {
        let Some(sources) = &self.0 else {
            return Ok(Vec::new());
        };
        let kept = data_sources::list(db, workspace_id).await?;
        let kinds: Vec<Kind> = kept.iter().map(|source| source.content.kind).collect();
        let any_writable = kept.iter().any(|source| !source.content.read_only);
        Ok(for_kinds(sources, &kinds, any_writable))
    }
}
