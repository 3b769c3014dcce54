//! Relationships of the graph: directed, at most one of a type between two objects, versioned like objects.

use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use chrono::{DateTime, Utc};
use rejoin_graph::relationships::{self, Connected, Filter, NewRelationship, Relationship, RelationshipChange};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Limit, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, ProblemBody, Refused};
use rejoin_http::versions::{Made, Versioned, etag, expected_version};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::objects::EntityBody;
use super::{actor, begin_change};
use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .routes(routes!(restore))
        .routes(routes!(history))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphRelationship)]
pub struct RelationshipBody {
    /// The same in all versions
    pub id: Uuid,
    pub version: i32,
    /// Relationship type, read from source to target
    pub r#type: String,
    pub source_id: Uuid,
    pub target_id: Uuid,
    #[schema(value_type = Object)]
    pub properties: Value,
    /// Weight, if the type has one
    pub weight: Option<f64>,
    /// Validity period, if known
    pub valid_from: Option<DateTime<Utc>>,
    pub valid_to: Option<DateTime<Utc>>,
    /// Author of this version: `user`, `agent`, `import` or `system`
    pub actor_type: String,
    pub actor_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// Only in histories
    pub deleted_at: Option<DateTime<Utc>>,
}

impl From<Relationship> for RelationshipBody {
    fn from(relationship: Relationship) -> Self {
        Self {
            id: relationship.id,
            version: relationship.version,
            r#type: relationship.relationship_type,
            source_id: relationship.source_id,
            target_id: relationship.target_id,
            properties: relationship.properties,
            weight: relationship.weight,
            valid_from: relationship.valid_from,
            valid_to: relationship.valid_to,
            actor_type: relationship.actor_type,
            actor_id: relationship.actor_id,
            created_at: relationship.created_at,
            updated_at: relationship.updated_at,
            deleted_at: relationship.deleted_at,
        }
    }
}

/// A relationship with its source and target.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphConnection)]
pub struct ConnectedBody {
    #[serde(flatten)]
    pub relationship: RelationshipBody,
    pub source: EntityBody,
    pub target: EntityBody,
}

impl From<Connected> for ConnectedBody {
    fn from(connected: Connected) -> Self {
        Self {
            relationship: connected.relationship.into(),
            source: connected.source.into(),
            target: connected.target.into(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphRelationshipPage)]
pub struct RelationshipPage {
    pub items: Vec<ConnectedBody>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphRelationshipHistory)]
pub struct History {
    /// Newest first
    pub items: Vec<RelationshipBody>,
}

/// Filter and page of relationships.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct RelationshipParams {
    /// Only relationships of this type
    pub r#type: Option<String>,
    /// Only relationships from this object
    pub source_id: Option<Uuid>,
    /// Only relationships to this object
    pub target_id: Option<Uuid>,
    /// Maximum number of items in the page
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the previous page
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewGraphRelationship)]
pub struct NewRelationshipRequest {
    pub r#type: String,
    pub source_id: Uuid,
    pub target_id: Uuid,
    #[serde(default)]
    #[schema(value_type = Object)]
    pub properties: Map<String, Value>,
    pub weight: Option<f64>,
    pub valid_from: Option<DateTime<Utc>>,
    pub valid_to: Option<DateTime<Utc>>,
}

/// An update of a relationship; absent fields stay unchanged.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GraphRelationshipPatch)]
pub struct RelationshipPatch {
    /// Properties to merge at the top level; null removes a property
    #[serde(default)]
    #[schema(value_type = Object)]
    pub properties: Map<String, Value>,
    pub weight: Option<f64>,
    pub valid_from: Option<DateTime<Utc>>,
    pub valid_to: Option<DateTime<Utc>>,
    /// The version that the change is based on; if the relationship has another version: 409. `If-Match` does the same
    pub version: Option<i32>,
}

/// List the project's live relationships in the order of their creation, with both ends
#[utoipa::path(get, path = "/api/projects/{p}/graph/relationships", tag = "graph relationships",
    params(RelationshipParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = RelationshipPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<RelationshipParams>,
) -> Result<Json<RelationshipPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let page_params = PageParams {
        limit: params.limit,
        cursor: params.cursor,
    };
    let limit = page_params.limit(&state)?.min(relationships::MAX_PAGE - 1);
    let filter = Filter {
        relationship_type: params.r#type,
        source_id: params.source_id,
        target_id: params.target_id,
    };
    let (db, after) = (&state.db.pool_sqlx, page_params.after()?);
    let rows = relationships::list(db, workspace_id, &filter, after, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| row.relationship.id, ConnectedBody::from);
    Ok(Json(RelationshipPage { items, next_cursor }))
}

/// Create a relationship between two live objects
#[utoipa::path(post, path = "/api/projects/{p}/graph/relationships", tag = "graph relationships",
    request_body = NewRelationshipRequest, params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Made", body = RelationshipBody),
        (status = 409, description = "A relationship of this type between them exists", body = ProblemBody, content_type = "application/problem+json"), Refused, BodyRefused))]
async fn create(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<NewRelationshipRequest>,
) -> Result<Made<RelationshipBody>, Problem> {
    let new = NewRelationship {
        relationship_type: request.r#type,
        source_id: request.source_id,
        target_id: request.target_id,
        properties: request.properties,
        weight: request.weight,
        valid_from: request.valid_from,
        valid_to: request.valid_to,
    };
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    let made = match relationships::create(&mut db, workspace_id, &new, actor(&caller)).await {
        // A missing object named by the body is the request's fault; the path's resource exists.
        Err(error @ rejoin_graph::Error::NotFound { .. }) => {
            return Err(Problem::bad_request("object_not_found", error.to_string()));
        }
        outcome => outcome?,
    };
    db.commit().await?;
    let location = format!("/api/projects/{workspace_id}/graph/relationships/{}", made.id);
    Ok((
        StatusCode::CREATED,
        [(LOCATION, location), (ETAG, etag(made.version))],
        Json(made.into()),
    ))
}

/// Get a relationship
#[utoipa::path(get, path = "/api/projects/{p}/graph/relationships/{id}", tag = "graph relationships",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The relationship")),
    responses((status = 200, description = "The newest version; ETag contains its number", body = RelationshipBody), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Versioned<RelationshipBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let relationship = relationships::get(&state.db.pool_sqlx, workspace_id, id).await?;
    Ok(([(ETAG, etag(relationship.version))], Json(relationship.into())))
}

/// Update a relationship: creates a new version
#[utoipa::path(patch, path = "/api/projects/{p}/graph/relationships/{id}", tag = "graph relationships",
    request_body = RelationshipPatch,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The relationship"),
        ("If-Match" = Option<String>, Header, description = "The version that the change is based on")),
    responses((status = 200, description = "The updated relationship", body = RelationshipBody),
        (status = 409, description = "The newest version is another one (`version_conflict`)", body = ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn update(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    headers: HeaderMap,
    Body(patch): Body<RelationshipPatch>,
) -> Result<Versioned<RelationshipBody>, Problem> {
    let change = RelationshipChange {
        properties: patch.properties,
        weight: patch.weight,
        valid_from: patch.valid_from,
        valid_to: patch.valid_to,
        expected_version: expected_version(&headers, patch.version)?,
    };
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    let relationship = relationships::update(&mut db, workspace_id, id, &change, actor(&caller)).await?;
    db.commit().await?;
    Ok(([(ETAG, etag(relationship.version))], Json(relationship.into())))
}

/// Delete a relationship
#[utoipa::path(delete, path = "/api/projects/{p}/graph/relationships/{id}", tag = "graph relationships",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The relationship")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    relationships::delete(&mut db, workspace_id, id, actor(&caller)).await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Restore a deleted relationship
///
/// No change if it is not deleted.
#[utoipa::path(post, path = "/api/projects/{p}/graph/relationships/{id}/restore", tag = "graph relationships",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The relationship")),
    responses((status = 200, description = "The restored relationship", body = RelationshipBody),
        (status = 409, description = "Another relationship of this type between them exists", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn restore(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Versioned<RelationshipBody>, Problem> {
    let mut db = begin_change(&state, &caller, workspace_id).await?;
    let relationship = relationships::restore(&mut db, workspace_id, id, actor(&caller)).await?;
    db.commit().await?;
    Ok(([(ETAG, etag(relationship.version))], Json(relationship.into())))
}

/// List a relationship's versions, including those of a deleted relationship
#[utoipa::path(get, path = "/api/projects/{p}/graph/relationships/{id}/history", tag = "graph relationships",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The relationship")),
    responses((status = 200, description = "Newest first, at most 1,000", body = History), Refused))]
async fn history(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<History>, Problem> {
    caller.in_workspace(workspace_id)?;
    let versions = relationships::history(&state.db.pool_sqlx, workspace_id, id, relationships::MAX_PAGE).await?;
    let items = versions.into_iter().map(RelationshipBody::from).collect();
    Ok(Json(History { items }))
}
