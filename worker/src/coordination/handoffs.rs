//! Handoffs: the tools `transfer_to_…` that a definition's `handoffs` grant. The step loop executes them
//! (`run/transfer.rs`); the tool itself does nothing.

use std::sync::Arc;

use async_trait::async_trait;
use rejoin_runs::agents::settings::Handoff;
use rejoin_runs::agents::{self, AgentDefinition};
pub use rejoin_runs::builtin::HANDOFF_PREFIX as PREFIX;
use rejoin_tools::arguments::{Kind, Parameter, schema};
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

/// The flow of an agent that can continue another's run.
const SINGLE: &str = "single";
/// Maximum length of an agent's description in the tool's, in characters.
const DESCRIPTION_MAX_CHARS: usize = 400;

const PARAMETERS: &[Parameter] = &[Parameter::new(
    "reason",
    Kind::OptionalText,
    "reason, in a few words that the user may read; null: none",
)];

/// A handoff target with its tool.
#[derive(Clone)]
pub struct Target {
    pub tool: SharedTool,
    pub definition: AgentDefinition,
}

struct Transfer {
    spec: ToolSpec,
}

#[async_trait]
impl Tool for Transfer {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<Value, ToolError> {
        let message = format!("{} can be called only within a run", self.spec.name);
        Err(ToolError::RespondToModel(message))
    }
}

/// Returns the existing agents among `handoffs`. Others are not offered: a model can't hand over to a missing agent,
/// and a flow can't continue in the middle of a conversation.
pub async fn targets(db: &PgPool, workspace_id: Uuid, handoffs: &[Handoff]) -> Result<Vec<Target>, sqlx::Error> {
    if handoffs.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = handoffs.iter().map(|handoff| handoff.agent.clone()).collect();
    let known = agents::named(db, workspace_id, &names).await?;
    let targets = handoffs.iter().filter_map(|handoff| {
        let mut takers = known.iter().filter(|definition| definition.flow_type == SINGLE);
        let definition = takers.find(|definition| definition.name == handoff.agent)?;
        Some(Target {
            tool: tool(&handoff.word, definition),
            definition: definition.clone(),
        })
    });
    Ok(targets.collect())
}

fn tool(word: &str, to: &AgentDefinition) -> SharedTool {
    let what: String = to.description.chars().take(DESCRIPTION_MAX_CHARS).collect();
    Arc::new(Transfer {
        spec: ToolSpec {
            name: format!("{PREFIX}{word}"),
            description: format!(
                "Hands this conversation over to {}, who sees all of it and continues at once. {what}",
                to.name
            ),
            parameters: schema(PARAMETERS),
            read_only: false,
            idempotent: true,
            destructive: false,
        },
    })
}
