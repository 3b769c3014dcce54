//! `rejoin mcp`: MCP servers of a project and their tools; through the API.
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{client::Client, dev_instance, exit::Exit, global::Global, out::Out};

/// Manage MCP servers whose tools the project's agents can use.
///
/// A server is streamable HTTP at a URL, or a process from the operator's configuration (REJOIN_MCP_COMMANDS_FILE). Its
/// tools are named `name_tool`; an agent gets those that its whitelist matches. A tool definition that is new or has
/// changed since its approval is held back. `${NAME}` refers to a secret of the project (`rejoin secrets`). Needs a key
/// with the scope admin.
///
/// Examples:
///   rejoin mcp add files --command files
///   rejoin mcp add search --server-url https://mcp.example/mcp --header 'Authorization=Bearer ${SEARCH_TOKEN}'
///   rejoin mcp add crm --server-url https://crm.example/mcp --oauth-client-id rejoin --oauth-client-secret '${CRM_SECRET}'
///   rejoin mcp add tracker --server-url https://tracker.example/mcp --oauth-per-user
///   rejoin mcp test search
///   rejoin mcp approve search
///   rejoin mcp list
///   rejoin mcp remove search
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
    /// Project; required unless `rejoin dev` runs on this machine.
    #[arg(long, global = true, env = "REJOIN_PROJECT_ID", value_name = "ID")]
    pub project: Option<Uuid>,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Add a server. It is connected to when an agent first needs its tools, or when you test it.
    Add {
        /// Name: a lowercase letter, then lowercase letters, digits and `-`.
        name: String,
        /// Name of a command in the operator's configuration
        #[arg(long, conflicts_with = "server_url", required_unless_present = "server_url")]
        command: Option<String>,
        /// Environment variable of the process, as NAME=VALUE
        #[arg(long, value_name = "NAME=VALUE", requires = "command")]
        env: Vec<String>,
        /// Where a server that speaks streamable HTTP is
        // Not --url: that is the API, which gets the key.
        #[arg(long, value_name = "URL")]
        server_url: Option<String>,
        /// HTTP header of each request, as NAME=VALUE
        #[arg(long, value_name = "NAME=VALUE", requires = "server_url")]
        header: Vec<String>,
        #[command(flatten)]
        oauth: Box<OAuth>,
        /// Use only tools that match one of these globs, by the server's names for them
        #[arg(long, value_name = "GLOB", value_delimiter = ',')]
        tools: Vec<String>,
        /// Timeout of a tool call, in seconds
        #[arg(long)]
        timeout_s: Option<i32>,
        /// Hold back all its tools until they are approved
        #[arg(long)]
        approve_each: bool,
        /// Trust its annotations: calls of tools marked read-only or idempotent may be repeated after a crash and run
        /// in parallel
        #[arg(long)]
        trust_hints: bool,
    },
    /// List the project's servers.
    List,
    /// Show one server with its tools and which of them are held back.
    Show {
        /// Name or id.
        server: String,
    },
    /// Test a server: a worker connects to it and lists its tools.
    Test {
        /// Name or id.
        server: String,
    },
    /// Approve tools with their current definitions: all that are held back, or the given ones.
    Approve {
        /// Name or id.
        server: String,
        /// Tool names, as the server defines them.
        tools: Vec<String>,
    },
    /// Enable a server.
    Enable {
        /// Name or id.
        server: String,
    },
    /// Disable a server: no agent gets its tools.
    Disable {
        /// Name or id.
        server: String,
    },
    /// Remove a server.
    Remove {
        /// Name or id.
        server: String,
    },
}

/// A token that goes with each request: by the client-credentials grant, or with an account of each user.
#[derive(Debug, clap::Args)]
pub struct OAuth {
    /// Each user connects an account at the HTTP server, with which their runs act
    #[arg(long, requires = "server_url")]
    oauth_per_user: bool,
    /// OAuth client id at the HTTP server's authorization server [default with --oauth-per-user: the client registers itself]
    #[arg(long, value_name = "ID", requires = "server_url")]
    oauth_client_id: Option<String>,
    /// OAuth client secret: a secret of the project, as ${NAME}
    #[arg(long, value_name = "${NAME}", requires = "oauth_client_id")]
    oauth_client_secret: Option<String>,
    /// OAuth scopes to request [default: those that the server asks for]
    #[arg(long, value_name = "SCOPE", requires = "server_url")]
    oauth_scope: Vec<String>,
    /// Token endpoint [default: the one that the server's metadata names]
    #[arg(long, value_name = "URL", requires = "oauth_client_id")]
    oauth_token_url: Option<String>,
}

impl OAuth {
    fn settings(self) -> Result<Option<Value>> {
        if !self.oauth_per_user && self.oauth_client_id.is_none() {
            if !self.oauth_scope.is_empty() {
                bail!("--oauth-scope requires --oauth-client-id or --oauth-per-user");
            }
            return Ok(None);
        }
        let mut settings = json!({ "scopes": self.oauth_scope });
        if self.oauth_per_user {
            settings["perUser"] = json!(true);
        }
        if let Some(id) = self.oauth_client_id {
            settings["clientId"] = json!(id);
        }
        if let Some(secret) = self.oauth_client_secret {
            settings["clientSecret"] = json!(secret);
        }
        if let Some(url) = self.oauth_token_url {
            settings["tokenUrl"] = json!(url);
        }
        Ok(Some(settings))
    }
}

/// # Errors
/// The API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let project = client.project(args.project).await?;
    let base = format!("/api/admin/projects/{project}/mcp-servers");
    let there = async |server: &str| Ok::<_, anyhow::Error>(format!("{base}/{}", find(&client, &base, server).await?));
    match args.action {
        Action::Add {
            name,
            command,
            env,
            server_url,
            header,
            oauth,
            tools,
            timeout_s,
            approve_each,
            trust_hints,
        } => {
            let mut body = json!({"name": name, "trustHints": trust_hints});
            match (command, server_url) {
                (Some(command), _) => {
                    body["transport"] = json!("stdio");
                    body["command"] = json!(command);
                    body["env"] = pairs("--env", &env)?;
                }
                (None, url) => {
                    body["transport"] = json!("http");
                    body["url"] = json!(url);
                    body["headers"] = pairs("--header", &header)?;
                    if let Some(settings) = oauth.settings()? {
                        body["oauth"] = settings;
                    }
                }
            }
            if !tools.is_empty() {
                body["tools"] = json!(tools);
            }
            if let Some(seconds) = timeout_s {
                body["timeoutS"] = json!(seconds);
            }
            if approve_each {
                body["approval"] = json!("each");
            }
            let server = client.post(&base, &body).await?;
            out.either(&server, || {
                format!("added {name}; `rejoin mcp test {name}` lists its tools")
            })?;
        }
        Action::List => {
            let servers = client.get(&base).await?;
            out.either(&servers["items"], || listed(&servers["items"]))?;
        }
        Action::Show { server } => {
            let server = client.get(&there(&server).await?).await?;
            out.either(&server, || shown(&server))?;
        }
        Action::Test { server } => {
            let server = client
                .post(&format!("{}/test", there(&server).await?), &json!({}))
                .await?;
            out.either(&server, || shown(&server))?;
            if !server["failure"].is_null() {
                return Ok(Exit::Failed);
            }
        }
        Action::Approve { server, tools } => {
            let tools = (!tools.is_empty()).then_some(tools);
            let body = match tools {
                Some(tools) => json!({ "tools": tools }),
                None => json!({}),
            };
            let approved = client
                .post(&format!("{}/approve", there(&server).await?), &body)
                .await?;
            out.either(&approved, || {
                let names: Vec<&str> = items(&approved["approved"]).iter().filter_map(Value::as_str).collect();
                if names.is_empty() {
                    "nothing was held back".to_owned()
                } else {
                    format!("approved: {}", names.join(", "))
                }
            })?;
        }
        Action::Enable { server } => switch(&client, &there(&server).await?, true, out).await?,
        Action::Disable { server } => switch(&client, &there(&server).await?, false, out).await?,
        Action::Remove { server } => {
            client.delete(&there(&server).await?).await?;
            out.either(&json!({ "removed": server }), || format!("removed {server}"))?;
        }
    }
    Ok(Exit::Done)
}

async fn switch(client: &Client, path: &str, enabled: bool, out: Out) -> Result<()> {
    let server = client
        .change(Method::PATCH, path, &json!({ "enabled": enabled }))
        .await?;
    out.either(&server, || shown(&server))
}

/// Returns the id of a server given by name or id.
async fn find(client: &Client, base: &str, server: &str) -> Result<String> {
    let servers = client.get(base).await?;
    let found = items(&servers["items"])
        .iter()
        .find(|one| one["name"] == json!(server) || one["id"] == json!(server));
    let id = found.and_then(|one| one["id"].as_str());
    let id =
        id.with_context(|| format!("there is no MCP server {server} in the project; `rejoin mcp list` shows them"))?;
    Ok(id.to_owned())
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn pairs(option: &str, given: &[String]) -> Result<Value> {
    let mut pairs = Map::new();
    for pair in given {
        let Some((name, value)) = pair.split_once('=') else {
            bail!("{option} must be NAME=VALUE, not {pair:?}");
        };
        pairs.insert(name.trim().to_owned(), json!(value));
    }
    Ok(Value::Object(pairs))
}

fn words<'a>(value: &'a Value, absent: &'a str) -> &'a str {
    value.as_str().unwrap_or(absent)
}

fn listed(servers: &Value) -> String {
    let servers = items(servers);
    if servers.is_empty() {
        return "no MCP servers; `rejoin mcp add` adds one".to_owned();
    }
    let lines = servers.iter().map(|server| {
        let state = match (&server["enabled"], &server["failure"], &server["seenAt"]) {
            (Value::Bool(false), _, _) => "off".to_owned(),
            (_, Value::String(failure), _) => format!("failed: {failure}"),
            (_, _, Value::Null) => "not connected yet".to_owned(),
            (_, _, _) => "on".to_owned(),
        };
        let place = words(&server["url"], words(&server["command"], ""));
        format!(
            "{:20} {:6} {place}  {state}",
            words(&server["name"], ""),
            words(&server["transport"], "")
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn shown(server: &Value) -> String {
    let mut text = listed(&json!([server]));
    for tool in items(&server["offered"]) {
        let standing = words(&tool["standing"], "");
        let mark = match standing {
            "approved" => "  ",
            _ => "! ",
        };
        let description = words(&tool["definition"]["description"], "")
            .lines()
            .next()
            .unwrap_or_default();
        let _ = write!(
            text,
            "\n{mark}{:32} {standing:9} {description}",
            words(&tool["name"], "")
        );
    }
    for left in items(&server["leftOut"]) {
        let (tool, reason) = (words(&left["tool"], "(its list)"), words(&left["reason"], ""));
        let _ = write!(text, "\n! {tool:32} {:9} {reason}", "omitted");
    }
    let held = items(&server["offered"])
        .iter()
        .filter(|tool| matches!(words(&tool["standing"], ""), "new" | "changed"))
        .count();
    if held > 0 {
        let _ = write!(
            text,
            "\n{held} held back; `rejoin mcp approve {}` approves them",
            words(&server["name"], "")
        );
    }
    text
}
