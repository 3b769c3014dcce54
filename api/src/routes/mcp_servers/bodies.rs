//! What requests about MCP servers and their answers say. Called by `mcp_servers`.

use chrono::{DateTime, Utc};
use rejoin_shared::mcp::offers::{Offered, Standing};
use rejoin_shared::mcp::{Approval, OAuth, Server, Settings, Transport};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::extract::present;

use crate::problem::Problem;

/// A tool that a server offers
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedTool {
    /// The server's own name of it; agents know it as `server_tool`
    pub name: String,
    /// `approved`; or held: `new`, `changed`; or `gone`
    #[schema(value_type = String)]
    pub standing: Standing,
    /// What the server says of it now: description, inputSchema, annotations
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

/// How a token for an http server is got: by the client-credentials grant
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerOAuth {
    /// What the authorization server knows this client as
    #[serde(alias = "client_id")]
    pub client_id: String,
    /// Names a secret of the project, as `${NAME}`
    #[serde(alias = "client_secret")]
    pub client_secret: String,
    /// Absent: those that the server says it needs
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Where tokens are given out; absent: where the server says
    #[serde(default, alias = "token_url", skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
}

impl From<OAuth> for ServerOAuth {
    fn from(oauth: OAuth) -> Self {
        Self {
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
            client_id: oauth.client_id,
            client_secret: oauth.client_secret,
            scopes: oauth.scopes,
            token_url: oauth.token_url,
        }
    }
}

/// A server, with what it offers
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerBody {
    pub id: Uuid,
    pub project_id: Uuid,
    pub name: String,
    /// `stdio` or `http`
    #[schema(value_type = String)]
    pub transport: Transport,
    /// stdio: a command of the operator's configuration, by name
    pub command: Option<String>,
    /// stdio: variables of the process; `${NAME}` stands for a secret of the project
    pub env: Map<String, Value>,
    pub url: Option<String>,
    /// http: headers of each request; `${NAME}` stands for a secret of the project
    pub headers: Map<String, Value>,
    /// http: how a token is got that goes with each request
    pub oauth: Option<ServerOAuth>,
    pub enabled: bool,
    /// Globs over the server's own names of its tools
    pub tools: Vec<String>,
    /// Of a call [s]; none: the worker's setting
    pub timeout_s: Option<i32>,
    /// `first`: what it offers when it is first seen counts as approved; `each`: nothing does
    #[schema(value_type = String)]
    pub approval: Approval,
    /// Whether its hints (read-only, idempotent) are believed
    pub trust_hints: bool,
    /// The product that it came with
    pub product: Option<String>,
    /// When its tools were last listed
    pub seen_at: Option<DateTime<Utc>>,
    /// What it said of itself then
    pub server_info: Option<Value>,
    /// The tools that were left out then: a list of `tool` (null if the reason is about the whole list) and `reason`
    #[schema(value_type = Vec<Object>)]
    pub left_out: Value,
    /// When it last could not be asked; none since it could
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
            project_id: server.project_id,
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

/// What a request says of a server. Absent: the default, or in a PATCH, as it is.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerRequest {
    /// A letter, then letters, digits and `-`, in lower case: its tools are called `name_tool`
    pub name: Option<String>,
    /// `stdio` or `http` (streamable HTTP)
    pub transport: Option<String>,
    /// stdio: a command of the operator's configuration, by name
    pub command: Option<String>,
    /// Refused, unless empty: only the operator's configuration gives a command its arguments
    pub args: Option<Vec<String>>,
    pub env: Option<Map<String, Value>>,
    pub url: Option<String>,
    pub headers: Option<Map<String, Value>>,
    /// http; null: no token is got
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

/// Tools to approve as they are defined now
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApproveRequest {
    /// By the server's own names; absent: all of them
    pub tools: Option<Vec<String>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Approved {
    /// Those that were held until now
    pub approved: Vec<String>,
}

/// A transport by its name, or one of its names.
pub(super) fn transport(named: &str) -> Result<Transport, Problem> {
    match named {
        "stdio" => Ok(Transport::Stdio),
        "http" | "streamable-http" | "streamable_http" => Ok(Transport::Http),
        "sse" => Err(Problem::bad_request(
            "transport_not_supported",
            "the transport of 2024, HTTP with a stream of its own (`sse`), is not spoken; nearly every such server also speaks streamable \
             HTTP, often at /mcp: give that URL, with the transport `http`",
        )),
        other => Err(Problem::bad_request(
            "transport_not_supported",
            format!("there is no transport {other:?}: stdio or http"),
        )),
    }
}

impl ServerRequest {
    /// The settings that it leads to, from those that there are.
    pub(super) fn over(self, mut settings: Settings) -> Result<Settings, Problem> {
        if let Some(named) = &self.transport {
            settings.transport = transport(named)?;
        }
        // What belongs to the other transport goes with it.
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
