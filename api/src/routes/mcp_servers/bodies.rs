//! Request and response bodies of MCP servers. Called by `mcp_servers`.

use chrono::{DateTime, Utc};
use rejoin_http::extract::present;
use rejoin_http::problem::Problem;
use rejoin_integrations::mcp::offers::{Offered, Standing};
use rejoin_integrations::mcp::{Approval, OAuth, Server, Settings, Transport};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

/// A tool of a server
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedTool {
    /// The server's name for it; agents know it as `server_tool`
    pub name: String,
    /// `approved`, held back as `new` or `changed`, or `gone`
    #[schema(value_type = String)]
    pub standing: Standing,
    /// Its current definition: description, inputSchema, annotations
    pub definition: Value,
    pub approved_at: Option<DateTime<Utc>>,
    pub changed_at: DateTime<Utc>,
}

impl From<Offered> for OfferedTool {
    fn from(tool: Offered) -> Self {
        Self {
            standing: tool.standing(),
            name: tool.name,
            definition: tool.definition,
            approved_at: tool.approved_at,
            changed_at: tool.changed_at,
        }
    }
}

/// How to get a token for an http server: by the client-credentials grant, or with an account of each user
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerOAuth {
    /// Whether each user connects an account at the server (`/api/mcp-accounts`), with which their runs act
    #[serde(default, alias = "per_user", skip_serializing_if = "std::ops::Not::not")]
    pub per_user: bool,
    /// OAuth client id; with `perUser`, absent: the client registers itself
    #[serde(default, alias = "client_id", skip_serializing_if = "String::is_empty")]
    pub client_id: String,
    /// Refers to a secret of the project, as `${NAME}`; with `perUser`, absent: a public client
    #[serde(default, alias = "client_secret", skip_serializing_if = "String::is_empty")]
    pub client_secret: String,
    /// OAuth scopes; absent: those that the server asks for
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Token endpoint; absent: the one that the server's metadata names
    #[serde(default, alias = "token_url", skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
}

impl From<OAuth> for ServerOAuth {
    fn from(oauth: OAuth) -> Self {
        Self {
            per_user: oauth.per_user,
            client_id: oauth.client_id,
            client_secret: oauth.client_secret,
            scopes: oauth.scopes,
            token_url: oauth.token_url,
        }
    }
}

impl From<ServerOAuth> for OAuth {
    fn from(oauth: ServerOAuth) -> Self {
        Self {
            per_user: oauth.per_user,
            client_id: oauth.client_id,
            client_secret: oauth.client_secret,
            scopes: oauth.scopes,
            token_url: oauth.token_url,
        }
    }
}

/// A server with its tools
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerBody {
    pub id: Uuid,
    #[serde(rename = "projectId")]
    pub workspace_id: Uuid,
    pub name: String,
    /// `stdio` or `http`
    #[schema(value_type = String)]
    pub transport: Transport,
    /// stdio: name of a command in the operator's configuration
    pub command: Option<String>,
    /// stdio: environment variables of the process; `${NAME}` refers to a secret of the project
    pub env: Map<String, Value>,
    pub url: Option<String>,
    /// http: headers of each request; `${NAME}` refers to a secret of the project
    pub headers: Map<String, Value>,
    /// http: how to get a token for the requests
    pub oauth: Option<ServerOAuth>,
    pub enabled: bool,
    /// Only tools that match one of these globs, by the server's names
    pub tools: Vec<String>,
    /// Timeout of a call, in seconds; null: the worker's setting
    pub timeout_s: Option<i32>,
    /// `first`: the tools that it offers at first are approved; `each`: each tool must be approved
    #[schema(value_type = String)]
    pub approval: Approval,
    /// Whether its annotations (read-only, idempotent) are trusted
    pub trust_hints: bool,
    /// The product that it belongs to
    pub product: Option<String>,
    /// When its tools were last listed
    pub seen_at: Option<DateTime<Utc>>,
    /// How it described itself then
    pub server_info: Option<Value>,
    /// Tools that were omitted then: a list of `tool` (null if the reason is about the whole list) and `reason`
    #[schema(value_type = Vec<Object>)]
    pub left_out: Value,
    /// When connecting last failed; null if it has succeeded since
    pub failed_at: Option<DateTime<Utc>>,
    pub failure: Option<String>,
    /// Absent in lists
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered: Option<Vec<OfferedTool>>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

impl ServerBody {
    pub(super) fn of(server: Server, offered: Option<Vec<Offered>>) -> Self {
        let s = server.settings;
        Self {
            id: server.id,
            workspace_id: server.workspace_id,
            name: s.name,
            transport: s.transport,
            command: s.command,
            env: s.env,
            url: s.url,
            headers: s.headers,
            oauth: s.oauth.map(ServerOAuth::from),
            enabled: s.enabled,
            tools: s.tools,
            timeout_s: s.timeout_s,
            approval: s.approval,
            trust_hints: s.trust_hints,
            product: server.product,
            seen_at: server.seen_at,
            server_info: server.server_info,
            left_out: server.left_out,
            failed_at: server.failed_at,
            failure: server.failure,
            offered: offered.map(|tools| tools.into_iter().map(OfferedTool::from).collect()),
            created_at: server.created_at,
            updated_at: server.updated_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Servers {
    pub items: Vec<ServerBody>,
}

/// An MCP server in a request. Absent: the default, or in a PATCH, unchanged.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerRequest {
    /// A lowercase letter, then lowercase letters, digits and `-`: its tools are named `name_tool`
    pub name: Option<String>,
    /// `stdio` or `http` (streamable HTTP)
    pub transport: Option<String>,
    /// stdio: name of a command in the operator's configuration
    pub command: Option<String>,
    /// Must be empty: arguments can be set only in the operator's configuration
    pub args: Option<Vec<String>>,
    pub env: Option<Map<String, Value>>,
    pub url: Option<String>,
    pub headers: Option<Map<String, Value>>,
    /// http; null: no token
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<ServerOAuth>)]
    pub oauth: Option<Option<ServerOAuth>>,
    pub enabled: Option<bool>,
    pub tools: Option<Vec<String>>,
    #[serde(alias = "timeout_s")]
    pub timeout_s: Option<i32>,
    /// `first` or `each`
    #[schema(value_type = Option<String>)]
    pub approval: Option<Approval>,
    #[serde(alias = "trust_hints")]
    pub trust_hints: Option<bool>,
}

/// Tools to approve with their current definitions
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApproveRequest {
    /// The server's names of the tools; absent: all of them
    pub tools: Option<Vec<String>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Approved {
    /// Tools that were held back until now
    pub approved: Vec<String>,
}

/// Parses a transport by its name or alias.
pub(super) fn transport(named: &str) -> Result<Transport, Problem> {
    match named {
        "stdio" => Ok(Transport::Stdio),
        "http" | "streamable-http" | "streamable_http" => Ok(Transport::Http),
        "sse" => Err(Problem::bad_request(
            "transport_not_supported",
            "the deprecated HTTP+SSE transport of 2024 (`sse`) is not supported; most such servers also offer \
            streamable HTTP, often at /mcp: use that URL with the transport `http`",
        )),
        other => Err(Problem::bad_request(
            "transport_not_supported",
            format!("there is no transport {other:?}; use stdio or http"),
        )),
    }
}

impl ServerRequest {
    /// Applies the patch to the existing settings.
    pub(super) fn apply_to(self, mut settings: Settings) -> Result<Settings, Problem> {
        if let Some(named) = &self.transport {
            settings.transport = transport(named)?;
        }
        // Removes settings of the other transport.
        match settings.transport {
            Transport::Stdio => {
                settings.url = None;
                settings.headers = Map::new();
                settings.oauth = None;
            }
            Transport::Http => {
                settings.command = None;
                settings.env = Map::new();
            }
        }
        settings.command = self.command.or(settings.command);
        settings.env = self.env.unwrap_or(settings.env);
        settings.url = self.url.or(settings.url);
        settings.headers = self.headers.unwrap_or(settings.headers);
        settings.oauth = match self.oauth {
            Some(oauth) => oauth.map(OAuth::from),
            None => settings.oauth,
        };
        settings.enabled = self.enabled.unwrap_or(settings.enabled);
        settings.tools = self.tools.unwrap_or(settings.tools);
        settings.timeout_s = self.timeout_s.or(settings.timeout_s);
        settings.approval = self.approval.unwrap_or(settings.approval);
        settings.trust_hints = self.trust_hints.unwrap_or(settings.trust_hints);
        Ok(settings)
    }
}
