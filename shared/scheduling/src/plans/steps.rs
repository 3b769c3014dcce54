//! The steps of a plan, as written by a planner or edited by a user, and their validation. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tasks::spec::{DagSpec, OnFailure, TaskSpec};

/// Maximum number of steps in a plan.
pub const STEPS_MAX: usize = 50;
/// Maximum length of a step's description, in characters.
pub const DESCRIPTION_MAX_CHARS: usize = 4_000;
/// Maximum number of tool names or globs in a step.
pub const TOOLS_MAX: usize = 60;
/// Maximum length of a step's type, in characters.
const TYPE_MAX_CHARS: usize = 60;
/// Maximum number of concurrent steps.
pub const MAX_PARALLEL_STEPS: i32 = 3;
/// Number of retries of a step.
pub const RETRIES: i32 = 1;
/// The type of steps whose failure stops the whole plan.
pub const RESEARCH: &str = "research";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    #[default]
    Pending,
    Executing,
    Completed,
    Failed,
    Skipped,
}

impl StepStatus {
    /// Converts a task's state.
    pub fn of_task(state: &str) -> Self {
        match state {
            "in_progress" => StepStatus::Executing,
            "completed" => StepStatus::Completed,
            "failed" => StepStatus::Failed,
            "skipped" => StepStatus::Skipped,
            _ => StepStatus::Pending,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    #[serde(alias = "step_number")]
    pub step_number: i32,
    /// The kind of work, such as `research`, `action`, `analysis`.
    #[serde(rename = "type", default = "usual_type")]
    pub kind: String,
    pub description: String,
    /// Whether a separate agent executes it, which sees only the step and its predecessors.
    #[serde(default = "yes", alias = "executor_required")]
    pub executor_required: bool,
    /// Names and globs. A glob grants read-only tools only.
    #[serde(default)]
    pub tools: Vec<String>,
    #[serde(default, alias = "depends_on")]
    pub depends_on: Vec<i32>,
    #[serde(default)]
    pub status: StepStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn usual_type() -> String {
    "action".to_owned()
}

fn yes() -> bool {
    true
}

/// The tool names granted to each step, by its number.
pub type StepTools = BTreeMap<i32, Vec<String>>;

/// Parses steps from `{"steps": […]}` or a list. Err: what is wrong, for the author.
pub fn read(plan: &Value) -> Result<Vec<Step>, String> {
    let steps = plan.get("steps").unwrap_or(plan);
    let steps: Vec<Step> = serde_json::from_value(steps.clone()).map_err(|error| {
        format!(
            "the plan's steps must be [{{stepNumber, type, description, executorRequired, tools, dependsOn}}]: \
            {error}"
        )
    })?;
    check(&steps)?;
    Ok(steps)
}

/// Validates them. The error describes the first fault, for the author.
pub fn check(steps: &[Step]) -> Result<(), String> {
    if steps.is_empty() || steps.len() > STEPS_MAX {
        return Err(format!(
            "a plan must have 1 to {STEPS_MAX} steps; this one has {}",
            steps.len()
        ));
    }
    let mut numbers = BTreeSet::new();
    for step in steps {
        let number = step.step_number;
        if number < 1 {
            return Err(format!("step numbers start at 1; there is a step {number}"));
        }
        if !numbers.insert(number) {
            return Err(format!("there are two steps {number}"));
        }
        let chars = step.description.trim().chars().count();
        if chars == 0 || chars > DESCRIPTION_MAX_CHARS || step.description.contains('\0') {
            return Err(format!(
                "step {number}: a description must have 1 to {DESCRIPTION_MAX_CHARS} characters and no NUL"
            ));
        }
        if step.kind.is_empty() || step.kind.chars().count() > TYPE_MAX_CHARS || step.kind.contains('\0') {
            return Err(format!(
                "step {number}: a type must have 1 to {TYPE_MAX_CHARS} characters"
            ));
        }
        if step.tools.len() > TOOLS_MAX {
            return Err(format!("step {number}: a step can have at most {TOOLS_MAX} tools"));
        }
    }
    for step in steps {
        for before in &step.depends_on {
            if !numbers.contains(before) {
                return Err(format!(
                    "step {} depends on step {before}, which does not exist",
                    step.step_number
                ));
            }
            // Dependencies are always earlier steps: so there is no cycle.
            if *before >= step.step_number {
                return Err(format!(
                    "step {} depends on step {before}: a step can depend only on earlier ones",
                    step.step_number
                ));
            }
        }
    }
    Ok(())
}

/// Resolves the tools of each step: the requested ones of the planner's tools. A writing tool must be named exactly.
/// Err: a step requests an unavailable tool.
pub fn tools(steps: &[Step], planners: &[(String, bool)]) -> Result<StepTools, String> {
    let mut of_steps = BTreeMap::new();
    for step in steps {
        let mut granted = BTreeSet::new();
        for wanted in &step.tools {
            let patterns = rejoin_tools::registry::Patterns::new(std::slice::from_ref(wanted));
            let mut found = false;
            for (name, read_only) in planners.iter().filter(|(name, _)| patterns.is_match(name)) {
                found = true;
                if *read_only || name == wanted {
                    granted.insert(name.clone());
                }
            }
            if !found {
                let known: Vec<&str> = planners.iter().map(|(name, _)| name.as_str()).collect();
                return Err(format!(
                    "step {}: there is no tool {wanted} that you may use; the available tools are: {}",
                    step.step_number,
                    known.join(", ")
                ));
            }
        }
        of_steps.insert(step.step_number, granted.into_iter().collect());
    }
    Ok(of_steps)
}

/// Returns the DAG that executes the steps that are not completed. `executor` executes the steps that need one,
/// `planner` the others.
pub fn dag(name: &str, steps: &[Step], executor: &str, planner: &str) -> DagSpec {
    let done = |number: &i32| {
        steps
            .iter()
            .any(|step| step.step_number == *number && step.status == StepStatus::Completed)
    };
    let tasks = steps
        .iter()
        .filter(|step| !done(&step.step_number))
        .map(|step| TaskSpec {
            id: step.step_number.to_string(),
            title: Some(title(&step.description)),
            description: described(step, steps),
            after: step
                .depends_on
                .iter()
                .filter(|number| !done(number))
                .map(i32::to_string)
                .collect(),
            agent: Some(if step.executor_required { executor } else { planner }.to_owned()),
            priority: Default::default(),
            complexity: None,
            max_retries: Some(RETRIES),
            requires_collaboration: false,
        });
    DagSpec {
        name: title(name),
        tasks: tasks.collect(),
        max_concurrency: Some(MAX_PARALLEL_STEPS),
        // Whether a step's failure stops the plan is decided when it fails.
        on_failure: OnFailure::Skip,
        rules: Vec::new(),
        selector_agent: None,
        judge_agent: None,
        triage_agent: None,
    }
}

/// Returns the description of a step for its agent, with the results of its completed predecessors.
fn described(step: &Step, steps: &[Step]) -> String {
    let mut instructions = step.description.clone();
    for before in steps
        .iter()
        .filter(|before| step.depends_on.contains(&before.step_number))
    {
        if let (StepStatus::Completed, Some(result)) = (before.status, &before.result) {
            instructions.push_str(&format!(
                "\n\nResult of step {} ({}):\n{result}",
                before.step_number, before.description
            ));
        }
    }
    instructions
}

fn title(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(number: i32, depends_on: &[i32]) -> Value {
        json!({"stepNumber": number, "description": format!("do {number}"), "dependsOn": depends_on})
    }

    /// Requirements: E41.
    #[test]
    fn a_sound_plan_is_read_in_both_spellings() {
        let camel = read(&json!({"steps": [step(1, &[]), step(2, &[1])]})).unwrap();
        let snake = read(&json!([
            {"step_number": 1, "type": "action", "description": "do 1", "executor_required": true},
            {"step_number": 2, "description": "do 2", "depends_on": [1], "tools": []},
        ]))
        .unwrap();
        assert_eq!(camel, snake);
    }

    /// Requirements: E41.
    #[test]
    fn what_is_wrong_with_a_plan_is_named() {
        for (plan, word) in [
            (json!([]), "1 to 50"),
            (json!({"steps": []}), "1 to 50"),
            (json!([step(0, &[])]), "numbers start at 1"),
            (json!([step(1, &[]), step(1, &[])]), "two steps 1"),
            (json!([step(1, &[2]), step(2, &[])]), "earlier"),
            (json!([step(1, &[1])]), "earlier"),
            (json!([step(1, &[7])]), "does not exist"),
            (json!([{"stepNumber": 1, "description": " "}]), "description"),
            (json!([{"stepNumber": 1, "description": "x", "more": 1}]), "more"),
            (json!([{"stepNumber": "one", "description": "x"}]), "stepNumber"),
        ] {
            let fault = read(&plan).unwrap_err();
            assert!(fault.contains(word), "{plan}: {fault}");
        }
    }

    /// Requirements: E43.
    #[test]
    fn a_step_has_only_its_tools_and_writes_by_name_only() {
        let planners =
            [("get_a", true), ("get_b", true), ("delete_a", false)].map(|(name, reads)| (name.to_owned(), reads));
        let plan = |tools: Value| read(&json!([{"stepNumber": 1, "description": "x", "tools": tools}])).unwrap();
        let granted = |wanted: Value| tools(&plan(wanted), &planners).map(|of| of[&1].clone());
        assert_eq!(granted(json!(["*"])).unwrap(), ["get_a", "get_b"]);
        assert_eq!(granted(json!(["*_a"])).unwrap(), ["get_a"]);
        assert_eq!(granted(json!(["delete_a"])).unwrap(), ["delete_a"]);
        assert_eq!(granted(json!([])).unwrap(), Vec::<String>::new());
        assert!(granted(json!(["format_disk"])).unwrap_err().contains("format_disk"));
    }

    #[test]
    fn what_is_done_is_kept_and_not_done_again() {
        let mut steps = read(&json!([step(1, &[]), step(2, &[1]), step(3, &[2])])).unwrap();
        steps[0].status = StepStatus::Completed;
        steps[0].result = Some("found".to_owned());
        let dag = dag("launch", &steps, "executor", "planner");
        let ids: Vec<&str> = dag.tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["2", "3"]);
        assert!(dag.tasks[0].after.is_empty() && dag.tasks[0].description.contains("found"));
        assert_eq!(dag.tasks[1].after, ["2"]);
        dag.check().unwrap();
    }
}
