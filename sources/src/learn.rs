//! Records queries that succeeded within a user's run (`rejoin_shared::query_patterns`). Called by the query tools.
//!
//! Invariant: a failure to record does not fail the query.

use rejoin_shared::data_sources::DataSource;
use rejoin_shared::query_patterns::{self, Succeeded};
use rejoin_shared::tools::ToolContext;
use tracing::warn;

use crate::sources::Sources;

/// A query that has just given its answer. Of calls outside a run, or on nobody's behalf, nothing is remembered.
pub(crate) async fn learn(
    sources: &Sources,
    context: &ToolContext,
    source: &DataSource,
    database: Option<&str>,
    query: &str,
) {
    let (Some(run_id), Some(user_id)) = (context.run_id, context.user_id) else {
        return;
    };
    let succeeded = Succeeded {
        run_id,
        user_id,
        source,
        database,
        query,
    };
    if let Err(error) = query_patterns::learn(&context.db, succeeded, sources.patterns()).await {
        warn!(%error, "storing a query that succeeded failed");
    }
}
