//! Remembers queries that have succeeded within a run of a user's (`rejoin_integrations::query_patterns`). Called by the tools that ask.
//!
//! Invariant: where remembering fails, the query has succeeded all the same.

use rejoin_integrations::data_sources::DataSource;
use rejoin_integrations::query_patterns::{self, Succeeded};
use rejoin_tools::ToolContext;
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
