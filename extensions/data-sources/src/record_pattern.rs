//! Remembers queries that have succeeded within a run of a user's (`rejoin_integrations::query_patterns`). Called by the tools that ask.
//!
//! Invariant: a failure to record does not fail the query.

use rejoin_integrations::data_sources::DataSource;
use rejoin_integrations::query_patterns::{self, Succeeded};
use rejoin_tools::ToolContext;
use tracing::warn;

use crate::sources::Sources;

/// Records a query that has just succeeded. Calls outside a run, or without a user, are not recorded.
pub(crate) async fn record_pattern(
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
