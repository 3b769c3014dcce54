//! `/api/admin/projects/{p}/mcp-servers`: MCP servers whose tools the project's agents may be given, what they offer, and its approval.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use chrono::{DateTime, Utc};
use rejoin_shared::audit::Action;
use rejoin_shared::config::poll_interval;
use rejoin_shared::mcp::offers::{self, Offered, Standing};
use rejoin_shared::mcp::{self, Approval, KIND_PROBE, Server, Settings, Transport};
use rejoin_shared::queue::enqueue::{self, NewJob};
use rejoin_shared::wakeup::{self, Wake};
use rejoin_shared::walls::{self, Asking};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::audit::record;
use crate::caller::Caller;
use crate::extract::{Body, Segments};
use crate::problem::{BodyRefused, Problem, Refused};
use crate::state::AppState;

/// How long a test waits for a worker: less than a request may take.
const TEST_LIMIT: Duration = Duration::from_secs(20);

pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .routes(routes!(approve))
        .routes(routes!(test))
}

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
    fn of(server: Server, offered: Option<Vec<Offered>>) -> Self {
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
            enabled: s.enabled,
            tools: s.tools,
            timeout_s: s.timeout_s,
            approval: s.approval,
            trust_hints: s.trust_hints,
            product: server.product,
            seen_at: server.seen_at,
            server_info: server.server_info,
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

fn transport(named: &str) -> Result<Transport, Problem> {
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
    fn over(self, mut settings: Settings) -> Result<Settings, Problem> {
        if let Some(named) = &self.transport {
            settings.transport = transport(named)?;
        }
        // What belongs to the other transport goes with it.
        match settings.transport {
            Transport::Stdio => {
                settings.url = None;
                settings.headers = Map::new();
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
        settings.enabled = self.enabled.unwrap_or(settings.enabled);
        settings.tools = self.tools.unwrap_or(settings.tools);
        settings.timeout_s = self.timeout_s.or(settings.timeout_s);
        settings.approval = self.approval.unwrap_or(settings.approval);
        settings.trust_hints = self.trust_hints.unwrap_or(settings.trust_hints);
        Ok(settings)
    }
}

/// Err: the settings are wrong, or name a command that is the operator's to name.
fn check(state: &AppState, settings: &Settings, args: Option<&[String]>) -> Result<(), Problem> {
    let forbidden = |detail: String| Problem::new(StatusCode::FORBIDDEN, "command_not_allowed", detail);
    if args.is_some_and(|args| !args.is_empty()) {
        return Err(forbidden(
            "only the operator's configuration gives a command its arguments".to_owned(),
        ));
    }
    if let (Transport::Stdio, Some(command)) = (settings.transport, &settings.command) {
        state.commands.allow(command, settings.env.keys()).map_err(forbidden)?;
    }
    settings
        .check()
        .map_err(|fault| Problem::bad_request("invalid_mcp_server", fault))
}

fn not_found() -> Problem {
    Problem::not_found("mcp_server_not_found", "The MCP server")
}

/// The project's MCP servers
#[utoipa::path(get, path = "/api/admin/projects/{p}/mcp-servers", tag = "mcp servers",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "All of them, by name", body = Servers), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Segments(project_id): Segments<Uuid>,
) -> Result<Json<Servers>, Problem> {
    caller.in_project(project_id)?;
    let mut db = walls::begin(&state.db.sql, Asking::For(caller.owner())).await?;
    let servers = mcp::list(&mut *db, project_id).await?;
    let items = servers.into_iter().map(|server| ServerBody::of(server, None)).collect();
    Ok(Json(Servers { items }))
}

/// Add an MCP server
///
/// Nothing is connected to before an agent wants its tools, or somebody tests it.
#[utoipa::path(post, path = "/api/admin/projects/{p}/mcp-servers", tag = "mcp servers", request_body = ServerRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Added", body = ServerBody, headers(("Location" = String, description = "Where it is"))),
        (status = 409, description = "There is one of this name", body = crate::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Segments(project_id): Segments<Uuid>,
    Body(mut request): Body<ServerRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<ServerBody>), Problem> {
    caller.in_project(project_id)?;
    let name = request.name.take().unwrap_or_default();
    let args = request.args.take();
    let named = match (&request.transport, &request.url) {
        (Some(named), _) => transport(named)?,
        (None, Some(_)) => Transport::Http,
        (None, None) => Transport::Stdio,
    };
    let settings = request.over(Settings::new(name, named))?;
    check(&state, &settings, args.as_deref())?;
    let mut db = walls::begin(&state.db.sql, Asking::For(caller.owner())).await?;
    if mcp::count(&mut *db, project_id).await? >= mcp::MAX_SERVERS {
        let detail = format!("a project has at most {} MCP servers", mcp::MAX_SERVERS);
        return Err(Problem::conflict("too_many_mcp_servers", detail));
    }
    let server = mcp::create(&mut db, project_id, &settings, None)
        .await?
        .ok_or_else(|| {
            let detail = format!("there is already an MCP server named {}", settings.name);
            Problem::conflict("mcp_server_name_taken", detail)
        })?;
    let target = format!("mcp_server:{}", server.id);
    record(
        &mut db,
        &caller,
        Action::McpServerCreated,
        target,
        json!({ "name": settings.name }),
    )
    .await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(project_id));
    let location = format!("/api/admin/projects/{project_id}/mcp-servers/{}", server.id);
    Ok((
        StatusCode::CREATED,
        [(LOCATION, location)],
        Json(ServerBody::of(server, Some(Vec::new()))),
    ))
}

/// One MCP server, with the tools that it offers
#[utoipa::path(get, path = "/api/admin/projects/{p}/mcp-servers/{id}", tag = "mcp servers",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The server")),
    responses((status = 200, description = "It", body = ServerBody), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller,
    Segments((project_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<ServerBody>, Problem> {
    caller.in_project(project_id)?;
    let mut db = walls::begin(&state.db.sql, Asking::For(caller.owner())).await?;
    let server = mcp::get(&mut *db, project_id, id).await?.ok_or_else(not_found)?;
    let offered = offers::of_server(&mut *db, id).await?;
    Ok(Json(ServerBody::of(server, Some(offered))))
}

/// Change an MCP server
///
/// Its name stays. If it is reached in another way then, it is another server: what that offers is seen and approved anew.
#[utoipa::path(patch, path = "/api/admin/projects/{p}/mcp-servers/{id}", tag = "mcp servers", request_body = ServerRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The server")),
    responses((status = 200, description = "As it is now", body = ServerBody), Refused, BodyRefused))]
async fn update(
    State(state): State<AppState>,
    caller: Caller,
    Segments((project_id, id)): Segments<(Uuid, Uuid)>,
    Body(mut request): Body<ServerRequest>,
) -> Result<Json<ServerBody>, Problem> {
    caller.in_project(project_id)?;
    let mut db = walls::begin(&state.db.sql, Asking::For(caller.owner())).await?;
    let server = mcp::get(&mut *db, project_id, id).await?.ok_or_else(not_found)?;
    if request.name.as_ref().is_some_and(|name| *name != server.settings.name) {
        let detail = "a server's name stays: agents know its tools by it. Add another server";
        return Err(Problem::bad_request("invalid_mcp_server", detail));
    }
    let args = request.args.take();
    let settings = request.over(server.settings.clone())?;
    check(&state, &settings, args.as_deref())?;
    let server = mcp::update(&mut db, &server, &settings).await?.ok_or_else(not_found)?;
    let offered = offers::of_server(&mut *db, id).await?;
    let target = format!("mcp_server:{id}");
    record(
        &mut db,
        &caller,
        Action::McpServerChanged,
        target,
        json!({ "name": settings.name }),
    )
    .await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(project_id));
    Ok(Json(ServerBody::of(server, Some(offered))))
}

/// Remove an MCP server
#[utoipa::path(delete, path = "/api/admin/projects/{p}/mcp-servers/{id}", tag = "mcp servers",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The server")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete(
    State(state): State<AppState>,
    caller: Caller,
    Segments((project_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.in_project(project_id)?;
    let mut db = walls::begin(&state.db.sql, Asking::For(caller.owner())).await?;
    if !mcp::delete(&mut db, project_id, id).await? {
        return Err(not_found());
    }
    record(
        &mut db,
        &caller,
        Action::McpServerDeleted,
        format!("mcp_server:{id}"),
        json!({}),
    )
    .await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(project_id));
    Ok(StatusCode::NO_CONTENT)
}

/// Approve tools of an MCP server as they are defined now
///
/// A tool that is new, or not what was approved, is held until then: no agent is given it.
#[utoipa::path(post, path = "/api/admin/projects/{p}/mcp-servers/{id}/approve", tag = "mcp servers", request_body = ApproveRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The server")),
    responses((status = 200, description = "Done", body = Approved), Refused, BodyRefused))]
async fn approve(
    State(state): State<AppState>,
    caller: Caller,
    Segments((project_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<ApproveRequest>,
) -> Result<Json<Approved>, Problem> {
    caller.in_project(project_id)?;
    let mut db = walls::begin(&state.db.sql, Asking::For(caller.owner())).await?;
    mcp::get(&mut *db, project_id, id).await?.ok_or_else(not_found)?;
    let mut approved = offers::approve(&mut db, id, request.tools.as_deref()).await?;
    approved.sort_unstable();
    if !approved.is_empty() {
        let (target, detail) = (format!("mcp_server:{id}"), json!({ "tools": shown(&approved) }));
        record(&mut db, &caller, Action::McpToolsApproved, target, detail).await?;
    }
    db.commit().await?;
    state.bus.publish(Wake::tools(project_id));
    Ok(Json(Approved { approved }))
}

/// Names of tools, as many as an entry of the audit log holds.
fn shown(names: &[String]) -> &[String] {
    const SHOWN: usize = 50;
    &names[..names.len().min(SHOWN)]
}

/// Test an MCP server: a worker asks it what it offers
///
/// The answer says what came of it: `failure` tells why it could not be asked.
#[utoipa::path(post, path = "/api/admin/projects/{p}/mcp-servers/{id}/test", tag = "mcp servers",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The server")),
    responses((status = 200, description = "It was tried", body = ServerBody),
        (status = 504, description = "No worker has answered in time", body = crate::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn test(
    State(state): State<AppState>,
    caller: Caller,
    Segments((project_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<ServerBody>, Problem> {
    caller.in_project(project_id)?;
    let asking = Asking::For(caller.owner());
    let mut db = walls::begin(&state.db.sql, asking).await?;
    let before = mcp::get(&mut *db, project_id, id).await?.ok_or_else(not_found)?;
    let job = NewJob {
        project_id,
        unique_key: Some(format!("{KIND_PROBE}:{id}")),
        ..NewJob::new(KIND_PROBE, json!({ "serverId": id }))
    };
    let mut wakes = state.bus.subscribe();
    enqueue::enqueue(&mut db, &job).await?;
    db.commit().await?;
    state.bus.publish(Wake::queue(job.queue));
    let last = Instant::now() + TEST_LIMIT;
    loop {
        let mut db = walls::begin(&state.db.sql, asking).await?;
        let server = mcp::get(&mut *db, project_id, id).await?.ok_or_else(not_found)?;
        if server.seen_at != before.seen_at || server.failed_at > before.failed_at {
            let offered = offers::of_server(&mut *db, id).await?;
            return Ok(Json(ServerBody::of(server, Some(offered))));
        }
        drop(db);
        if Instant::now() >= last || state.draining.is_cancelled() {
            let detail = format!(
                "no worker has an answer after {} s; it may come later: look at the server again, or see whether a worker runs",
                TEST_LIMIT.as_secs()
            );
            return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "no_worker_answered", detail));
        }
        // A hint, or a look every now and then.
        let hinted = async { while !wakeup::next(&mut wakes).await.tools.contains(&project_id) {} };
        if timeout(poll_interval() / 4, hinted).await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    }
}
