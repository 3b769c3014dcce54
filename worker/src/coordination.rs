//! Coordination tools: find agents, start them, ask a user. They are part of every workspace's pool, and granted by
//! whitelists like all others; below the root of a run tree only if a whitelist names them ([`keeps`]).
//!
//! - `deliberation` records discussions in the graph; for flows only
//! - `handoffs`    handing a run over to another agent
//! - `plans`       creating plans
//!
//! `spawn_agents`, `create_tasks` and `ask_user` are handled by the step loop (`run/deferred.rs`): their run is
//! suspended.

pub mod deliberation;
pub mod handoffs;
pub mod plans;

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use rejoin_commands::{NewSpawn, NewTasks, SpawnItem, SpawnWhat};
use rejoin_runs::agents;
pub use rejoin_runs::builtin::{ASK_USER, CREATE_TASKS, LIST_AVAILABLE_AGENTS, SPAWN_AGENTS};
use rejoin_runs::questions::{ANSWER_MAX_CHARS, AnswerOption, NewQuestion};
use rejoin_scheduling::tasks::spec::{DagSpec, MAX_CONCURRENCY, OnFailure, TaskSpec};
use rejoin_tools::arguments::{Arguments, Kind, Parameter, schema};
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use rejoin_types::events::PLAN_TOOL;
use rejoin_types::ids;
use serde_json::{Value, json};
use uuid::Uuid;

/// Maximum depth of a run that may start sub-agents, whatever its definition says (requirement C24).
pub const MAX_DEPTH: i32 = 2;
/// Maximum number of sub-agents started by one call.
const SPAWN_MAX: usize = 20;
/// Maximum number of tasks created by one call.
const CREATE_TASKS_MAX: usize = 200;
/// Maximum number of agents in one list.
const LIST_MAX: i64 = 200;
/// Maximum length of a sub-agent's task, in characters.
const TASK_MAX_CHARS: usize = 100_000;
/// Maximum timeout of a sub-agent, in seconds.
const TIMEOUT_MAX_S: i64 = 86_400;
/// Maximum length of a question, in characters.
pub const QUESTION_MAX_CHARS: usize = 4_000;
pub const OPTIONS_MAX: usize = 50;
const INTERACTION_TYPES: [&str; 4] = ["buttons", "select", "multi_select", "text"];

const SPAWN_FIELDS: &[Parameter] = &[
    Parameter::new(
        "agent_name",
        Kind::Text,
        "name of the agent, as returned by list_available_agents",
    ),
    Parameter::new(
        "task",
        Kind::Text,
        "the task, with all the information that the agent needs: it does not see this conversation",
    ),
    Parameter::new(
        "timeout",
        Kind::OptionalInteger,
        "seconds after which it must sum up; null: the agent's default",
    ),
    Parameter::new(
        "resume_run_id",
        Kind::OptionalText,
        "id of a paused run of this agent to resume instead of starting a new one; null: new run",
    ),
];

const OPTION_FIELDS: &[Parameter] = &[
    Parameter::new("label", Kind::Text, "label shown to the person"),
    Parameter::new("value", Kind::Text, "value returned to you"),
    Parameter::new(
        "description",
        Kind::OptionalText,
        "description of the option; null: none",
    ),
];

const TASK_FIELDS: &[Parameter] = &[
    Parameter::new("id", Kind::Text, "id of the task, unique among the tasks"),
    Parameter::new("title", Kind::Text, "title of the task, in one line"),
    Parameter::new(
        "description",
        Kind::OptionalText,
        "description of the task, with all the information that its agent needs",
    ),
    Parameter::new(
        "after",
        Kind::OptionalTexts,
        "ids of the tasks that must end before this one starts",
    ),
    Parameter::new(
        "agent",
        Kind::OptionalText,
        "name of the agent that does it; null: the best match is selected",
    ),
    Parameter::new(
        "priority",
        Kind::OptionalChoice(&["low", "medium", "high", "critical"]),
        "priority; null: medium",
    ),
];

struct Coordination {
    spec: ToolSpec,
}

/// Creates a tool of this file with these parameters.
fn tool(name: &str, description: &str, parameters: &[Parameter], read_only: bool) -> SharedTool {
    Arc::new(Coordination {
        spec: ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: schema(parameters),
            read_only,
            idempotent: read_only,
            destructive: false,
        },
    })
}

static TOOLS: LazyLock<Vec<SharedTool>> = LazyLock::new(|| {
    vec![
        tool(
            LIST_AVAILABLE_AGENTS,
            "Lists the agents that can be started with spawn_agents, with their names and purposes.",
            &[],
            true,
        ),
        tool(
            SPAWN_AGENTS,
            "Starts sub-agents in parallel and waits for all of them. Returns for each: agent_name, run_id, status \
            (completed, paused, failed or cancelled), summary, steps and, if it failed, error. A paused run can be \
            resumed with resume_run_id.",
            &[Parameter::new("agents", Kind::Objects(SPAWN_FIELDS), "agents to start")],
            false,
        ),
        tool(
            CREATE_TASKS,
            "Splits work into tasks for agents, runs them in parallel as far as their dependencies allow, and waits \
            for all of them. Each agent gets the results of the tasks before it. Returns dag_id, state and for each \
            task: id, status, agent, summary, error.",
            &[
                Parameter::new("name", Kind::Text, "name of the whole job"),
                Parameter::new("tasks", Kind::Objects(TASK_FIELDS), "tasks to run"),
                Parameter::new(
                    "max_concurrency",
                    Kind::OptionalInteger,
                    "maximum number of tasks that run at the same time; null: 5",
                ),
                Parameter::new("wait", Kind::OptionalBoolean, "whether to wait for the end; null: true"),
            ],
            false,
        ),
        tool(
            ASK_USER,
            "Asks the person you work for, and waits for the answer, however long it takes. Ask only what you cannot \
            find out yourself.",
            &[
                Parameter::new("question", Kind::Text, "question to ask"),
                Parameter::new(
                    "options",
                    Kind::Objects(OPTION_FIELDS),
                    "answers to choose from; empty for a free-text answer",
                ),
                Parameter::new(
                    "interaction_type",
                    Kind::OptionalChoice(&INTERACTION_TYPES),
                    "how the question is shown; null: buttons if there are options, otherwise text",
                ),
                Parameter::new("placeholder", Kind::OptionalText, "placeholder of an empty text field"),
                Parameter::new(
                    "max_length",
                    Kind::OptionalInteger,
                    "maximum length of a free-text answer, in \
                    characters",
                ),
            ],
            false,
        ),
        plans::tool(),
    ]
});

/// All coordination tools.
pub fn tools() -> Vec<SharedTool> {
    TOOLS.clone()
}

/// The tool that starts sub-agents: flows use it regardless of their whitelist.
pub fn spawn_agents() -> SharedTool {
    // In the order of the list above.
    TOOLS[1].clone()
}

/// The tool that asks a user; likewise.
pub fn ask_user() -> SharedTool {
    TOOLS[3].clone()
}

/// Returns whether a run at this depth keeps a tool granted by its whitelist: below the root, starting agents requires
/// that the whitelist names the tool (a glob is not enough), and at [`MAX_DEPTH`] it is impossible.
pub fn keeps(tool: &str, whitelist: &[String], depth: i32, max_depth: Option<i32>) -> bool {
    if ![SPAWN_AGENTS, LIST_AVAILABLE_AGENTS, CREATE_TASKS, PLAN_TOOL].contains(&tool) {
        return true;
    }
    let deepest = max_depth.unwrap_or(MAX_DEPTH).min(MAX_DEPTH);
    depth < deepest && (depth == 0 || whitelist.iter().any(|name| name == tool))
}

#[async_trait]
impl Tool for Coordination {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, _: Value) -> Result<Value, ToolError> {
        if self.spec.name != LIST_AVAILABLE_AGENTS {
            let message = format!("{} can be called only within a run", self.spec.name);
            return Err(ToolError::RespondToModel(message));
        }
        let found = agents::list(&context.db, context.workspace_id, None, LIST_MAX).await;
        let agents = found.map_err(|source| ToolError::Internal {
            attempted: "listing the agents".to_owned(),
            source: Box::new(source),
        })?;
        let listed: Vec<Value> = agents
            .iter()
            .map(|agent| json!({"name": agent.name, "description": agent.description, "flow_type": agent.flow_type}))
            .collect();
        Ok(json!({"total": listed.len(), "agents": listed}))
    }
}

/// Returns the sub-agents requested by a call. An invalid item is refused individually; an outer Err concerns the whole
/// call. Both are for the model.
pub async fn spawn_items(
    db: &sqlx::PgPool,
    workspace_id: Uuid,
    arguments: Value,
) -> Result<Result<Vec<SpawnItem>, String>, sqlx::Error> {
    let asked = Arguments::of(arguments).objects("agents");
    if asked.is_empty() || asked.len() > SPAWN_MAX {
        return Ok(Err(format!(
            "agents must have 1 to {SPAWN_MAX} items; it has {}",
            asked.len()
        )));
    }
    let mut items = Vec::with_capacity(asked.len());
    for item in &asked {
        let agent_name = item.text("agent_name").unwrap_or_default().to_owned();
        let task = item.text("task").unwrap_or_default().to_owned();
        let timeout_s = item
            .has("timeout")
            .then(|| item.integer("timeout", 1, (1, TIMEOUT_MAX_S)))
            .and_then(|seconds| i32::try_from(seconds).ok());
        let what = match (
            item.text("resume_run_id"),
            agents::find_by_name(db, workspace_id, &agent_name).await?,
        ) {
            (_, None) => {
                let known = agents::list(db, workspace_id, None, LIST_MAX).await?;
                let names: Vec<&str> = known.iter().map(|agent| agent.name.as_str()).collect();
                SpawnWhat::Refused(format!(
                    "there is no agent {agent_name}; the available agents are: {}",
                    names.join(", ")
                ))
            }
            _ if task.is_empty() || task.chars().count() > TASK_MAX_CHARS => {
                SpawnWhat::Refused(format!("task must have 1 to {TASK_MAX_CHARS} characters"))
            }
            (Some(run), Some(_)) => match Uuid::parse_str(run) {
                Ok(run_id) => SpawnWhat::Resume { run_id, timeout_s },
                Err(_) => SpawnWhat::Refused(format!("resume_run_id: {run} is not a valid run id")),
            },
            (None, Some(definition)) => SpawnWhat::New(NewSpawn {
                definition_id: Some(definition.id),
                timeout_s,
                output_schema: None,
            }),
        };
        items.push(SpawnItem { agent_name, task, what });
    }
    Ok(Ok(items))
}

/// Returns the DAG requested by a call. Err: what is wrong with it, for the model.
pub fn new_tasks(arguments: Value) -> Result<NewTasks, String> {
    let arguments = Arguments::of(arguments);
    let tasks = arguments.objects("tasks");
    let tasks = tasks.iter().map(|task| {
        let priority = task.text("priority").unwrap_or("medium");
        TaskSpec {
            id: task.text("id").unwrap_or_default().to_owned(),
            title: task.text("title").map(str::to_owned),
            description: task.text("description").unwrap_or_default().to_owned(),
            after: task.texts("after"),
            agent: task.text("agent").map(str::to_owned),
            priority: serde_json::from_value(priority.into()).unwrap_or_default(),
            complexity: None,
            max_retries: None,
            requires_collaboration: false,
        }
    });
    let concurrency = i64::from(MAX_CONCURRENCY);
    let spec = DagSpec {
        name: arguments.text("name").unwrap_or_default().to_owned(),
        tasks: tasks.collect(),
        max_concurrency: i32::try_from(arguments.integer("max_concurrency", concurrency, (1, 1_000))).ok(),
        on_failure: OnFailure::default(),
        rules: Vec::new(),
        selector_agent: None,
        judge_agent: None,
        triage_agent: None,
    };
    if spec.tasks.len() > CREATE_TASKS_MAX {
        return Err(format!("tasks must have 1 to {CREATE_TASKS_MAX} items"));
    }
    let ordered = spec.check()?;
    Ok(NewTasks {
        spec,
        ordered,
        waits: !arguments.has("wait") || arguments.flag("wait"),
    })
}

/// Returns the question of a call. Err: what is wrong with it, for the model.
pub fn question(arguments: Value) -> Result<NewQuestion, String> {
    let arguments = Arguments::of(arguments);
    let question = arguments.text("question").unwrap_or_default().to_owned();
    if question.is_empty() || question.chars().count() > QUESTION_MAX_CHARS {
        return Err(format!("question must have 1 to {QUESTION_MAX_CHARS} characters"));
    }
    let options: Vec<AnswerOption> = arguments
        .objects("options")
        .iter()
        .map(|option| AnswerOption {
            label: option.text("label").unwrap_or_default().to_owned(),
            value: option.text("value").unwrap_or_default().to_owned(),
            description: option.text("description").map(str::to_owned),
        })
        .collect();
    let is_broken = |option: &AnswerOption| option.label.is_empty() || option.value.is_empty();
    if options.len() > OPTIONS_MAX || options.iter().any(is_broken) {
        return Err(format!(
            "options can have at most {OPTIONS_MAX} items, each with a label and a value"
        ));
    }
    let usual = if options.is_empty() { "text" } else { "buttons" };
    let interaction_type = arguments.text("interaction_type").unwrap_or(usual).to_owned();
    if (interaction_type == "text") != options.is_empty() {
        return Err("options can be used only with buttons, select and multi_select, which require them".to_owned());
    }
    let most = i64::try_from(ANSWER_MAX_CHARS).unwrap_or(i64::MAX);
    let max_length = arguments
        .has("max_length")
        .then(|| arguments.integer("max_length", most, (1, most)))
        .and_then(|length| i32::try_from(length).ok());
    Ok(NewQuestion {
        id: ids::new(),
        kind: "ask",
        question,
        options,
        interaction_type,
        placeholder: arguments.text("placeholder").map(str::to_owned),
        max_length,
        form_field: None,
    })
}

/// Returns the question whether a call may act.
pub fn confirmation(tool: &str, input: &Value) -> NewQuestion {
    let option = |label: &str, value: &str| AnswerOption {
        label: label.to_owned(),
        value: value.to_owned(),
        description: None,
    };
    let shown: String = input.to_string().chars().take(QUESTION_MAX_CHARS).collect();
    NewQuestion {
        id: ids::new(),
        kind: "confirm",
        question: format!("Allow the call of {tool} with {shown}?"),
        options: vec![
            option("Approve", "approve"),
            option("Edit", "edit"),
            option("Refuse", "refuse"),
        ],
        interaction_type: "confirm".to_owned(),
        placeholder: None,
        max_length: None,
        form_field: None,
    }
}

#[cfg(test)]
mod tests;
