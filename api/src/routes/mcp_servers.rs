//! `/api/admin/projects/{p}/mcp-servers`: MCP servers of a project, their tools, and the tools' approval.
//!
//! - `bodies`  request and response bodies

mod bodies;

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use rejoin_db::rls;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::probe::Probe;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_integrations::mcp::{self, KIND_PROBE, Settings, Transport, offers};
use serde_json::json;
use uuid::Uuid;

use self::bodies::{ApproveRequest, Approved, ServerBody, ServerRequest, Servers, transport};
use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .routes(routes!(approve))
        .routes(routes!(test))
}

/// Err: the settings are invalid, or name a command that is not the operator's.
fn check(state: &AppState, settings: &Settings, args: Option<&[String]>) -> Result<(), Problem> {
    let forbidden = |detail: String| Problem::new(StatusCode::FORBIDDEN, "command_not_allowed", detail);
    if args.is_some_and(|args| !args.is_empty()) {
        return Err(forbidden(
            "a command's arguments can be set only in the operator's configuration".to_owned(),
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

/// List the project's MCP servers
#[utoipa::path(get, path = "/api/admin/projects/{p}/mcp-servers", tag = "mcp servers",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "All servers, by name", body = Servers), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<Servers>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    let servers = mcp::list(&mut *db, workspace_id).await?;
    let items = servers.into_iter().map(|server| ServerBody::of(server, None)).collect();
    Ok(Json(Servers { items }))
}

/// Create an MCP server
///
/// The server is connected to when an agent first needs its tools, or when it is tested.
#[utoipa::path(post, path = "/api/admin/projects/{p}/mcp-servers", tag = "mcp servers", request_body = ServerRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Added", body = ServerBody, headers(("Location" = String, description = "URL \
        of the server"))),
        (status = 409, description = "A server of this name exists", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn create(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Body(mut request): Body<ServerRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<ServerBody>), Problem> {
    caller.in_workspace(workspace_id)?;
    let name = request.name.take().unwrap_or_default();
    let args = request.args.take();
    let named = match (&request.transport, &request.url) {
        (Some(named), _) => transport(named)?,
        (None, Some(_)) => Transport::Http,
        (None, None) => Transport::Stdio,
    };
    let settings = request.apply_to(Settings::new(name, named))?;
    check(&state, &settings, args.as_deref())?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    if mcp::count(&mut *db, workspace_id).await? >= mcp::MAX_SERVERS {
        let detail = format!("a project can have at most {} MCP servers", mcp::MAX_SERVERS);
        return Err(Problem::conflict("too_many_mcp_servers", detail));
    }
    let server = mcp::create(&mut db, workspace_id, &settings, None)
        .await?
        .ok_or_else(|| {
            let detail = format!("an MCP server named {} already exists", settings.name);
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
    state.bus.publish(Wake::tools(workspace_id));
    let location = format!("/api/admin/projects/{workspace_id}/mcp-servers/{}", server.id);
    Ok((
        StatusCode::CREATED,
        [(LOCATION, location)],
        Json(ServerBody::of(server, Some(Vec::new()))),
    ))
}

/// Get an MCP server with its tools
#[utoipa::path(get, path = "/api/admin/projects/{p}/mcp-servers/{id}", tag = "mcp servers",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The server")),
    responses((status = 200, description = "It", body = ServerBody), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<ServerBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    let server = mcp::get(&mut *db, workspace_id, id).await?.ok_or_else(not_found)?;
    let offered = offers::of_server(&mut *db, id).await?;
    Ok(Json(ServerBody::of(server, Some(offered))))
}

/// Update an MCP server
///
/// It cannot be renamed. If the connection settings change, it counts as another server, whose tools must be approved
/// again.
#[utoipa::path(patch, path = "/api/admin/projects/{p}/mcp-servers/{id}", tag = "mcp servers", request_body = ServerRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The server")),
    responses((status = 200, description = "The updated server", body = ServerBody), Refused, BodyRefused))]
async fn update(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(mut request): Body<ServerRequest>,
) -> Result<Json<ServerBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    let server = mcp::get(&mut *db, workspace_id, id).await?.ok_or_else(not_found)?;
    if request.name.as_ref().is_some_and(|name| *name != server.settings.name) {
        let detail = "a server cannot be renamed, because its name is part of its tools' names; add another server";
        return Err(Problem::bad_request("invalid_mcp_server", detail));
    }
    let args = request.args.take();
    let settings = request.apply_to(server.settings.clone())?;
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
    state.bus.publish(Wake::tools(workspace_id));
    Ok(Json(ServerBody::of(server, Some(offered))))
}

/// Delete an MCP server
#[utoipa::path(delete, path = "/api/admin/projects/{p}/mcp-servers/{id}", tag = "mcp servers",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The server")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    if !mcp::delete(&mut db, workspace_id, id).await? {
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
    state.bus.publish(Wake::tools(workspace_id));
    Ok(StatusCode::NO_CONTENT)
}

/// Approve tools of an MCP server with their current definitions
///
/// A tool that is new, or has changed since its approval, is held back until then: no agent gets it.
#[utoipa::path(post, path = "/api/admin/projects/{p}/mcp-servers/{id}/approve", tag = "mcp servers", request_body = ApproveRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The server")),
    responses((status = 200, description = "Done", body = Approved), Refused, BodyRefused))]
async fn approve(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<ApproveRequest>,
) -> Result<Json<Approved>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    mcp::get(&mut *db, workspace_id, id).await?.ok_or_else(not_found)?;
    let mut approved = offers::approve(&mut db, id, request.tools.as_deref()).await?;
    approved.sort_unstable();
    if !approved.is_empty() {
        let (target, detail) = (format!("mcp_server:{id}"), json!({ "tools": shown(&approved) }));
        record(&mut db, &caller, Action::McpToolsApproved, target, detail).await?;
    }
    db.commit().await?;
    state.bus.publish(Wake::tools(workspace_id));
    Ok(Json(Approved { approved }))
}

/// Tool names, as many as an audit entry holds.
fn shown(names: &[String]) -> &[String] {
    const SHOWN: usize = 50;
    &names[..names.len().min(SHOWN)]
}

/// Test an MCP server: a worker connects to it and lists its tools
///
/// If this failed, `failure` in the response tells why.
#[utoipa::path(post, path = "/api/admin/projects/{p}/mcp-servers/{id}/test", tag = "mcp servers",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The server")),
    responses((status = 200, description = "The test's result", body = ServerBody),
        (status = 504, description = "No worker responded in time", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn test(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<ServerBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let before = mcp::get(&mut *db, workspace_id, id).await?.ok_or_else(not_found)?;
    drop(db);
    let payload = json!({ "serverId": id, "userId": caller.user_id });
    let mut probe = Probe::start(&state, &caller, KIND_PROBE, payload, id).await?;
    loop {
        let mut db = caller.begin(&state).await?;
        let server = mcp::get(&mut *db, workspace_id, id).await?.ok_or_else(not_found)?;
        if server.seen_at != before.seen_at || server.failed_at > before.failed_at {
            let offered = offers::of_server(&mut *db, id).await?;
            return Ok(Json(ServerBody::of(server, Some(offered))));
        }
        drop(db);
        probe.wait(&state).await?;
    }
}
