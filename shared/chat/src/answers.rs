//! How an answer came about, as messages and exports show it. Called by the endpoints of messages, here and in `api`.

use rejoin_runs::answers::Answer;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// The run that wrote an answer, and what it used
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerBody {
    pub run_id: Uuid,
    /// `completed`, `failed`, `cancelled` or `paused`; another state if the run was resumed
    pub state: String,
    pub agent_definition_id: Option<Uuid>,
    /// The agent's name at that time
    pub agent: Option<String>,
    /// The version of the agent
    pub agent_version: Option<i32>,
    pub model: Option<String>,
    /// Tokens and cost of the run alone: `inputTokens`, `outputTokens`, `totalTokens`, `costUsd`, `steps`
    pub usage: Value,
    /// Input and output tokens of the run and of all runs that it started
    pub tree_tokens: i64,
    /// Cost of these, in dollars
    pub tree_cost_usd: f64,
    /// From the run's start to its end
    pub duration_ms: Option<i64>,
}

impl From<Answer> for AnswerBody {
    fn from(answer: Answer) -> Self {
        Self {
            duration_ms: answer.duration_ms(),
            run_id: answer.run_id,
            state: answer.state,
            agent_definition_id: answer.agent_definition_id,
            agent: answer.agent,
            agent_version: answer.agent_version,
            model: answer.model,
            usage: answer.usage,
            tree_tokens: answer.tree_tokens,
            tree_cost_usd: answer.tree_cost_usd,
        }
    }
}
