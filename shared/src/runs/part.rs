//! A run's role in a plan.

use serde_json::Value;
use uuid::Uuid;

/// What a run is in a plan.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "source", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Part {
    /// It may plan.
    Planner,
    /// It proposes what to say, and may do nothing.
    Suggestion,
    /// It does a step.
    PlanStep {
        plan_id: Uuid,
        step_number: i32,
        /// By name: it has no others.
        tools: Vec<String>,
    },
}

impl Part {
    pub fn stored(value: Option<&Value>) -> Option<Self> {
        serde_json::from_value(value?.clone()).ok()
    }

    /// `source` of its events.
    pub fn source(&self) -> &'static str {
        match self {
            Part::Planner => "planner",
            Part::Suggestion => "agent",
            Part::PlanStep { .. } => "plan_step",
        }
    }
}
