//! Replies of the scripted model that start other agents or a plan.

use serde_json::{Value, json};

use crate::model_server::Reply;

/// The tool that makes a plan.
pub const PLAN: &str = "agent_create_plan";

/// Returns a call that starts these (agent, task).
pub fn spawn(agents: &[(&str, &str)]) -> Reply {
    let agents: Vec<Value> = agents
        .iter()
        .map(|(agent, task)| json!({"agent_name": agent, "task": task}))
        .collect();
    Reply::tool("spawn_agents", json!({ "agents": agents }))
}

/// A step of a plan that its executor carries out.
pub fn step(number: i32, description: &str, depends_on: &[i32]) -> Value {
    json!({"stepNumber": number, "type": "action", "description": description, "executorRequired": true, "tools": [], "dependsOn": depends_on})
}

/// Returns a call that makes a plan of these steps.
pub fn plan_of(mode: &str, steps: Value) -> Reply {
    Reply::tool(
        PLAN,
        json!({"objective": "launch", "execution_mode": mode, "plan": {"steps": steps}}),
    )
}
