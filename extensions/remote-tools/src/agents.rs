//! Agents that programs announce: a tool of the program executes their turns, or a language model with a prompt of the program does. Each
//! becomes an agent definition, which stays when no program is there. What the program has announced belongs to it: another registration
//! changes it. Definitions that admins have made are not replaced.

use std::collections::BTreeSet;

use rejoin_models::choice::ModelChoice;
use rejoin_runs::agents::{self, AgentDefinition, DefinitionContent, FUNCTION};
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

/// Maximum length of an agent's name and description, in characters.
const TEXT_MAX_CHARS: usize = 200;
/// Marks the definition of an agent whose prompt is a program's.
const ANNOUNCED: &str = "announced";
/// Agents of language models have this flow.
const SINGLE: &str = "single";

/// An agent: with `tool`, this tool executes its turns; with `systemPrompt`, a language model does
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteAgentBody {
    /// 1 to 200 characters; not the name of an agent that no program has announced
    pub name: String,
    /// What it does, for people and for agents that start it
    pub description: String,
    /// The tool, one of this worker's. It gets `message` and, if its schema has it, `history`, a list of `{role, text}`; its result is the answer
    #[serde(default)]
    pub tool: Option<String>,
    /// The prompt of a language model
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// With `systemPrompt`: the tools that it may call, names of this worker's. With the scope `admin`: of any tools, with globs
    #[serde(default)]
    pub tools: Vec<String>,
    /// With `systemPrompt`: the model, `provider:model` or a well-known name; null: that of plain conversations
    #[serde(default)]
    pub model: Option<String>,
    /// With `systemPrompt`: the JSON Schema of its answers; null: any text
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// With `systemPrompt`: maximum number of model calls in a turn
    #[serde(default)]
    pub max_steps: Option<i32>,
}

impl RemoteAgentBody {
    /// Err: what is wrong with it. `tools`: the names of the worker's tools.
    pub(crate) fn check(&self, tools: &BTreeSet<&str>) -> Result<(), String> {
        let name = &self.name;
        let is_text = |text: &String| text.chars().count() <= TEXT_MAX_CHARS && !text.contains('\0');
        if name.trim().is_empty() || !is_text(name) || !is_text(&self.description) {
            return Err(format!(
                "an agent has a name and a description of at most {TEXT_MAX_CHARS} characters, without NUL"
            ));
        }
        match (&self.tool, &self.system_prompt) {
            (Some(tool), None) if !tools.contains(tool.as_str()) => Err(format!(
                "the agent {name} is executed by {tool}, which is not a tool of this worker"
            )),
            (Some(_), None)
                if !self.tools.is_empty()
                    || self.model.is_some()
                    || self.output_schema.is_some()
                    || self.max_steps.is_some() =>
            {
                Err(format!(
                    "the agent {name} is executed by a tool: tools, model, outputSchema and maxSteps belong to an agent with a systemPrompt"
                ))
            }
            (Some(_), None) => Ok(()),
            (None, Some(prompt)) if prompt.contains('\0') => {
                Err(format!("the systemPrompt of the agent {name} contains a NUL character"))
            }
            (None, Some(_)) => {
                let mut content = DefinitionContent::blank();
                self.apply(&mut content);
                content.check().map_err(|why| format!("the agent {name}: {why}"))
            }
            (Some(_), Some(_)) | (None, None) => Err(format!("the agent {name} needs either a tool or a systemPrompt")),
        }
    }

    /// Returns a tool of the agent that is not among these.
    pub(crate) fn foreign_tool<'a>(&'a self, tools: &[String]) -> Option<&'a str> {
        self.tools.iter().find(|tool| !tools.contains(tool)).map(String::as_str)
    }

    /// Sets what belongs to the program. The rest belongs to the workspace's admins.
    fn apply(&self, content: &mut DefinitionContent) {
        content.name.clone_from(&self.name);
        content.description.clone_from(&self.description);
        let Some(config) = content.config.as_object_mut() else {
            return;
        };
        if let Some(tool) = &self.tool {
            FUNCTION.clone_into(&mut content.flow_type);
            config.insert("flow".to_owned(), json!({ "tool": tool }));
            config.remove(ANNOUNCED);
            return;
        }
        if content.flow_type == FUNCTION {
            config.remove("flow");
        }
        SINGLE.clone_into(&mut content.flow_type);
        config.insert(ANNOUNCED.to_owned(), json!(true));
        match &self.output_schema {
            Some(schema) => config.insert("outputSchema".to_owned(), schema.clone()),
            None => config.remove("outputSchema"),
        };
        content.system_prompt = self.system_prompt.clone().unwrap_or_default();
        content.model = Some(ModelChoice::named(self.model.as_deref().unwrap_or("default")));
        content.tools.clone_from(&self.tools);
        content.max_steps = self.max_steps;
    }
}

/// Whether a program has announced this agent.
fn is_announced(definition: &AgentDefinition) -> bool {
    definition.flow_type == FUNCTION || definition.config[ANNOUNCED] == true
}

/// Why an agent can't be announced.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    #[error("an agent named {0} is there already, and no program has announced it; give yours another name")]
    Taken(String),
    #[error("storing the agent failed")]
    Database(#[from] sqlx::Error),
}

/// A definition that an announcement has made or changed.
#[derive(Debug)]
pub struct AnnouncedAgent {
    pub id: Uuid,
    pub name: String,
    pub is_new: bool,
}

/// Stores an agent's definition, or changes that of an announced agent. None: it is there already.
pub async fn announce(
    db: &mut PgConnection,
    workspace_id: Uuid,
    agent: &RemoteAgentBody,
) -> Result<Option<AnnouncedAgent>, AnnounceError> {
    let taken = || AnnounceError::Taken(agent.name.clone());
    let announced = |id, is_new| AnnouncedAgent {
        id,
        name: agent.name.clone(),
        is_new,
    };
    let Some(known) = agents::find_by_name(&mut *db, workspace_id, &agent.name).await? else {
        let mut content = DefinitionContent::blank();
        agent.apply(&mut content);
        let made = agents::insert(db, workspace_id, &content).await?.ok_or_else(taken)?;
        return Ok(Some(announced(made.id, true)));
    };
    if !is_announced(&known) {
        return Err(taken());
    }
    let id = known.id;
    let before = DefinitionContent::from(known);
    let mut content = before.clone();
    agent.apply(&mut content);
    if content == before {
        return Ok(None);
    }
    agents::update(db, workspace_id, id, &content).await?;
    Ok(Some(announced(id, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(agent: Value) -> Result<(), String> {
        let agent: RemoteAgentBody = serde_json::from_value(agent).expect("an agent");
        agent.check(&BTreeSet::from(["refund"]))
    }

    #[test]
    fn an_agent_has_a_tool_or_a_prompt() {
        let prompt = json!({"name": "clerk", "description": "", "systemPrompt": "Look first."});
        assert_eq!(check(prompt.clone()), Ok(()));
        assert_eq!(
            check(json!({"name": "clerk", "description": "", "tool": "refund"})),
            Ok(())
        );
        let with = |field: &str, value: Value| {
            let mut agent = prompt.clone();
            agent[field] = value;
            agent
        };
        for (agent, expected) in [
            (
                json!({"name": "clerk", "description": ""}),
                "either a tool or a systemPrompt",
            ),
            (with("tool", json!("refund")), "either a tool or a systemPrompt"),
            (
                json!({"name": "clerk", "description": "", "tool": "refund", "model": "gpt"}),
                "belong to an agent with a systemPrompt",
            ),
            (
                json!({"name": "clerk", "description": "", "tool": "pay"}),
                "not a tool of this worker",
            ),
            (with("name", json!(" ")), "a name and a description"),
            (with("outputSchema", json!({"type": "string"})), "outputSchema"),
            (with("maxSteps", json!(0)), "maxSteps"),
            (with("systemPrompt", json!("a\u{0}b")), "NUL"),
        ] {
            let why = check(agent).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn what_admins_set_stays_and_a_kind_may_change() {
        let of = |agent: Value| serde_json::from_value::<RemoteAgentBody>(agent).expect("an agent");
        let mut content = DefinitionContent::blank();
        content.visibility = "internal".to_owned();
        content.config = json!({"confirm": ["refund"]});
        of(json!({"name": "clerk", "description": "", "tool": "refund"})).apply(&mut content);
        assert_eq!(content.check(), Ok(()));
        of(json!({"name": "clerk", "description": "", "systemPrompt": "Look.", "tools": ["refund"], "outputSchema": {"type": "object"}}))
            .apply(&mut content);
        assert_eq!(content.check(), Ok(()));
        assert_eq!(
            content.config,
            json!({"confirm": ["refund"], "announced": true, "outputSchema": {"type": "object"}})
        );
        assert_eq!(
            (content.visibility.as_str(), content.flow_type.as_str()),
            ("internal", "single")
        );
        of(json!({"name": "clerk", "description": "", "tool": "refund"})).apply(&mut content);
        assert_eq!(content.check(), Ok(()));
    }
}
