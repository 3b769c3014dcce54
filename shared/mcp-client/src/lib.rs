//! The client of MCP servers: calls tools of servers that speak the Model Context Protocol.
//!
//! # Layout
//! - `connections`  one connection for each server of each project, shared by all runs
//! - `connection`   a connection: a process, or streamable HTTP
//! - `listing`      reads and validates a server's list of tools
//! - `lifecycle`    begins a session, by each of the protocol's revisions
//! - `tasks`        calls that a server executes as a task
//! - `input`        what a server asks the user in the middle of a call
//! - `http`         connects to servers over HTTP
//! - `sse`          the transport of servers of the oldest revision
//! - `net`          the HTTP client for URLs from a project
//! - `authorized`   HTTP with a token in each request
//! - `oauth`        tokens by the client-credentials grant, and of users' accounts
//! - `breaker`      circuit breaker for failing servers
//! - `secrets`      resolves `${NAME}` in settings
//! - `redact`       removes secrets from servers' output
//! - `transport`    shared by process and HTTP connections
//! - `answer`       converts a server's answer to a tool result
//! - `stderr`       logs a process's standard error
//!
//! Called by workers: `pools` selects the tools of an agent, `mcp_probe` tests a server. Settings and tool lists are in
//! `rejoin_integrations::mcp`; Rejoin as a server is in the API.

mod answer;
mod authorized;
mod breaker;
pub mod connection;
pub mod connections;
mod http;
mod input;
mod lifecycle;
mod listing;
pub mod net;
pub mod oauth;
pub mod redact;
pub mod secrets;
mod sse;
mod stderr;
mod tasks;
pub mod transport;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use rejoin_event_log::wakeup::SharedBus;
use rejoin_files::{BeginError, FileStore, ProduceError, Produced};
use rejoin_integrations::mcp::Server;
use rejoin_integrations::mcp::commands::{CommandsArgs, CommandsError};
use rejoin_integrations::mcp::offers::Offered;
use rejoin_secrets::{KeyError, SecretKeyArgs};
use rejoin_tools::input::InputGiven;
use rejoin_tools::{Schema, SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use rejoin_types::file_ref::FileRef;
use serde_json::{Value, json};
use sqlx::PgPool;
use tracing::error;
use uuid::Uuid;

pub use answer::{Keep, Part};

use connections::{Connections, Limits};
use rejoin_egress::ssrf_guard::Hosts;
use transport::{ConnectorDeps, Processes};

/// Maximum length of a tool's name for providers, in characters.
const NAME_MAX_CHARS: usize = 64;

/// How a worker uses MCP servers.
#[derive(Debug, Clone, Args)]
pub struct McpArgs {
    /// Base URL under which users reach the API, e.g. `https://chat.example`, for links in questions and notifications
    /// [default: links are paths]
    #[arg(long, env = "REJOIN_PUBLIC_URL", value_parser = rejoin_egress::origin::parse)]
    pub public_url: Option<String>,

    #[command(flatten)]
    pub commands: CommandsArgs,

    #[command(flatten)]
    pub keys: SecretKeyArgs,

    /// Hosts on this machine or in private networks that MCP servers may use: comma-separated names, addresses and glob
    /// patterns
    #[arg(long, env = "REJOIN_MCP_PRIVATE_HOSTS", value_delimiter = ',')]
    pub mcp_private_hosts: Vec<String>,

    /// Timeout of an MCP server's initialization, in seconds
    #[arg(long, env = "REJOIN_MCP_CONNECT_S", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub mcp_connect_s: u64,

    /// Time after which an unused connection to an MCP server is closed, in seconds
    #[arg(long, env = "REJOIN_MCP_IDLE_S", default_value_t = 600)]
    pub mcp_idle_s: u64,

    /// Time for which an MCP server is paused after three failures in a row, in seconds
    #[arg(long, env = "REJOIN_MCP_PAUSE_S", default_value_t = breaker::PAUSE.as_secs())]
    pub mcp_pause_s: u64,

    /// Maximum size of a result of an MCP server's tool, in KiB
    #[arg(long, env = "REJOIN_MCP_RESULT_MAX_KB", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub mcp_result_max_kb: u32,

    /// Interval after which a project's tools are listed again even without a wake-up, in seconds
    #[arg(long, env = "REJOIN_TOOLS_KEPT_S", default_value_t = 2)]
    pub tools_kept_s: u64,
}

impl Default for McpArgs {
    fn default() -> Self {
        Self {
            public_url: None,
            commands: CommandsArgs::default(),
            keys: SecretKeyArgs::default(),
            mcp_private_hosts: Vec::new(),
            mcp_connect_s: 20,
            mcp_idle_s: 600,
            mcp_pause_s: breaker::PAUSE.as_secs(),
            mcp_result_max_kb: 1_024,
            tools_kept_s: 2,
        }
    }
}

/// The reason why a worker can't use MCP servers with its configuration.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The list of commands is unreadable.
    #[error(transparent)]
    Commands(#[from] CommandsError),
    /// The master keys of secrets are unreadable.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The system provides no TLS roots.
    #[error("creating the HTTP client for MCP servers failed")]
    Http(#[from] reqwest::Error),
}

impl McpArgs {
    /// Returns the connections of a worker; none is open yet.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn connections(
        &self,
        db: PgPool,
        bus: SharedBus,
        call: Duration,
        files: FileStore,
    ) -> Result<Arc<Connections>, McpError> {
        let keys = self.keys.load_if_configured()?.map(Arc::new);
        let hosts = Hosts::new("REJOIN_MCP_PRIVATE_HOSTS", &self.mcp_private_hosts);
        let deps = ConnectorDeps {
            commands: self.commands.load()?,
            http: net::client(&hosts)?,
            hosts,
            processes: Processes::default(),
            max_result_bytes: usize::try_from(self.mcp_result_max_kb)
                .unwrap_or(usize::MAX)
                .saturating_mul(1024),
        };
        let limits = Limits {
            connect: Duration::from_secs(self.mcp_connect_s),
            call,
            idle: Duration::from_secs(self.mcp_idle_s),
            origin: self.public_url.clone(),
            pause: Duration::from_secs(self.mcp_pause_s),
            files,
        };
        Ok(Connections::new(deps, db, bus, keys, limits))
    }
}

/// A tool of an MCP server, as given to a run.
pub struct McpTool {
    spec: ToolSpec,
    server: Arc<Server>,
    /// The server's name for it.
    name: String,
    connections: Arc<Connections>,
}

impl McpTool {
    /// Returns a server's tool as it is offered to models.
    pub fn shared(server: Arc<Server>, offered: &Offered, connections: Arc<Connections>) -> SharedTool {
        let definition = &offered.definition;
        let hint = |name: &str| server.settings.trust_hints && definition["annotations"][name] == json!(true);
        let mut schema = definition["inputSchema"].clone();
        if !schema.is_object() {
            schema = json!({"type": "object"});
        }
        // Required by some providers.
        if schema["properties"].is_null() {
            schema["properties"] = json!({});
        }
        let spec = ToolSpec {
            name: called(&server.settings.name, &offered.name),
            description: definition["description"].as_str().unwrap_or_default().to_owned(),
            parameters: Schema::from(schema),
            read_only: hint("readOnlyHint"),
            idempotent: hint("idempotentHint"),
            destructive: definition["annotations"]["destructiveHint"] != json!(false) && !hint("readOnlyHint"),
        };
        Arc::new(Self {
            spec,
            server,
            name: offered.name.clone(),
            connections,
        })
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        self.called(context, arguments, None).await
    }

    async fn resume(&self, context: &ToolContext, arguments: Value, given: InputGiven) -> Result<Value, ToolError> {
        self.called(context, arguments, Some(&given)).await
    }

    async fn abandon(&self, user_id: Option<Uuid>, state: &Value) {
        self.connections.abandon(&self.server, user_id, state).await;
    }
}

impl McpTool {
    async fn called(
        &self,
        context: &ToolContext,
        arguments: Value,
        given: Option<&InputGiven>,
    ) -> Result<Value, ToolError> {
        let arguments = match arguments {
            Value::Object(fields) => fields,
            _ => serde_json::Map::new(),
        };
        let keep = KeepForCall {
            context,
            tool: &self.name,
            files: self.connections.files(),
            is_first: AtomicBool::new(true),
        };
        self.connections
            .call(&self.server, context.user_id, &self.name, arguments, given, &keep)
            .await
    }
}

/// Stores a call's output as files of its run.
struct KeepForCall<'a> {
    context: &'a ToolContext,
    tool: &'a str,
    files: &'a FileStore,
    is_first: AtomicBool,
}

#[async_trait]
impl Keep for KeepForCall<'_> {
    async fn keep(&self, part: Part) -> Result<FileRef, String> {
        let context = self.context;
        let failed = |error: &dyn Error| {
            error!(%error, tool = self.tool, "storing a tool's file failed");
            "storing it failed".to_owned()
        };
        // A call repeated after a crash produces its files again.
        if self.is_first.swap(false, Ordering::Relaxed) {
            let forgotten = rejoin_files::forget_call(&context.db, context.record_id).await;
            forgotten.map_err(|error| failed(&error))?;
        }
        let name = part.name.unwrap_or_else(|| {
            let extension = part.media_type.rsplit('/').next().unwrap_or_default();
            format!("{}.{extension}", self.tool)
        });
        let produced = Produced {
            workspace_id: context.workspace_id,
            owner_user_id: context.user_id,
            made_by: context.run_id.map(|run| (run, context.record_id)),
            name: &name,
            media_type: &part.media_type,
            content: &part.content,
        };
        match self.files.store(&context.db, &produced).await {
            Ok(file) => Ok(file.to_ref()),
            Err(ProduceError::Database(error) | ProduceError::Begin(BeginError::Database(error))) => {
                Err(failed(&error))
            }
            Err(ProduceError::ObjectStore(error)) => Err(failed(&error)),
            Err(
                error @ (ProduceError::Empty
                | ProduceError::TooLarge { .. }
                | ProduceError::Begin(BeginError::Full { .. })),
            ) => Err(error.to_string()),
        }
    }
}

/// Returns a tool's name for models: `server_tool`, with `_` for disallowed characters.
fn called(server: &str, tool: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name = format!("{server}_{}", tool.chars().map(allowed).collect::<String>());
    if name.len() <= NAME_MAX_CHARS {
        return name;
    }
    // Two long names must stay distinct.
    let digest = rejoin_types::digest::hex(&rejoin_types::digest::of_json(&[&json!([server, tool])])[..4]);
    format!("{}-{digest}", &name[..NAME_MAX_CHARS - digest.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_named_after_their_server_in_allowed_letters() {
        assert_eq!(called("files", "read_file"), "files_read_file");
        assert_eq!(called("a-b", "x.y/z é"), "a-b_x_y_z__");
        let (one, other) = (called("files", &"a".repeat(100)), called("files", &"a".repeat(101)));
        assert_eq!((one.len(), other.len()), (NAME_MAX_CHARS, NAME_MAX_CHARS));
        assert_ne!(one, other);
    }
}
