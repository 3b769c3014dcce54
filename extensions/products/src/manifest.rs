//! A product's manifest: parsed, validated, and converted to the nouns that it consists of. Its JSON Schema is
//! `manifest.schema.json` beside this file. Called by the plan in `products`.
//!
//! Invariant: a manifest accepted here can be installed, as far as that depends on the manifest.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use rejoin_graph::packs::NewPack;
use rejoin_integrations::mcp::{Approval, OAuth, Settings, Transport};
use rejoin_models::choice::ModelChoice;
use rejoin_runs::agents::DefinitionContent;
use rejoin_scheduling::schedules::ScheduleContent;
use rejoin_schemas::Validator;
use rejoin_types::text;

/// The JSON Schema of manifests.
pub const SCHEMA: &str = include_str!("manifest.schema.json");
/// Maximum size of a manifest, in bytes.
pub const MAX_BYTES: usize = 2 * 1024 * 1024;

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    rejoin_schemas::compiled(&schema).expect("the schema is one")
});

/// The content that a product installs into a workspace.
#[derive(Debug, Clone)]
pub struct Manifest {
    pub name: String,
    pub version: String,
    pub packs: Vec<WantedPack>,
    pub agents: Vec<DefinitionContent>,
    pub servers: Vec<Settings>,
    /// Unparsed.
    pub prompts: Vec<Value>,
    pub jobs: Vec<Value>,
    /// The complete document.
    pub document: Value,
}

#[derive(Debug, Clone)]
pub enum WantedPack {
    /// Included in the manifest.
    Whole(Box<NewPack>),
    /// Refers to an existing pack.
    Named { name: String, version: String },
}

impl WantedPack {
    pub fn name(&self) -> &str {
        match self {
            WantedPack::Whole(pack) => &pack.name,
            WantedPack::Named { name, .. } => name,
        }
    }

    pub fn version(&self) -> &str {
        match self {
            WantedPack::Whole(pack) => &pack.version,
            WantedPack::Named { version, .. } => version,
        }
    }
}

#[derive(Deserialize)]
struct Document {
    name: String,
    version: String,
    min_core_version: Option<String>,
    #[serde(default)]
    template_packs: Vec<Pack>,
    #[serde(default)]
    agents: Vec<Agent>,
    #[serde(default)]
    jobs: Vec<Value>,
    #[serde(default)]
    mcp: Mcp,
}

#[derive(Default, Deserialize)]
struct Mcp {
    #[serde(default)]
    servers: Vec<Server>,
    #[serde(default)]
    prompts: Vec<Value>,
    tool_filter: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Pack {
    name: String,
    version: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    author: String,
    object_types: Option<Map<String, Value>>,
    relationship_types: Option<Map<String, Value>>,
    #[serde(default)]
    ui: Map<String, Value>,
    #[serde(default)]
    prompts: Map<String, Value>,
}

#[derive(Deserialize)]
struct Agent {
    name: String,
    #[serde(default)]
    description: String,
    system_prompt: String,
    model: Option<ModelChoice>,
    #[serde(default)]
    tools: Vec<String>,
    flow_type: Option<String>,
    #[serde(default)]
    is_default: bool,
    max_steps: Option<i32>,
    default_timeout: Option<i32>,
    visibility: Option<String>,
    max_depth: Option<i32>,
    config: Option<Value>,
}

#[derive(Deserialize)]
struct Server {
    name: String,
    transport: Option<Transport>,
    command: Option<String>,
    #[serde(default)]
    env: Map<String, Value>,
    url: Option<String>,
    #[serde(default)]
    headers: Map<String, Value>,
    oauth: Option<OAuth>,
    enabled: Option<bool>,
    tools: Option<Vec<String>>,
    timeout_s: Option<i32>,
    #[serde(default)]
    approval: Approval,
    #[serde(default)]
    trust_hints: bool,
}

impl Manifest {
    /// # Errors
    /// What is wrong with it, for the author.
    pub fn read(document: Value) -> Result<Self, String> {
        let bytes = document.to_string().len();
        if bytes > MAX_BYTES {
            return Err(format!("the manifest has {bytes} bytes; the maximum is {MAX_BYTES}"));
        }
        if text::has_nul(&document) {
            return Err("the manifest contains a NUL character, which cannot be stored".to_owned());
        }
        let faults = rejoin_schemas::faults(&VALIDATOR, &document);
        if !faults.is_empty() {
            return Err(format!("the manifest violates its schema: {}", faults.join("; ")));
        }
        let read: Document =
            serde_json::from_value(document.clone()).map_err(|error| format!("the manifest: {error}"))?;
        if let Some(needed) = &read.min_core_version
            && numbers(needed) > numbers(env!("CARGO_PKG_VERSION"))
        {
            return Err(format!(
                "it requires Rejoin {needed} or newer; this is {}",
                env!("CARGO_PKG_VERSION")
            ));
        }
        let filter = read.mcp.tool_filter;
        let manifest = Self {
            name: read.name,
            version: read.version,
            packs: read.template_packs.into_iter().map(pack).collect(),
            agents: read.agents.into_iter().map(agent).collect(),
            servers: read
                .mcp
                .servers
                .into_iter()
                .map(|one| server(one, filter.as_deref()))
                .collect(),
            prompts: read.mcp.prompts,
            jobs: read.jobs,
            document,
        };
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        for agent in &self.agents {
            agent
                .check()
                .map_err(|fault| format!("agent {}: {fault}", agent.name))?;
        }
        for server in &self.servers {
            server
                .check()
                .map_err(|fault| format!("MCP server {}: {fault}", server.name))?;
        }
        for job in &self.jobs {
            ScheduleContent::of_job(job).map_err(|fault| format!("job {}: {fault}", words(job, "name")))?;
        }
        unique("template pack", self.packs.iter().map(WantedPack::name))?;
        unique("agent", self.agents.iter().map(|agent| agent.name.as_str()))?;
        unique("MCP server", self.servers.iter().map(|server| server.name.as_str()))?;
        unique("prompt", self.prompts.iter().map(|prompt| words(prompt, "name")))?;
        unique("job", self.jobs.iter().map(|job| words(job, "name")))
    }
}

/// Returns a string field of a JSON object.
pub(super) fn words<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("the {what} {name} occurs twice"));
        }
    }
    Ok(())
}

/// Returns the three numbers of a version; an invalid one counts as 0.
fn numbers(version: &str) -> [u64; 3] {
    let mut numbers = version.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

fn pack(pack: Pack) -> WantedPack {
    if pack.object_types.is_none() && pack.relationship_types.is_none() {
        return WantedPack::Named {
            name: pack.name,
            version: pack.version,
        };
    }
    WantedPack::Whole(Box::new(NewPack {
        name: pack.name,
        version: pack.version,
        description: pack.description,
        author: pack.author,
        object_types: pack.object_types.unwrap_or_default(),
        relationship_types: pack.relationship_types.unwrap_or_default(),
        ui: pack.ui,
        prompts: pack.prompts,
    }))
}

fn agent(agent: Agent) -> DefinitionContent {
    let blank = DefinitionContent::blank();
    DefinitionContent {
        name: agent.name,
        description: agent.description,
        system_prompt: agent.system_prompt,
        model: agent.model,
        tools: agent.tools,
        flow_type: agent.flow_type.unwrap_or(blank.flow_type),
        is_default: agent.is_default,
        max_steps: agent.max_steps,
        default_timeout: agent.default_timeout,
        visibility: agent.visibility.unwrap_or(blank.visibility),
        max_depth: agent.max_depth,
        config: agent.config.unwrap_or_else(|| json!({})),
    }
}

fn server(server: Server, filter: Option<&[String]>) -> Settings {
    let transport = server.transport.unwrap_or(match server.url {
        Some(_) => Transport::Http,
        None => Transport::Stdio,
    });
    let blank = Settings::new(server.name, transport);
    Settings {
        command: server.command,
        env: server.env,
        url: server.url,
        headers: server.headers,
        oauth: server.oauth,
        enabled: server.enabled.unwrap_or(blank.enabled),
        tools: server
            .tools
            .or_else(|| filter.map(<[String]>::to_vec))
            .unwrap_or_else(|| blank.tools.clone()),
        timeout_s: server.timeout_s,
        approval: server.approval,
        trust_hints: server.trust_hints,
        ..blank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_into_the_nouns_that_it_is_made_of() {
        let read = Manifest::read(json!({
            "name": "errands", "version": "1.2.0", "min_core_version": "0.1.0",
            "template_packs": [{"name": "errands", "version": "1", "object_types": {"Errand": {"type": "object"}}}],
            "agents": [{"name": "runner", "system_prompt": "Run.", "tools": ["maps_*"], "model": {"name": "openai:x", "max_tokens": 5}}],
            "mcp": {"servers": [{"name": "maps", "url": "https://maps.example/mcp",
                                 "oauth": {"client_id": "rejoin", "client_secret": "${MAPS}"}}], "tool_filter": ["find_*"]},
            "jobs": [{"name": "nightly", "cron": "0 3 * * *", "agent": "runner"}],
        }))
        .unwrap();
        assert_eq!(read.agents[0].flow_type, "single");
        assert_eq!(read.agents[0].model.as_ref().unwrap().max_tokens, Some(5));
        assert_eq!(
            (read.servers[0].transport, &read.servers[0].tools),
            (Transport::Http, &vec!["find_*".to_owned()])
        );
        assert_eq!(read.servers[0].oauth.as_ref().unwrap().client_secret, "${MAPS}");
        assert!(matches!(&read.packs[0], WantedPack::Whole(pack) if pack.object_types.contains_key("Errand")));
    }

    #[test]
    fn what_is_wrong_is_said_with_where() {
        for (document, words) in [
            (json!({"version": "1.0.0"}), "name"),
            (json!({"name": "x", "version": "one"}), "version"),
            (json!({"name": "x", "version": "1.0.0", "agent": []}), "agent"),
            (
                json!({"name": "x", "version": "1.0.0", "min_core_version": "99.0.0"}),
                "99.0.0",
            ),
            (
                json!({"name": "x", "version": "1.0.0", "agents": [{"name": "a"}]}),
                "agents/0",
            ),
            (
                json!({"name": "x", "version": "1.0.0", "jobs": [{"name": "j", "cron": "every day", "agent": "a"}]}),
                "cron",
            ),
            (
                json!({"name": "x", "version": "1.0.0", "mcp": {"servers": [{"name": "s", "url": "ftp://x"}]}}),
                "MCP server s",
            ),
            (
                json!({"name": "x", "version": "1.0.0", "mcp": {"servers": [{"name": "s", "args": ["-c"]}]}}),
                "args",
            ),
            (
                json!({"name": "x", "version": "1.0.0", "agents": [{"name": "a", "system_prompt": ""}, {"name": "a", "system_prompt": ""}]}),
                "the agent a occurs twice",
            ),
        ] {
            let fault = Manifest::read(document.clone()).unwrap_err();
            assert!(fault.contains(words), "{document}: {fault}");
        }
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("0.10.0") > numbers("0.9.9") && numbers("1.0.0-beta.1") == numbers("1.0.0"));
    }
}
