//! Plans of agents, as the API shows them.

use rejoin_runs::agents::DefinitionContent;
use serde_json::Value;
use uuid::Uuid;

use crate::app::TestApp;
use crate::replies::PLAN;

/// A planner with these tools, and an executor with the same ones.
pub async fn planner(app: &TestApp, tools: &[&str], config: Value) -> Uuid {
    app.agent("executor", &["*"]).await;
    let tools: Vec<&str> = tools.iter().copied().chain([PLAN]).collect();
    app.agent_with("planner", &tools, |content: &mut DefinitionContent| {
        content.config = config;
        content.max_steps = None;
    })
    .await
}

/// The states of a plan's steps, in order.
pub fn statuses(plan: &Value) -> Vec<&str> {
    plan["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["status"].as_str().unwrap())
        .collect()
}

/// All plans of the test project.
pub async fn plans(app: &TestApp) -> Vec<Value> {
    let (status, page) = app
        .client()
        .get(&format!("/api/projects/{}/plans", app.db.workspace_id))
        .await;
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().clone()
}
