//! Template packs: sets of graph types with property schemas, and their installation in the project.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use chrono::{DateTime, Utc};
use rejoin_graph::packs::{self, Assignment, NewPack, Pack, PackSummary};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, ProblemBody, Refused};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::begin_change;
use crate::state::{AppState, Routes};

/// Default number of packs per page.
const PACKS: i32 = 20;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get, delete))
        .routes(routes!(installed))
        .routes(routes!(install, uninstall))
}

/// A template pack. Packs never change: a change is a new version.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TemplatePack)]
pub struct PackBody {
    pub id: Uuid,
    pub name: String,
    pub version: String,
    pub description: String,
    pub author: String,
    /// `draft`, `published` or `deprecated`
    pub status: String,
    /// Whether it is part of the product
    pub built_in: bool,
    /// JSON Schema of the properties, by type
    #[schema(value_type = Object)]
    pub object_types: Value,
    /// `{description, from: [types], to: [types], schema}`, by type
    #[schema(value_type = Object)]
    pub relationship_types: Value,
    /// Display settings for user interfaces, by type
    #[schema(value_type = Object)]
    pub ui: Value,
    /// Extraction prompts for texts, by type
    #[schema(value_type = Object)]
    pub prompts: Value,
    /// Checksum of types, ui and prompts
    pub checksum: String,
    pub created_at: DateTime<Utc>,
}

impl From<Pack> for PackBody {
    fn from(pack: Pack) -> Self {
        Self {
            id: pack.id,
            name: pack.name,
            version: pack.version,
            description: pack.description,
            author: pack.author,
            status: pack.status,
            built_in: pack.workspace_id.is_none(),
            object_types: pack.object_types,
            relationship_types: pack.relationship_types,
            ui: pack.ui,
            prompts: pack.prompts,
            checksum: pack.checksum,
            created_at: pack.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TemplatePackSummary)]
pub struct PackItem {
    pub id: Uuid,
    pub name: String,
    pub version: String,
    pub description: String,
    pub author: String,
    /// `draft`, `published` or `deprecated`
    pub status: String,
    pub checksum: String,
    pub object_types: Vec<String>,
    pub relationship_types: Vec<String>,
    pub installed: bool,
}

impl From<PackSummary> for PackItem {
    fn from(pack: PackSummary) -> Self {
        Self {
            id: pack.id,
            name: pack.name,
            version: pack.version,
            description: pack.description,
            author: pack.author,
            status: pack.status,
            checksum: pack.checksum,
            object_types: pack.object_types,
            relationship_types: pack.relationship_types,
            installed: pack.installed,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TemplatePackPage)]
pub struct PackPage {
    pub items: Vec<PackItem>,
    pub total: i64,
}

/// Filter and page of packs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct PackParams {
    /// Only packs whose name or description contains this text
    pub search: Option<String>,
    /// Include deprecated packs
    pub include_deprecated: Option<bool>,
    /// Maximum number of items in the page
    #[param(minimum = 1, maximum = 100)]
    pub limit: Option<i32>,
    /// Page number, from 1
    #[param(minimum = 1, maximum = 10000)]
    pub page: Option<i32>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewTemplatePack)]
pub struct NewPackRequest {
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub author: String,
    /// JSON Schema of the properties, by type
    #[serde(default)]
    #[schema(value_type = Object)]
    pub object_types: Map<String, Value>,
    /// `{description, from: [types], to: [types], schema}`, by type
    #[serde(default)]
    #[schema(value_type = Object)]
    pub relationship_types: Map<String, Value>,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub ui: Map<String, Value>,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub prompts: Map<String, Value>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstalledPack {
    pub pack_id: Uuid,
    pub name: String,
    pub version: String,
    /// Active types; null: all types of the pack
    pub enabled_types: Option<Vec<String>>,
    /// Types that are excluded from these
    pub disabled_types: Vec<String>,
    /// Whether its schemas are used for validation
    pub active: bool,
    /// Number of live objects of its types
    pub objects: i64,
    pub created_at: DateTime<Utc>,
}

impl From<Assignment> for InstalledPack {
    fn from(assignment: Assignment) -> Self {
        Self {
            pack_id: assignment.pack_id,
            name: assignment.name,
            version: assignment.version,
            enabled_types: assignment.enabled_types,
            disabled_types: assignment.disabled_types,
            active: assignment.active,
            objects: assignment.objects,
            created_at: assignment.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct InstalledPacks {
    pub items: Vec<InstalledPack>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PackInstallRequest)]
pub struct InstallRequest {
    /// Activate only these of its types; absent: all
    pub enabled_types: Option<Vec<String>>,
    /// Types to exclude
    #[serde(default)]
    pub disabled_types: Vec<String>,
    /// false: install it deactivated
    pub active: Option<bool>,
}

/// List the packs that the project can install: its own and those of the product
#[utoipa::path(get, path = "/api/projects/{p}/graph/packs", tag = "graph packs",
    params(PackParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page, by name; newest version first", body = PackPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PackParams>,
) -> Result<Json<PackPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = i64::from(params.limit.unwrap_or(PACKS));
    let page = i64::from(params.page.unwrap_or(1));
    if !(1..=packs::MAX_PAGE).contains(&limit) || !(1..=10_000).contains(&page) {
        let detail = format!("limit must be 1 to {}, page 1 to 10000", packs::MAX_PAGE);
        return Err(Problem::bad_request("invalid_query", detail));
    }
    let deprecated = params.include_deprecated.unwrap_or_default();
    let mut db = state.db.pool_sqlx.acquire().await?;
    let search = params.search.as_deref();
    let (found, total) = packs::list(&mut db, workspace_id, search, deprecated, limit, (page - 1) * limit).await?;
    let items = found.into_iter().map(PackItem::from).collect();
    Ok(Json(PackPage { items, total }))
}

/// Create a pack
///
/// Creating an identical pack again returns the existing one.
#[utoipa::path(post, path = "/api/projects/{p}/graph/packs", tag = "graph packs", request_body = NewPackRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Made", body = PackBody),
        (status = 409, description = "A pack of this name and version with other types exists", body = ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn create(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<NewPackRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<PackBody>), Problem> {
    let new = NewPack {
        name: request.name,
        version: request.version,
        description: request.description,
        author: request.author,
        object_types: request.object_types,
        relationship_types: request.relationship_types,
        ui: request.ui,
        prompts: request.prompts,
    };
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    let pack = packs::create(&mut db, workspace_id, &new).await?;
    db.commit().await?;
    let location = format!("/api/projects/{workspace_id}/graph/packs/{}", pack.id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(pack.into())))
}

/// Get a pack
#[utoipa::path(get, path = "/api/projects/{p}/graph/packs/{id}", tag = "graph packs",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The pack")),
    responses((status = 200, description = "The pack", body = PackBody), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<PackBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    Ok(Json(packs::get(&state.db.pool_sqlx, workspace_id, id).await?.into()))
}

/// Delete one of the project's own packs that is not installed
#[utoipa::path(delete, path = "/api/projects/{p}/graph/packs/{id}", tag = "graph packs",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The pack")),
    responses((status = 204, description = "Gone"),
        (status = 409, description = "It is installed, or is part of the product", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn delete(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    packs::delete(&mut db, workspace_id, id).await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the installed packs
#[utoipa::path(get, path = "/api/projects/{p}/graph/installed-packs", tag = "graph packs",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "All installed packs, oldest first", body = InstalledPacks), Refused))]
async fn installed(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<InstalledPacks>, Problem> {
    caller.in_workspace(workspace_id)?;
    let all = packs::installed(&state.db.pool_sqlx, workspace_id).await?;
    let items = all.into_iter().map(InstalledPack::from).collect();
    Ok(Json(InstalledPacks { items }))
}

/// Install a pack, or change which of its types are active
///
/// From then on, writes are validated against the schemas of its types. Existing objects are unchanged.
#[utoipa::path(put, path = "/api/projects/{p}/graph/installed-packs/{id}", tag = "graph packs", request_body = InstallRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The pack")),
    responses((status = 200, description = "The updated installation", body = InstalledPack),
        (status = 409, description = "It is deprecated, or another version of it is active", body = ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn install(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<InstallRequest>,
) -> Result<Json<InstalledPack>, Problem> {
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    let enabled = request.enabled_types.as_deref();
    let mut assignment = packs::assign(&mut db, workspace_id, id, enabled, &request.disabled_types).await?;
    if request.active == Some(false) {
        assignment = packs::set_active(&mut db, workspace_id, assignment.id, false).await?;
    }
    db.commit().await?;
    Ok(Json(assignment.into()))
}

/// Uninstall a pack
#[utoipa::path(delete, path = "/api/projects/{p}/graph/installed-packs/{id}", tag = "graph packs",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The pack")),
    responses((status = 204, description = "Gone"),
        (status = 409, description = "Live objects use its types", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn uninstall(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    let all = packs::installed(&mut *db, workspace_id).await?;
    let assignment = all.into_iter().find(|assignment| assignment.pack_id == id);
    let assignment = assignment.ok_or_else(|| Problem::not_found("pack_not_found", "The pack"))?;
    packs::uninstall(&mut db, workspace_id, assignment.id).await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
