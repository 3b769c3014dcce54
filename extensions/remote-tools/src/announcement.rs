//! What a worker announces: itself, its tools and its agents. Validated before it is stored.

use std::collections::{BTreeSet, HashSet};

use rejoin_runs::builtin::HANDOFF_PREFIX;
use rejoin_tools::Schema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::agents::RemoteAgentBody;

/// Maximum number of tools, and of agents, of one worker.
pub const MAX_TOOLS: usize = 128;
/// Maximum size of a worker's tools, in bytes of JSON.
pub const TOOLS_MAX_BYTES: usize = 256 * 1024;
/// Maximum length of a tool's name, in characters: that of the model providers.
const NAME_MAX_CHARS: usize = 64;
/// Maximum length of a tool's version, in characters.
const VERSION_MAX_CHARS: usize = 32;
/// Maximum length of the texts by which a program describes itself, in characters.
const TEXT_MAX_CHARS: usize = 200;
/// Maximum number of calls that a worker has at once.
const MAX_SLOTS: i32 = 10_000;
/// Maximum and default duration of an attempt, in seconds.
const TIMEOUT_MAX_S: i32 = 86_400;
const TIMEOUT_S: i32 = 60;

/// Without a live worker: whether a tool is offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenAbsent {
    /// It is offered, and its calls wait for a worker
    #[default]
    Wait,
    /// It is not offered
    Hide,
}

impl WhenAbsent {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Hide => "hide",
        }
    }
}

/// A tool of a remote worker
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteToolBody {
    /// 1 to 64 letters, digits, `_` and `-`; not the name of a built-in tool
    pub name: String,
    /// 1 to 32 letters, digits, `_`, `-` and `.`
    #[serde(default = "first_version")]
    pub version: String,
    /// For the model
    pub description: String,
    /// JSON Schema of the arguments, an object
    pub input_schema: Value,
    /// JSON Schema of the output; null: any output
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// It has no effects: a call may be repeated after a lost worker
    #[serde(default)]
    pub read_only: bool,
    /// Repeating a call has no further effect: it may be repeated after a lost worker
    #[serde(default)]
    pub idempotent: bool,
    /// A user confirms each call
    #[serde(default)]
    pub confirm: bool,
    /// Maximum duration of one attempt, in seconds
    #[serde(default = "default_timeout_s")]
    pub timeout_s: i32,
    /// Without a live worker: `wait` or `hide`
    #[serde(default)]
    pub when_absent: WhenAbsent,
}

fn first_version() -> String {
    "1".to_owned()
}

fn default_timeout_s() -> i32 {
    TIMEOUT_S
}

/// A worker that registers
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewRemoteWorker {
    /// The worker's id, if it is registered already: its registration is replaced
    pub worker_id: Option<Uuid>,
    /// Name of the program
    pub name: String,
    /// Version of the program
    #[serde(default)]
    pub version: String,
    /// Its programming language
    #[serde(default)]
    pub language: String,
    /// Maximum number of calls that it has at once
    pub slots: i32,
    pub tools: Vec<RemoteToolBody>,
    /// Agents: its tools execute them, or they have its prompts
    #[serde(default)]
    pub agents: Vec<RemoteAgentBody>,
}

/// Whether a name consists of 1 to `max` letters, digits and these characters.
pub fn is_plain(name: &str, max: usize, also: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
    (1..=max).contains(&name.len()) && name.chars().all(fits)
}

fn shown(text: &str) -> String {
    text.chars().take(NAME_MAX_CHARS).collect()
}

impl RemoteToolBody {
    /// Err: what is wrong with it. `reserved`: the names of other tools.
    fn check(&self, reserved: &HashSet<String>) -> Result<(), String> {
        let name = shown(&self.name);
        if !is_plain(&self.name, NAME_MAX_CHARS, "_-") {
            return Err(format!(
                "the name {name:?} is not allowed: a tool's name has 1 to {NAME_MAX_CHARS} letters, digits, _ and -"
            ));
        }
        if reserved.contains(&self.name) || self.name.starts_with(HANDOFF_PREFIX) {
            return Err(format!("{name} is the name of a built-in tool; choose another one"));
        }
        if !is_plain(&self.version, VERSION_MAX_CHARS, "_-.") {
            return Err(format!(
                "the version of {name} is not allowed: a version has 1 to {VERSION_MAX_CHARS} letters, digits, _, - and ."
            ));
        }
        if self.description.contains('\0') {
            return Err(format!("the description of {name} contains a NUL character"));
        }
        if self.input_schema["type"] != "object" {
            return Err(format!(
                "inputSchema of {name} must be a JSON Schema of an object: {{\"type\": \"object\", \"properties\": {{…}}}}"
            ));
        }
        Schema::from(self.input_schema.clone())
            .check()
            .map_err(|why| format!("inputSchema of {name} is not a valid JSON Schema: {why}"))?;
        if let Some(schema) = &self.output_schema {
            Schema::from(schema.clone())
                .check()
                .map_err(|why| format!("outputSchema of {name} is not a valid JSON Schema: {why}"))?;
        }
        if !(1..=TIMEOUT_MAX_S).contains(&self.timeout_s) {
            return Err(format!("timeoutS of {name} must be between 1 and {TIMEOUT_MAX_S}"));
        }
        Ok(())
    }
}

impl NewRemoteWorker {
    /// Validates a registration. Compiling schemas may take long: call it on a blocking thread.
    ///
    /// # Errors
    /// What is wrong with it, for its program.
    pub fn check(&self, reserved: &HashSet<String>) -> Result<(), String> {
        for (what, text) in [
            ("name", &self.name),
            ("version", &self.version),
            ("language", &self.language),
        ] {
            if text.chars().count() > TEXT_MAX_CHARS || text.contains('\0') {
                return Err(format!(
                    "the {what} of a worker has at most {TEXT_MAX_CHARS} characters, and no NUL"
                ));
            }
        }
        if self.name.is_empty() {
            return Err("a worker needs a name".to_owned());
        }
        if !(1..=MAX_SLOTS).contains(&self.slots) {
            return Err(format!("slots must be between 1 and {MAX_SLOTS}"));
        }
        if self.tools.is_empty() || self.tools.len() > MAX_TOOLS {
            return Err(format!(
                "a worker serves 1 to {MAX_TOOLS} tools, not {}",
                self.tools.len()
            ));
        }
        let bytes = json!(self.tools).to_string().len();
        if bytes > TOOLS_MAX_BYTES {
            return Err(format!(
                "the tools have {bytes} bytes of JSON; the maximum is {TOOLS_MAX_BYTES}"
            ));
        }
        let mut names = BTreeSet::new();
        for tool in &self.tools {
            tool.check(reserved)?;
            if !names.insert(tool.name.as_str()) {
                return Err(format!("two tools are named {}; names are unique", tool.name));
            }
        }
        if self.agents.len() > MAX_TOOLS {
            return Err(format!(
                "a worker announces at most {MAX_TOOLS} agents, not {}",
                self.agents.len()
            ));
        }
        let mut agents = BTreeSet::new();
        for agent in &self.agents {
            agent.check(&names)?;
            if !agents.insert(agent.name.as_str()) {
                return Err(format!("two agents are named {}; names are unique", agent.name));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(tools: Value) -> NewRemoteWorker {
        serde_json::from_value(json!({"name": "billing", "slots": 2, "tools": tools})).expect("a worker")
    }

    #[test]
    fn a_registration_has_plain_names_and_object_schemas() {
        let reserved = HashSet::from(["search_entities".to_owned()]);
        let object = json!({"type": "object", "properties": {}});
        let tool = |name: &str| json!({"name": name, "description": "", "inputSchema": object});
        assert_eq!(
            worker(json!([tool("refund"), tool("get-order")])).check(&reserved),
            Ok(())
        );
        for (tools, expected) in [
            (json!([]), "1 to 128 tools"),
            (json!([tool("re fund")]), "not allowed"),
            (json!([tool("search_entities")]), "built-in"),
            (json!([tool("transfer_to_x")]), "built-in"),
            (json!([tool("a"), tool("a")]), "unique"),
            (
                json!([{"name": "a", "description": "", "inputSchema": {"type": "string"}}]),
                "of an object",
            ),
            (
                json!([{"name": "a", "description": "", "inputSchema": object, "outputSchema": {"type": 1}}]),
                "outputSchema",
            ),
            (
                json!([{"name": "a", "description": "", "inputSchema": object, "timeoutS": 0}]),
                "timeoutS",
            ),
            (
                json!([{"name": "a", "description": "", "inputSchema": object, "version": "a b"}]),
                "version",
            ),
        ] {
            let why = worker(tools).check(&reserved).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
