//! The content of an agent definition: what its author writes, and its validation. Called by the routes and manifests
//! that write definitions.

use serde_json::{Value, json};

use super::settings::Settings;
use super::{AgentDefinition, VISIBILITIES};
use rejoin_models::choice::ModelChoice;

/// Maximum length of a name, in characters.
const NAME_MAX_CHARS: usize = 200;
/// Maximum length of a prompt, in characters.
const SYSTEM_PROMPT_MAX_CHARS: usize = 200_000;
/// Maximum number of whitelist entries.
const MAX_TOOLS: usize = 500;
/// Values of `flow_type`.
pub const FLOW_TYPES: [&str; 6] = ["single", "sequential", "loop", "parallel", "discussion", FUNCTION];
/// The `flow_type` whose turns are executed by a tool of a user's program.
pub const FUNCTION: &str = "function";

/// The content of a definition, without what the database adds.
#[derive(Debug, Clone, PartialEq)]
pub struct DefinitionContent {
    pub name: String,
    pub description: String,
    pub system_prompt: String,
    pub model: Option<ModelChoice>,
    pub tools: Vec<String>,
    pub flow_type: String,
    pub is_default: bool,
    pub max_steps: Option<i32>,
    pub default_timeout: Option<i32>,
    pub visibility: String,
    pub max_depth: Option<i32>,
    pub config: Value,
}

impl From<AgentDefinition> for DefinitionContent {
    fn from(d: AgentDefinition) -> Self {
        Self {
            name: d.name,
            description: d.description,
            system_prompt: d.system_prompt,
            model: d.model,
            tools: d.tools,
            flow_type: d.flow_type,
            is_default: d.is_default,
            max_steps: d.max_steps,
            default_timeout: d.default_timeout,
            visibility: d.visibility,
            max_depth: d.max_depth,
            config: d.config,
        }
    }
}

impl DefinitionContent {
    /// An empty definition.
    pub fn blank() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            system_prompt: String::new(),
            model: None,
            tools: vec![],
            flow_type: "single".to_owned(),
            is_default: false,
            max_steps: None,
            default_timeout: None,
            visibility: "project".to_owned(),
            max_depth: None,
            config: json!({}),
        }
    }

    /// Validates it. The error is a message for the author.
    pub fn check(&self) -> Result<(), String> {
        if self.name.trim().is_empty() || self.name.chars().count() > NAME_MAX_CHARS {
            return Err(format!("name must have 1 to {NAME_MAX_CHARS} characters"));
        }
        if self.system_prompt.chars().count() > SYSTEM_PROMPT_MAX_CHARS {
            return Err(format!(
                "systemPrompt must have at most {SYSTEM_PROMPT_MAX_CHARS} characters"
            ));
        }
        if !FLOW_TYPES.contains(&self.flow_type.as_str()) {
            return Err(format!("flowType must be one of {}", FLOW_TYPES.join(", ")));
        }
        if !VISIBILITIES.contains(&self.visibility.as_str()) {
            return Err(format!("visibility must be one of {}", VISIBILITIES.join(", ")));
        }
        if self.max_steps.is_some_and(|steps| steps <= 0) {
            return Err("maxSteps must be greater than 0".to_owned());
        }
        if self.default_timeout.is_some_and(|seconds| seconds <= 0) {
            return Err("defaultTimeout must be greater than 0 (seconds)".to_owned());
        }
        if self.max_depth.is_some_and(|depth| depth < 0) {
            return Err("maxDepth must not be negative".to_owned());
        }
        if self.tools.len() > MAX_TOOLS || self.tools.iter().any(|tool| tool.trim().is_empty()) {
            return Err(format!(
                "tools must have at most {MAX_TOOLS} names or globs, none of them empty"
            ));
        }
        if !self.config.is_object() {
            return Err("config must be an object".to_owned());
        }
        let settings = Settings::of(&self.config)?;
        if (self.flow_type == FUNCTION) != settings.flow.tool.is_some() {
            return Err(
                "config.flow.tool, a tool of a program, belongs to the flowType function, which requires it".to_owned(),
            );
        }
        if let Some(model) = &self.model {
            model.check()?;
        }
        Ok(())
    }

    /// Returns the wire names of the fields in which `other` differs.
    pub fn changed_fields(&self, other: &Self) -> Vec<&'static str> {
        // By name, so that no new field is forgotten here.
        let Self {
            name,
            description,
            system_prompt,
            model,
            tools,
            flow_type,
            is_default,
            max_steps,
            default_timeout,
            visibility,
            max_depth,
            config,
        } = self;
        [
            ("name", *name != other.name),
            ("description", *description != other.description),
            ("systemPrompt", *system_prompt != other.system_prompt),
            ("model", *model != other.model),
            ("tools", *tools != other.tools),
            ("flowType", *flow_type != other.flow_type),
            ("isDefault", *is_default != other.is_default),
            ("maxSteps", *max_steps != other.max_steps),
            ("defaultTimeout", *default_timeout != other.default_timeout),
            ("visibility", *visibility != other.visibility),
            ("maxDepth", *max_depth != other.max_depth),
            ("config", *config != other.config),
        ]
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect()
    }
}
