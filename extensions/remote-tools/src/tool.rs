//! A registered tool, as agents and MCP clients get it. A run hands its calls over by itself; an MCP client's call is added here, and waits.

use std::time::Duration;

use async_trait::async_trait;
use rejoin_db::rls;
use rejoin_runs::remote_calls::{self, NewRemoteCall, RemoteStatus};
use rejoin_tools::remote::Remote;
use rejoin_tools::{Schema, Tool, ToolContext, ToolError, ToolSpec};
use rejoin_types::owner::Owner;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::registrations::OfferedTool;

/// Interval at which an MCP client's call is looked up: it doubles from the first to the last.
const LOOK_FIRST: Duration = Duration::from_millis(10);
const LOOK_LAST: Duration = Duration::from_millis(500);

pub(crate) struct RemoteTool {
    spec: ToolSpec,
    remote: Remote,
}

impl RemoteTool {
    pub fn new(offered: OfferedTool) -> Self {
        Self {
            spec: ToolSpec {
                name: offered.name,
                description: offered.description,
                parameters: Schema::from(offered.input_schema),
                read_only: offered.read_only,
                idempotent: offered.idempotent,
                destructive: false,
            },
            remote: Remote {
                queue: offered.queue,
                version: offered.version,
                timeout_s: offered.timeout_s,
                output_schema: offered.output_schema,
                confirm: offered.confirm,
            },
        }
    }
}

#[async_trait]
impl Tool for RemoteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn remote(&self) -> Option<&Remote> {
        Some(&self.remote)
    }

    /// For a call outside of runs: adds it, and waits for its end.
    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        let failed = |source: sqlx::Error| ToolError::Internal {
            attempted: format!("calling {}", self.spec.name),
            source: Box::new(source),
        };
        if self.remote.confirm {
            let message = format!(
                "{} needs a user's confirmation; only a run can ask for it",
                self.spec.name
            );
            return Err(ToolError::RespondToModel(message));
        }
        let call = NewRemoteCall {
            id: context.record_id,
            workspace_id: context.workspace_id,
            run_id: None,
            call_id: &context.call_id,
            conversation_id: None,
            tool: &self.spec.name,
            remote: &self.remote,
            input: &arguments,
            repeatable: self.spec.read_only || self.spec.idempotent,
            answers: None,
        };
        let scope = match context.user_id {
            Some(user_id) => rls::Scope::User(Owner {
                workspace_id: context.workspace_id,
                user_id,
            }),
            None => rls::Scope::System,
        };
        let mut tx = rls::begin(&context.db, scope).await.map_err(failed)?;
        let wake = remote_calls::insert(&mut tx, &call).await.map_err(failed)?;
        // A tool has no bus. It is sent by the commit; over another bus than PostgreSQL's, programs find the call when they look the next time.
        sqlx::query!("select pg_notify('rejoin', $1)", json!(wake).to_string())
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        let mut pause = LOOK_FIRST;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(LOOK_LAST);
            let mut looking = rls::begin(&context.db, scope).await.map_err(failed)?;
            let known = remote_calls::get(&mut *looking, context.record_id)
                .await
                .map_err(failed)?;
            drop(looking);
            let Some(known) = known else {
                return Err(ToolError::RespondToModel("the call was removed".to_owned()));
            };
            match known.status() {
                RemoteStatus::Waiting | RemoteStatus::Running | RemoteStatus::Suspended => {}
                RemoteStatus::Completed => return Ok(known.output.unwrap_or_default()),
                RemoteStatus::Error | RemoteStatus::OutcomeUnknown | RemoteStatus::Cancelled => {
                    return Err(ToolError::RespondToModel(
                        known.error.unwrap_or_else(|| "the call was cancelled".to_owned()),
                    ));
                }
            }
        }
    }
}
