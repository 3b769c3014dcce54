//! `/api/admin/projects/{p}/products`: products that the project has installed by manifests.

use axum::Json;
use axum::extract::State;
use rejoin_db::rls;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::{HttpState, authorization, contains_http_state};
use rejoin_identity::audit::Action;
use rejoin_integrations::mcp::Transport;
use rejoin_integrations::mcp::commands::Commands;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{Change, InstallationDiff, Manifest, Product, ProductError};

/// The state of the handlers.
#[derive(Clone)]
pub struct ProductsState {
    pub http: HttpState,
    /// Processes available as MCP servers.
    pub commands: Commands,
}

contains_http_state!(ProductsState);

/// Routes with this state.
pub type Routes = authorization::Routes<ProductsState>;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list, install)).routes(routes!(uninstall))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Products {
    #[schema(value_type = Vec<Object>)]
    pub items: Vec<Product>,
}

/// A manifest to install
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstallRequest {
    /// See its JSON Schema (`rejoin install --schema`)
    #[schema(value_type = Object)]
    pub manifest: Value,
    /// Only report what would be done
    #[serde(default, alias = "dry_run")]
    pub dry_run: bool,
    /// Take over items of the same names that were created by others
    #[serde(default)]
    pub adopt: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UninstallParams {
    /// Only report what would be done
    pub dry_run: Option<bool>,
}

/// What was done, or would be done
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    pub name: String,
    /// The installed version; null: it is uninstalled
    pub version: Option<String>,
    pub previous_version: Option<String>,
    /// `kind`, `name`, `action` (create, update, keep, remove, release, conflict), `detail`
    #[schema(value_type = Vec<Object>)]
    pub changes: Vec<Change>,
    /// Whether nothing was changed
    pub dry_run: bool,
}

impl Done {
    fn of(diff: InstallationDiff, dry_run: bool) -> Self {
        Self {
            name: diff.name,
            version: diff.version,
            previous_version: diff.previous_version,
            changes: diff.changes,
            dry_run,
        }
    }
}

impl From<ProductError> for Problem {
    fn from(error: ProductError) -> Self {
        match error {
            ProductError::NotFound(_) => Problem::not_found("product_not_found", "The product"),
            ProductError::Invalid(words) => Problem::bad_request("invalid_manifest", words),
            ProductError::Conflict(words) => Problem::conflict("product_conflict", words),
            ProductError::Database(error) => error.into(),
        }
    }
}

/// List the installed products
#[utoipa::path(get, path = "/api/admin/projects/{p}/products", tag = "products",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "All installed products, by name, with their manifests", body = Products), Refused))]
async fn list(
    State(state): State<ProductsState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<Products>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    let items = crate::list(&mut *db, workspace_id).await?;
    Ok(Json(Products { items }))
}

/// Install a product, or another version of it
///
/// Brings the project to the state that the manifest describes, in one transaction.
#[utoipa::path(post, path = "/api/admin/projects/{p}/products", tag = "products", request_body = InstallRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "What was done or, with `dryRun`, would be done", body = Done),
        (status = 409, description = "Others have created items of the same names", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn install(
    State(state): State<ProductsState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<InstallRequest>,
) -> Result<Json<Done>, Problem> {
    caller.in_workspace(workspace_id)?;
    let manifest = Manifest::read(request.manifest).map_err(|fault| Problem::bad_request("invalid_manifest", fault))?;
    for server in manifest
        .servers
        .iter()
        .filter(|server| server.transport == Transport::Stdio)
    {
        let command = server.command.as_deref().unwrap_or_default();
        let allowed = state.commands.allow(command, server.env.keys());
        allowed.map_err(|fault| {
            let detail = format!("MCP server {}: {fault}", server.name);
            Problem::new(axum::http::StatusCode::FORBIDDEN, "command_not_allowed", detail)
        })?;
    }
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    let diff = crate::install(&mut db, workspace_id, &manifest, request.adopt).await?;
    if request.dry_run {
        return Ok(Json(Done::of(diff, true)));
    }
    let conflicts: Vec<String> = diff
        .conflicts()
        .map(|change| format!("{} {}: {}", change.kind, change.name, change.detail.join(", ")))
        .collect();
    if !conflicts.is_empty() {
        return Err(Problem::conflict("product_conflict", conflicts.join("; ")));
    }
    let detail = json!({ "version": diff.version, "previousVersion": diff.previous_version });
    record(
        &mut db,
        &caller,
        Action::ProductInstalled,
        format!("product:{}", diff.name),
        detail,
    )
    .await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(workspace_id));
    Ok(Json(Done::of(diff, false)))
}

/// Uninstall a product
///
/// Objects, runs and conversations are kept, with everything they depend on (`release`).
#[utoipa::path(delete, path = "/api/admin/projects/{p}/products/{name}", tag = "products",
    params(UninstallParams, ("p" = Uuid, Path, description = "The project"), ("name" = String, Path, description = "The product")),
    responses((status = 200, description = "What was done or, with `dryRun`, would be done", body = Done), Refused))]
async fn uninstall(
    State(state): State<ProductsState>,
    caller: Caller<Admin>,
    Segments((workspace_id, name)): Segments<(Uuid, String)>,
    Params(params): Params<UninstallParams>,
) -> Result<Json<Done>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = rls::begin(&state.db.pool_sqlx, rls::Scope::User(caller.owner())).await?;
    let diff = crate::uninstall(&mut db, workspace_id, &name).await?;
    if params.dry_run.unwrap_or_default() {
        return Ok(Json(Done::of(diff, true)));
    }
    let detail = json!({ "previousVersion": diff.previous_version });
    record(
        &mut db,
        &caller,
        Action::ProductUninstalled,
        format!("product:{name}"),
        detail,
    )
    .await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(workspace_id));
    Ok(Json(Done::of(diff, false)))
}
