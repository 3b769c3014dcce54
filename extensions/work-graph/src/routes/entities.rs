//! Entities of all kinds, by one set of routes: `/api/onto/tasks/create`, `/api/onto/goals/{id}`, …

use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use chrono::{DateTime, Utc};
use rejoin_http::HttpState;
use rejoin_http::authorization::{Routes, routes};
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Limit, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, ProblemBody, Refused};
use rejoin_http::versions::{Made, Versioned, etag, expected_version};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{EntityBody, change, invalid};
use crate::deletion;
use crate::documents::{self, Move};
use crate::entities::{self, Filter, NewEntity, Strategy, Update, Version};
use crate::{Entity, Kind};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(create))
        .routes(routes!(list))
        .routes(routes!(get, update, delete))
        .routes(routes!(history))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkEntityPage)]
pub struct EntityPage {
    /// Newest first
    pub items: Vec<EntityBody>,
    pub next_cursor: Option<String>,
}

/// Filter and page of entities.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct EntityParams {
    /// Only entities of this project
    #[serde(alias = "project_id")]
    pub project_id: Option<Uuid>,
    /// Only entities in this state
    #[serde(alias = "state_key")]
    pub state_key: Option<String>,
    /// Only entities of this type_key
    #[serde(alias = "type_key")]
    pub type_key: Option<String>,
    /// Maximum number of items in the page
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the previous page
    pub cursor: Option<String>,
}

/// An entity to create. The allowed fields depend on its kind; unknown fields are rejected.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewWorkEntity)]
pub struct NewEntityRequest {
    /// The project that it belongs to
    #[serde(alias = "project_id")]
    pub project_id: Uuid,
    /// For a document: its parent document
    #[serde(alias = "parent_id")]
    pub parent_id: Option<Uuid>,
    /// `name` or `title`, `description`, `stateKey`, `dueAt`, …
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub fields: Map<String, Value>,
}

/// An update of an entity.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkEntityPatch)]
pub struct EntityPatch {
    /// `replace` (default), `append` (texts are appended, `props` are merged) or `merge` (`props` are merged)
    #[serde(alias = "update_strategy")]
    #[schema(pattern = "^(replace|append|merge)$")]
    pub update_strategy: Option<String>,
    /// Summary of the change, stored with the version
    #[serde(alias = "change_summary", alias = "mergeInstructions", alias = "merge_instructions")]
    pub change_summary: Option<String>,
    /// The version that the change is based on; if the entity has another version: 409. `If-Match` does the same
    pub version: Option<i32>,
    /// The fields to change; null clears a field
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub fields: Map<String, Value>,
}

/// A version of an entity.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkVersion)]
pub struct VersionBody {
    pub version: i32,
    pub name: String,
    #[schema(value_type = Object)]
    pub properties: Value,
    /// Summary of its changes
    pub change_summary: Option<String>,
    /// Origin of the change: `chat`, `ui`, `api`, …
    pub change_source: Option<String>,
    /// `user`, `agent`, `import` or `system`
    pub actor_type: String,
    pub actor_id: Option<Uuid>,
    pub written_at: DateTime<Utc>,
    pub deleted: bool,
}

impl From<Version> for VersionBody {
    fn from(version: Version) -> Self {
        Self {
            version: version.version,
            name: version.name,
            properties: version.properties,
            change_summary: version.change_summary,
            change_source: version.change_source,
            actor_type: version.actor_type,
            actor_id: version.actor_id,
            written_at: version.written_at,
            deleted: version.deleted,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkHistory)]
pub struct History {
    /// Newest first
    pub items: Vec<VersionBody>,
}

/// Returns the kind that a path names.
pub fn kind_of(word: &str) -> Result<Kind, Problem> {
    Kind::of_plural(word).ok_or_else(|| Problem::not_found("not_found", "What the path names"))
}

/// Create an entity in a project
#[utoipa::path(post, path = "/api/onto/{kind}/create", tag = "onto", request_body = NewEntityRequest,
    params(("kind" = String, Path, description = "`tasks`, `goals`, `plans`, `documents`, `milestones`, `risks`, `requirements`, `outputs`, `events`"),
        ("X-Change-Source" = Option<String>, Header, description = "Origin of the change: one word")),
    responses((status = 201, description = "Made", body = EntityBody),
        (status = 409, description = "The project has reached the maximum number of entities", body = ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn create(
    State(state): State<HttpState>,
    caller: Caller<Write>,
    Segments(kind): Segments<String>,
    headers: HeaderMap,
    Body(request): Body<NewEntityRequest>,
) -> Result<Made<EntityBody>, Problem> {
    let kind = kind_of(&kind)?;
    if kind == Kind::Project {
        return Err(invalid("use POST /api/onto/projects/instantiate to create a project"));
    }
    if request.parent_id.is_some() && kind != Kind::Document {
        return Err(invalid("only a document can have a parent"));
    }
    let change = change(&caller, &headers)?;
    let new = NewEntity {
        kind,
        fields: request.fields,
    };
    let mut tx = caller.begin(&state).await?;
    let mut made = entities::create(&mut tx, caller.workspace_id, request.project_id, new, &change).await?;
    if let Some(parent) = request.parent_id {
        let to = Move {
            document: made.object.id,
            parent: Some(parent),
            position: None,
        };
        made = documents::move_to(&mut tx, caller.workspace_id, to, &change).await?;
    }
    tx.commit().await?;
    let location = format!("/api/onto/{}/{}", kind.plural(), made.object.id);
    Ok((
        StatusCode::CREATED,
        [(LOCATION, location), (ETAG, etag(made.object.version))],
        Json(made.into()),
    ))
}

/// List projects, or entities of one kind, newest first
#[utoipa::path(get, path = "/api/onto/{kind}", tag = "onto",
    params(EntityParams, ("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …")),
    responses((status = 200, description = "A page", body = EntityPage), Refused))]
async fn list(
    State(state): State<HttpState>,
    caller: Caller<Read>,
    Segments(kind): Segments<String>,
    Params(params): Params<EntityParams>,
) -> Result<Json<EntityPage>, Problem> {
    let kind = kind_of(&kind)?;
    let page_params = PageParams {
        limit: params.limit,
        cursor: params.cursor,
    };
    let limit = page_params.limit(&state)?.min(entities::MAX_PAGE);
    let filter = Filter {
        kinds: &[kind],
        project: params.project_id,
        state: params.state_key.as_deref(),
        type_key: params.type_key.as_deref(),
        before: page_params.after()?,
        ..Filter::default()
    };
    let mut db = caller.begin(&state).await?;
    let rows = entities::find(&mut db, caller.workspace_id, &filter, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row: &Entity| row.object.id, EntityBody::from);
    Ok(Json(EntityPage { items, next_cursor }))
}

/// Get a project or entity
#[utoipa::path(get, path = "/api/onto/{kind}/{id}", tag = "onto",
    params(("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …"), ("id" = Uuid, Path, description = "It")),
    responses((status = 200, description = "The entity; ETag contains its version", body = EntityBody), Refused))]
async fn get(
    State(state): State<HttpState>,
    caller: Caller<Read>,
    Segments((kind, id)): Segments<(String, Uuid)>,
) -> Result<Versioned<EntityBody>, Problem> {
    let kind = kind_of(&kind)?;
    let mut db = caller.begin(&state).await?;
    let entity = entities::get(&mut db, caller.workspace_id, kind, id).await?;
    Ok(([(ETAG, etag(entity.object.version))], Json(entity.into())))
}

/// Update a project or entity: creates a new version
#[utoipa::path(patch, path = "/api/onto/{kind}/{id}", tag = "onto", request_body = EntityPatch,
    params(("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …"), ("id" = Uuid, Path, description = "It"),
        ("If-Match" = Option<String>, Header, description = "The version that the change is based on"),
        ("X-Change-Source" = Option<String>, Header, description = "Origin of the change: one word")),
    responses((status = 200, description = "The updated entity", body = EntityBody),
        (status = 409, description = "The newest version is another one (`version_conflict`)", body = ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn update(
    State(state): State<HttpState>,
    caller: Caller<Write>,
    Segments((kind, id)): Segments<(String, Uuid)>,
    headers: HeaderMap,
    Body(patch): Body<EntityPatch>,
) -> Result<Versioned<EntityBody>, Problem> {
    let kind = kind_of(&kind)?;
    let change = change(&caller, &headers)?;
    let strategy = match patch.update_strategy.as_deref() {
        None => Strategy::default(),
        Some(word) => word
            .parse()
            .map_err(|error| invalid(format!("updateStrategy: {error}")))?,
    };
    let update = Update {
        fields: patch.fields,
        strategy,
        summary: patch.change_summary,
        expected_version: expected_version(&headers, patch.version)?,
    };
    let mut tx = caller.begin(&state).await?;
    let entity = entities::update(&mut tx, caller.workspace_id, kind, id, update, &change).await?;
    tx.commit().await?;
    Ok(([(ETAG, etag(entity.object.version))], Json(entity.into())))
}

/// Delete an entity with its links, or a project with everything in it
#[utoipa::path(delete, path = "/api/onto/{kind}/{id}", tag = "onto",
    params(("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …"), ("id" = Uuid, Path, description = "It"),
        ("If-Match" = Option<String>, Header, description = "The version to delete"),
        ("X-Change-Source" = Option<String>, Header, description = "Origin of the change: one word")),
    responses((status = 204, description = "Gone"),
        (status = 409, description = "The newest version is another one (`version_conflict`)", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn delete(
    State(state): State<HttpState>,
    caller: Caller<Write>,
    Segments((kind, id)): Segments<(String, Uuid)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let kind = kind_of(&kind)?;
    let change = change(&caller, &headers)?;
    let expected = expected_version(&headers, None)?;
    let mut tx = caller.begin(&state).await?;
    deletion::delete(&mut tx, caller.workspace_id, kind, id, expected, &change).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List an entity's versions, with author and origin of each change
#[utoipa::path(get, path = "/api/onto/{kind}/{id}/history", tag = "onto",
    params(("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …"), ("id" = Uuid, Path, description = "It")),
    responses((status = 200, description = "The versions, including those of a deleted entity", body = History), Refused))]
async fn history(
    State(state): State<HttpState>,
    caller: Caller<Read>,
    Segments((kind, id)): Segments<(String, Uuid)>,
) -> Result<Json<History>, Problem> {
    let kind = kind_of(&kind)?;
    let mut db = caller.begin(&state).await?;
    let versions = entities::history(&mut db, caller.workspace_id, kind, id, entities::MAX_PAGE).await?;
    Ok(Json(History {
        items: versions.into_iter().map(VersionBody::from).collect(),
    }))
}
