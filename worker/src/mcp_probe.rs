//! The job behind "test this server": lists the server's tools from a worker, where its process or network is. The API
//! enqueues it and reads the outcome from the server's row.

use async_trait::async_trait;
use rejoin_extension::Signals;
use rejoin_integrations::mcp;
use rejoin_queue::{ClaimedJob, Outcome};
use tracing::info;
use uuid::Uuid;

use crate::jobs::Handler;
use crate::services::Services;

/// The handler of jobs of the kind [`mcp::KIND_PROBE`].
pub struct Probe;

#[async_trait]
impl Handler for Probe {
    fn kind(&self) -> &'static str {
        mcp::KIND_PROBE
    }

    async fn handle(&self, services: &Services, job: &ClaimedJob, signals: &Signals) -> Outcome {
        let Some(id) = job.payload["serverId"].as_str().and_then(|id| Uuid::parse_str(id).ok()) else {
            return Outcome::Fail {
                error: "the job has no server id".to_owned(),
            };
        };
        let server = match mcp::get(&services.db.pool_sqlx, job.workspace_id, id).await {
            Ok(Some(server)) => server,
            // Removed meanwhile.
            Ok(None) => return Outcome::Complete,
            Err(error) => {
                return Outcome::Retry {
                    error: error.to_string(),
                    after: None,
                };
            }
        };
        // With accounts of users, that of the user who asks.
        let user_id = job.payload["userId"].as_str().and_then(|id| Uuid::parse_str(id).ok());
        tokio::select! {
            looked = services.pools.connections().test(&server, user_id) => {
                if let Err(error) = looked {
                    // Recorded in the server's row; a retry would add nothing.
                    info!(server = server.settings.name, error, "the test of an MCP server failed");
                }
                Outcome::Complete
            }
            () = signals.drain.cancelled() => Outcome::Release,
        }
    }
}
