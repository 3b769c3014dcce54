//! Objects of the graph. A change makes a new version; a deleted object can be restored.
//!
//! - `edges` the edges of an object

mod edges;

pub use edges::EntityBody;

use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use chrono::{DateTime, Utc};
use rejoin_graph::objects::{self, Filter, NewObject, Object, ObjectChange};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Limit, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, ProblemBody, Refused};
use rejoin_http::versions::{Made, Versioned, etag, expected_version};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{actor, begin_change};
use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .routes(routes!(restore))
        .routes(routes!(history))
        .merge(edges::routes())
}

/// A version of an object; outside its history the newest.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphObject)]
pub struct ObjectBody {
    /// The same in all versions
    pub id: Uuid,
    pub version: i32,
    pub r#type: String,
    /// Key for programs, unique in its type
    pub key: String,
    /// Display name: the property `name` or `title`, else the key
    pub name: String,
    pub status: Option<String>,
    pub labels: Vec<String>,
    #[schema(value_type = Object)]
    pub properties: Value,
    /// Summary of this version's changes
    pub change_summary: Option<String>,
    pub schema_version: Option<String>,
    /// Author of this version: `user`, `agent`, `import` or `system`
    pub actor_type: String,
    pub actor_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// Only in histories and responses to a deletion
    pub deleted_at: Option<DateTime<Utc>>,
}

impl From<Object> for ObjectBody {
    fn from(object: Object) -> Self {
        Self {
            id: object.id,
            version: object.version,
            r#type: object.object_type,
            key: object.key,
            name: object.name,
            status: object.status,
            labels: object.labels,
            properties: object.properties,
            change_summary: object.change_summary,
            schema_version: object.schema_version,
            actor_type: object.actor_type,
            actor_id: object.actor_id,
            created_at: object.created_at,
            updated_at: object.updated_at,
            deleted_at: object.deleted_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphObjectPage)]
pub struct ObjectPage {
    pub items: Vec<ObjectBody>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphObjectHistory)]
pub struct History {
    /// Newest first
    pub items: Vec<ObjectBody>,
}

/// Filter and page of objects.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ObjectParams {
    /// Only objects of this type
    pub r#type: Option<String>,
    /// Only objects with this label
    pub label: Option<String>,
    /// Only objects with this status
    pub status: Option<String>,
    /// Maximum number of items in the page
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the previous page
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LimitParams {
    /// Maximum number of items
    #[param(value_type = Option<i32>, minimum = 0)]
    pub limit: Option<Limit>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewGraphObject)]
pub struct NewObjectRequest {
    pub r#type: String,
    /// Null: the object's id becomes its key
    pub key: Option<String>,
    /// The same as a property `name`
    pub name: Option<String>,
    pub status: Option<String>,
    #[serde(default)]
    pub labels: Vec<String>,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub properties: Map<String, Value>,
    pub schema_version: Option<String>,
}

/// An update of an object; absent fields stay unchanged.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GraphObjectPatch)]
pub struct ObjectPatch {
    /// Properties to merge at the top level; null removes a property
    #[serde(default)]
    #[schema(value_type = Object)]
    pub properties: Map<String, Value>,
    pub status: Option<String>,
    pub labels: Option<Vec<String>>,
    /// Replace the existing labels instead of adding to them
    #[serde(default)]
    pub replace_labels: bool,
    /// The version that the change is based on; if the object has another version: 409. `If-Match` does the same
    pub version: Option<i32>,
    pub change_summary: Option<String>,
}

/// List the project's live objects in the order of their creation
#[utoipa::path(get, path = "/api/projects/{p}/graph/objects", tag = "graph objects",
    params(ObjectParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = ObjectPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<ObjectParams>,
) -> Result<Json<ObjectPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let page_params = PageParams {
        limit: params.limit,
        cursor: params.cursor,
    };
    let limit = page_params.limit(&state)?.min(objects::MAX_PAGE - 1);
    let filter = Filter {
        types: params.r#type.into_iter().collect(),
        labels: params.label.into_iter().collect(),
        status: params.status,
    };
    let (db, after) = (&state.db.pool_sqlx, page_params.after()?);
    let rows = objects::list(db, workspace_id, &filter, after, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| row.id, ObjectBody::from);
    Ok(Json(ObjectPage { items, next_cursor }))
}

/// Create an object
#[utoipa::path(post, path = "/api/projects/{p}/graph/objects", tag = "graph objects",
    request_body = NewObjectRequest, params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Made", body = ObjectBody),
        (status = 409, description = "An object of this type already has the key", body = ProblemBody, content_type = "application/problem+json"), Refused, BodyRefused))]
async fn create(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<NewObjectRequest>,
) -> Result<Made<ObjectBody>, Problem> {
    let mut properties = request.properties;
    if let Some(name) = request.name {
        properties.insert("name".to_owned(), Value::String(name));
    }
    let new = NewObject {
        object_type: request.r#type,
        key: request.key,
        status: request.status,
        labels: request.labels,
        properties,
        schema_version: request.schema_version,
    };
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    let made = objects::create(&mut db, workspace_id, &new, actor(&caller)).await?;
    db.commit().await?;
    let location = format!("/api/projects/{workspace_id}/graph/objects/{}", made.id);
    Ok((
        StatusCode::CREATED,
        [(LOCATION, location), (ETAG, etag(made.version))],
        Json(made.into()),
    ))
}

/// Get an object
#[utoipa::path(get, path = "/api/projects/{p}/graph/objects/{id}", tag = "graph objects",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The object")),
    responses((status = 200, description = "The newest version; ETag contains its number", body = ObjectBody), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Versioned<ObjectBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let object = objects::get(&state.db.pool_sqlx, workspace_id, id).await?;
    Ok(([(ETAG, etag(object.version))], Json(object.into())))
}

/// Update an object: creates a new version
#[utoipa::path(patch, path = "/api/projects/{p}/graph/objects/{id}", tag = "graph objects", request_body = ObjectPatch,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The object"),
        ("If-Match" = Option<String>, Header, description = "The version that the change is based on")),
    responses((status = 200, description = "The updated object", body = ObjectBody),
        (status = 409, description = "The newest version is another one (`version_conflict`)", body = ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn update(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    headers: HeaderMap,
    Body(patch): Body<ObjectPatch>,
) -> Result<Versioned<ObjectBody>, Problem> {
    let change = ObjectChange {
        properties: patch.properties,
        status: patch.status,
        labels: patch.labels,
        replace_labels: patch.replace_labels,
        expected_version: expected_version(&headers, patch.version)?,
        change_summary: patch.change_summary,
    };
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    let object = objects::update(&mut db, workspace_id, id, &change, actor(&caller)).await?;
    db.commit().await?;
    Ok(([(ETAG, etag(object.version))], Json(object.into())))
}

/// Delete an object. It can be restored with its relationships
#[utoipa::path(delete, path = "/api/projects/{p}/graph/objects/{id}", tag = "graph objects",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The object")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    objects::delete(&mut db, workspace_id, id, actor(&caller)).await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Restore a deleted object. No change if it is not deleted
#[utoipa::path(post, path = "/api/projects/{p}/graph/objects/{id}/restore", tag = "graph objects",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The object")),
    responses((status = 200, description = "The restored object", body = ObjectBody),
        (status = 409, description = "Another object has its key", body = ProblemBody, content_type = "application/problem+json"), Refused))]
async fn restore(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Versioned<ObjectBody>, Problem> {
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    let object = objects::restore(&mut db, workspace_id, id, actor(&caller)).await?;
    db.commit().await?;
    Ok(([(ETAG, etag(object.version))], Json(object.into())))
}

/// List an object's versions, including those of a deleted object
#[utoipa::path(get, path = "/api/projects/{p}/graph/objects/{id}/history", tag = "graph objects",
    params(LimitParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The object")),
    responses((status = 200, description = "Newest first", body = History), Refused))]
async fn history(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Params(params): Params<LimitParams>,
) -> Result<Json<History>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit.map_or(objects::MAX_PAGE, i64::from);
    let versions = objects::history(&state.db.pool_sqlx, workspace_id, id, limit).await?;
    Ok(Json(History {
        items: versions.into_iter().map(ObjectBody::from).collect(),
    }))
}
