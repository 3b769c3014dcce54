//! A run's role in a plan.

use serde_json::Value;
use uuid::Uuid;

/// A run's role in a plan.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "source", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Part {
    /// A planner.
    Planner,
    /// It proposes a message, and has no tools.
    Suggestion,
    /// It executes a step.
    PlanStep {
        plan_id: Uuid,
        step_number: i32,
        /// The names of its only tools.
        tools: Vec<String>,
    },
}

impl Part {
    pub fn stored(value: Option<&Value>) -> Option<Self> {
        serde_json::from_value(value?.clone()).ok()
    }

    /// The `source` of its events.
    pub fn source(&self) -> &'static str {
        match self {
            Part::Planner => "planner",
            Part::Suggestion => "agent",
            Part::PlanStep { .. } => "plan_step",
        }
    }
}
