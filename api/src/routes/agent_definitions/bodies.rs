//! Bodies of requests and responses.

use chrono::{DateTime, Utc};
use rejoin_http::extract::present;
use rejoin_models::choice::ModelChoice;
use rejoin_runs::agents::{AgentDefinition, DefinitionContent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionBody {
    pub id: Uuid,
    #[serde(rename = "projectId")]
    pub workspace_id: Uuid,
    pub name: String,
    pub description: String,
    pub system_prompt: String,
    /// `{name, temperature?, maxOutputTokens?, reasoningEffort?, fallbackModels?, orDefault?}`; null, or the name
    /// `default`: the deployment's default model
    #[schema(value_type = Option<Object>)]
    pub model: Option<ModelChoice>,
    /// Tool whitelist with globs; empty: no tools
    pub tools: Vec<String>,
    /// `single`, `sequential`, `loop`, `parallel` or `discussion`
    pub flow_type: String,
    pub is_default: bool,
    pub max_steps: Option<i32>,
    /// Timeout of a run, in seconds
    pub default_timeout: Option<i32>,
    /// `external`, `project` or `internal`
    pub visibility: String,
    pub max_depth: Option<i32>,
    /// Agents that may take over a conversation, from `config.handoffs`
    #[schema(value_type = Vec<Object>)]
    pub handoffs: Value,
    /// JSON Schema that answers must match, from `config.outputSchema`
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    pub config: Value,
    /// Number of the content: each change adds a version
    pub version: i32,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

impl From<AgentDefinition> for DefinitionBody {
    fn from(d: AgentDefinition) -> Self {
        Self {
            id: d.id,
            workspace_id: d.workspace_id,
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
            handoffs: d.config.get("handoffs").cloned().unwrap_or_else(|| json!([])),
            output_schema: d.config.get("outputSchema").filter(|schema| !schema.is_null()).cloned(),
            config: d.config,
            version: d.version,
            created_at: d.created_at,
            updated_at: d.updated_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionPage {
    pub items: Vec<DefinitionBody>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Installed {
    /// Names of the definitions that were added
    pub installed: Vec<String>,
    /// Names of definitions that already existed; they are unchanged
    pub existing: Vec<String>,
    /// All default definitions
    pub items: Vec<DefinitionBody>,
}

/// An agent definition in a request. Absent: the default, or in a PATCH, unchanged; null: none.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefinitionRequest {
    pub name: Option<String>,
    pub description: Option<String>,
    #[serde(alias = "system_prompt")]
    pub system_prompt: Option<String>,
    /// `{name, temperature?, maxOutputTokens?, reasoningEffort?, fallbackModels?, orDefault?}`; null, or the name
    /// `default`: the deployment's default model
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Object>)]
    pub model: Option<Option<ModelChoice>>,
    /// Tool whitelist with globs (`["*"]`, `["list_*"]`); empty: no tools
    pub tools: Option<Vec<String>>,
    #[serde(alias = "flow_type")]
    #[schema(pattern = "^(single|sequential|loop|parallel|discussion)$")]
    pub flow_type: Option<String>,
    #[serde(alias = "is_default")]
    pub is_default: Option<bool>,
    #[serde(default, alias = "max_steps", deserialize_with = "present")]
    #[schema(value_type = Option<i32>)]
    pub max_steps: Option<Option<i32>>,
    /// Timeout of a run, in seconds
    #[serde(default, alias = "default_timeout", deserialize_with = "present")]
    #[schema(value_type = Option<i32>)]
    pub default_timeout: Option<Option<i32>>,
    #[schema(pattern = "^(external|project|internal)$")]
    pub visibility: Option<String>,
    #[serde(default, alias = "max_depth", deserialize_with = "present")]
    #[schema(value_type = Option<i32>)]
    pub max_depth: Option<Option<i32>>,
    /// Agents that may take over a conversation: names, or `{agent, as}`. Stored as `config.handoffs`
    #[schema(value_type = Option<Vec<Object>>)]
    pub handoffs: Option<Value>,
    /// JSON Schema of an object that answers must match. Stored as `config.outputSchema`
    #[serde(default, alias = "output_schema", deserialize_with = "present")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Option<Value>>,
    pub config: Option<Value>,
}

impl DefinitionRequest {
    /// Applies the request's patch to `content`.
    pub(super) fn apply(self, content: &mut DefinitionContent) {
        fn set<T>(field: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *field = value;
            }
        }
        set(&mut content.name, self.name);
        set(&mut content.description, self.description);
        set(&mut content.system_prompt, self.system_prompt);
        set(&mut content.model, self.model);
        set(&mut content.tools, self.tools);
        set(&mut content.flow_type, self.flow_type);
        set(&mut content.is_default, self.is_default);
        set(&mut content.max_steps, self.max_steps);
        set(&mut content.default_timeout, self.default_timeout);
        set(&mut content.visibility, self.visibility);
        set(&mut content.max_depth, self.max_depth);
        set(&mut content.config, self.config);
        if let (Some(handoffs), Some(config)) = (self.handoffs, content.config.as_object_mut()) {
            config.insert("handoffs".to_owned(), handoffs);
        }
        if let (Some(schema), Some(config)) = (self.output_schema, content.config.as_object_mut()) {
            match schema {
                Some(schema) => config.insert("outputSchema".to_owned(), schema),
                None => config.remove("outputSchema"),
            };
        }
    }
}
