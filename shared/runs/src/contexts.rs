//! The context of a conversation: its type, which selects prompt and tools, and its focus, a project of the work graph
//! (optionally one entity in it) to which its tools are confined.
//!
//! - `usage`    how full a model's context window is
//! - `location` describes the project in focus to a model; can be prepared in advance
//!
//! A message may carry a patch of the context ([`ContextPatch`]); missing fields stay unchanged. Tools may change the context.
//! Invariant: the server keeps the context; a client's statements about earlier turns are never trusted.

pub mod location;
mod usage;

pub use usage::{TOKEN_BUDGET, usage, with_window};

use std::collections::HashMap;
use std::sync::LazyLock;

use rejoin_event_log::log;
use rejoin_types::events::{Event, Kind, PLAN_TOOL};
use rejoin_types::focus::Focus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// Maximum length of a project's name, in characters.
pub const NAME_MAX_CHARS: usize = 200;
/// Maximum length of the message in a turn's summary, in characters.
const SUMMARY_CHARS: usize = 60;
/// Maximum length of a project's prompt for a context type, in characters.
pub const PROMPT_MAX_CHARS: usize = 20_000;
/// Maximum number of a project's tool patterns for a context type.
pub const TOOLS_MAX: usize = 200;

rejoin_types::text_enum! {
    /// The context types.
    pub enum ContextType {
        /// Everything of the user. (Alias: `general`.)
        Global = "global" | "general",
        Project = "project",
        Calendar = "calendar",
        ProjectCreate = "project_create",
        ProjectAudit = "project_audit",
        ProjectForecast = "project_forecast",
        DailyBriefUpdate = "daily_brief_update",
        Ontology = "ontology",
        BrainDump = "brain_dump",
    }
}

impl ContextType {
    /// Err: lists the known types.
    pub fn named(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| {
            let shown: String = text.chars().take(NAME_MAX_CHARS).collect();
            format!(
                "there is no context type {shown}; known: {}, and general for global",
                Self::TEXTS.join(", ")
            )
        })
    }

    /// Returns whether a conversation that changes to this type keeps its focus.
    fn keeps_focus(self) -> bool {
        !matches!(self, ContextType::Global | ContextType::ProjectCreate)
    }
}

/// The context of a conversation or a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    pub context_type: ContextType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<Focus>,
}

impl Context {
    /// Reads a column. None: no context was ever set.
    pub fn stored(value: Option<&Value>) -> Option<Self> {
        Self::deserialize(value?).ok()
    }

    pub fn to_json(&self) -> Value {
        json!(self)
    }
}

/// The context patch of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextPatch {
    pub context_type: Option<ContextType>,
    pub focus: Option<Focus>,
}

impl ContextPatch {
    /// Parses `contextType` and `projectFocus` of a request. Err: what is wrong with them.
    pub fn of(context_type: Option<&str>, focus: Option<&Value>) -> Result<Self, String> {
        let context_type = context_type.map(ContextType::named).transpose()?;
        let focus = match focus.filter(|focus| !focus.is_null()) {
            None => None,
            Some(focus) => {
                let mut read = Focus::deserialize(focus).map_err(|error| {
                    format!(
                        "projectFocus must be {{projectId, projectName, focusType?, focusEntityId?}} with UUIDs as \
                        ids: {error}"
                    )
                })?;
                read.project_name = read.project_name.chars().take(NAME_MAX_CHARS).collect();
                Some(read)
            }
        };
        Ok(Self { context_type, focus })
    }

    /// Reads what was stored with a message, validated on receipt.
    pub fn stored(attached: Option<&Value>) -> Self {
        let field = |name: &str| attached.and_then(|attached| attached.get(name));
        Self::of(field("contextType").and_then(Value::as_str), field("projectFocus")).unwrap_or_default()
    }

    /// Applies the patch. None: there was no context, and there is none now.
    pub fn apply_to(self, before: Option<Context>) -> Option<Context> {
        let (was, had) = match before {
            None if self == Self::default() => return None,
            None => (ContextType::Global, None),
            Some(before) => (before.context_type, before.focus),
        };
        let context_type = match (self.context_type, &self.focus) {
            (Some(wanted), _) => wanted,
            // Naming a project alone selects its context type.
            (None, Some(_)) if !was.keeps_focus() => ContextType::Project,
            (None, _) => was,
        };
        let focus = self.focus.or(had.filter(|_| context_type.keeps_focus()));
        Some(Context { context_type, focus })
    }
}

/// A change of context by a tool: `context_shift` of its output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Shift {
    pub new_context: ContextType,
    pub entity_id: Uuid,
    pub entity_name: String,
    pub entity_type: String,
}

impl Shift {
    pub fn read(shift: &Value) -> Option<Self> {
        Self::deserialize(shift).ok()
    }

    pub fn context(self) -> Context {
        Context {
            context_type: self.new_context,
            focus: (self.entity_type == "project").then_some(Focus {
                project_id: self.entity_id,
                project_name: self.entity_name,
                focus_type: None,
                focus_entity_id: None,
            }),
        }
    }
}

/// The context of a turn at its start.
#[derive(Debug, Clone)]
pub struct TurnContext {
    pub context: Context,
    /// The conversation's context that it was derived from, as stored. Null: none.
    pub before: Value,
    /// The context of the previous turn.
    pub last_turn: Option<Value>,
    /// An estimate.
    pub usage: Value,
}

/// The built-in settings of a context type: `data/contexts.json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Settings {
    /// A prompt in addition to the agent's own.
    pub prompt: String,
    /// The tools initially shown to an agent, if it has them: names and globs.
    pub tools: Vec<String>,
}

static SHIPPED: LazyLock<HashMap<ContextType, Settings>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../data/contexts.json")).expect("a test reads it"));

/// Returns the built-in settings.
pub fn shipped(context_type: ContextType) -> &'static Settings {
    &SHIPPED[&context_type]
}

/// Returns a project's settings of a type, if any: (prompt, tools), None: built-in.
pub async fn of_workspace(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    context_type: ContextType,
) -> Result<(Option<String>, Option<Vec<String>>), sqlx::Error> {
    let row = sqlx::query!(
        "select prompt, tools from kb.project_contexts where project_id = $1 and context_type = $2",
        workspace_id,
        context_type.as_str()
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map_or((None, None), |row| {
        let tools = row.tools.and_then(|tools| serde_json::from_value(tools).ok());
        (row.prompt, tools)
    }))
}

/// Returns the effective settings in a project.
pub async fn settings(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    context_type: ContextType,
) -> Result<Settings, sqlx::Error> {
    let (prompt, tools) = of_workspace(db, workspace_id, context_type).await?;
    let shipped = shipped(context_type);
    Ok(Settings {
        prompt: prompt.unwrap_or_else(|| shipped.prompt.clone()),
        tools: tools.unwrap_or_else(|| shipped.tools.clone()),
    })
}

/// Sets a project's settings of a type; None: built-in.
pub async fn set_of_workspace(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    context_type: ContextType,
    prompt: Option<&str>,
    tools: Option<&[String]>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.project_contexts (project_id, context_type, prompt, tools) values ($1, $2, $3, $4)
         on conflict (project_id, context_type) do update
         set prompt = excluded.prompt, tools = excluded.tools, updated_at = now()",
        workspace_id,
        context_type.as_str(),
        prompt,
        tools.map(|tools| json!(tools)) as _
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns a conversation's context, and that of its newest turn.
pub async fn of_conversation(
    db: impl PgExecutor<'_>,
    conversation_id: Uuid,
) -> Result<(Option<Context>, Option<Value>), sqlx::Error> {
    let row = sqlx::query!(
        "select context, last_turn from kb.chat_conversations where id = $1",
        conversation_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map_or((None, None), |row| {
        (Context::stored(row.context.as_ref()), row.last_turn)
    }))
}

/// Changes a conversation's context on a user's request, without a message, and publishes it (`focus_changed`). Returns
/// whether readers must be woken.
pub async fn patch_conversation(
    db: &mut PgConnection,
    conversation_id: Uuid,
    patch: ContextPatch,
) -> Result<bool, sqlx::Error> {
    if patch == ContextPatch::default() {
        return Ok(false);
    }
    log::lock(db, conversation_id).await?;
    let (before, _) = of_conversation(&mut *db, conversation_id).await?;
    let Some(context) = patch.apply_to(before) else {
        return Ok(false);
    };
    let is_elsewhere = sqlx::query_scalar!(
        r#"select kb.set_context($1, $2) as "changed!""#,
        conversation_id,
        context.to_json()
    );
    if !is_elsewhere.fetch_one(&mut *db).await? {
        return Ok(false);
    }
    let event = Event {
        kind: Kind::FocusChanged {
            focus: context.focus.map(|focus| json!(focus)),
        },
        run_id: None,
        agent: None,
        parent_run_id: None,
        source: None,
        step_number: None,
    };
    log::append(db, conversation_id, None, &[event]).await?;
    Ok(true)
}

/// Derives the context of a run's turn from its calls, to be stored with the conversation for the next turn.
/// `ended_at` is the time of its end, for the wire.
pub async fn conclude(
    db: &mut PgConnection,
    run_id: Uuid,
    input: &str,
    context: &Context,
    ended_at: &str,
) -> Result<Value, sqlx::Error> {
    let calls = sqlx::query!(
        r#"select c.tool_name, c.call_id, c.operation
           from kb.agent_run_tool_calls c join kb.agent_runs r on r.id = c.run_id
           where r.root_run_id = $1 and c.status = 'completed' order by c.completed_at, c.id"#,
        run_id
    )
    .fetch_all(&mut *db)
    .await?;
    let mut entities = json!({});
    if let Some(focus) = &context.focus {
        entities["project_id"] = json!(focus.project_id);
    }
    let mut tools: Vec<&str> = Vec::new();
    for call in &calls {
        if !tools.contains(&call.tool_name.as_str()) {
            tools.push(&call.tool_name);
        }
        let Some(operation) = &call.operation else { continue };
        let (Some(kind), Some(id)) = (operation["entity_type"].as_str(), operation["entity_id"].as_str()) else {
            continue;
        };
        match kind {
            "task" | "goal" => {
                let name = format!("{kind}_ids");
                match entities[&name].as_array_mut() {
                    Some(ids) if ids.iter().any(|known| known == id) => {}
                    Some(ids) => ids.push(id.into()),
                    None => entities[&name] = json!([id]),
                }
            }
            _ => entities[&format!("{kind}_id")] = id.into(),
        }
    }
    let strategy = if tools.contains(&PLAN_TOOL) {
        "planner_stream"
    } else if calls.iter().any(|call| call.call_id.starts_with("clarify_")) {
        "ask_clarifying_questions"
    } else if tools.is_empty() {
        "direct_answer"
    } else {
        "direct_tools"
    };
    let summary: String = input.chars().take(SUMMARY_CHARS).collect();
    Ok(json!({
        "summary": summary,
        "entities": entities,
        "context_type": context.context_type,
        "data_accessed": tools,
        "strategy_used": strategy,
        "timestamp": ended_at,
    }))
}

#[cfg(test)]
mod tests;
