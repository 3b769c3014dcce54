//! Remote tools as an extension: the tools that a workspace's programs have registered, and the sweeps.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rejoin_commands::{EndRemoteCall, RemoteEnd};
use rejoin_extension::sweep::SweepError;
use rejoin_extension::{Extension, Host, Sweep};
use rejoin_tools::SharedTool;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::settings::RemoteToolArgs;
use crate::tool::RemoteTool;
use crate::{calls, registrations};

const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of calls ended per sweep.
const BATCH: i64 = 100;
/// How long a worker that is gone is listed.
const KEEP_WORKERS_S: f64 = 3_600.0;
/// How long a tool that no worker serves stays: a month.
const KEEP_TOOLS_S: f64 = 30.0 * 86_400.0;
/// How long calls of MCP clients are kept.
const KEEP_CALLS_S: f64 = 86_400.0;

/// Remote tools. Without settings (`None`), the process sweeps nothing.
pub struct RemoteTools(pub Option<RemoteToolArgs>);

#[async_trait]
impl Extension for RemoteTools {
    fn name(&self) -> &'static str {
        "remote-tools"
    }

    async fn workspace_tools(&self, db: &mut PgConnection, workspace_id: Uuid) -> Result<Vec<SharedTool>, sqlx::Error> {
        let offered = registrations::offered(db, workspace_id).await?.into_iter();
        let tools = offered.map(|tool| Arc::new(RemoteTool::new(tool)) as SharedTool);
        Ok(tools.collect())
    }

    fn sweeps(&self) -> Vec<Arc<dyn Sweep>> {
        let args = self.0.iter().cloned();
        args.map(|args| Arc::new(Overdue(args)) as Arc<dyn Sweep>).collect()
    }
}

/// Ends calls that no worker takes or no run waits for, and removes what is not needed.
struct Overdue(RemoteToolArgs);

#[async_trait]
impl Sweep for Overdue {
    fn what(&self) -> &'static str {
        "ending calls of remote tools that no worker takes"
    }

    fn every(&self) -> Duration {
        SWEEP_EVERY
    }

    async fn sweep(&self, host: &Host) -> Result<(), SweepError> {
        let hours = self.0.remote_calls_wait_h;
        for call in calls::untaken(&host.db, hours * 3_600.0, BATCH).await? {
            let lost = format!(
                "outcome unknown: the worker that had this call was lost, and no other one took it within {hours} hours; the call may have taken \
                 effect"
            );
            let untaken = format!("no worker took this call within {hours} hours; it was not executed");
            let end = EndRemoteCall {
                id: call.id,
                attempt: None,
                end: if call.was_lost {
                    RemoteEnd::OutcomeUnknown(&lost)
                } else {
                    RemoteEnd::Failed(&untaken)
                },
            };
            if let Some(ended) = rejoin_commands::execute(&host.db, &end).await? {
                host.bus.publish(ended.wake);
            }
        }
        for id in calls::orphaned(&host.db, BATCH).await? {
            let end = EndRemoteCall {
                id,
                attempt: None,
                end: RemoteEnd::Cancelled,
            };
            rejoin_commands::execute(&host.db, &end).await?;
        }
        calls::sweep(&host.db, KEEP_CALLS_S).await?;
        registrations::sweep(&host.db, KEEP_WORKERS_S, KEEP_TOOLS_S).await?;
        Ok(())
    }
}
