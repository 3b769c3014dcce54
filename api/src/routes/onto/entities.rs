//! Entities of all kinds, by one set of routes: `/api/onto/tasks/create`, `/api/onto/goals/{id}`, …

use axum::Json;
use axum::extract::State;
use axum::http::header::{ETAG, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use chrono::{DateTime, Utc};
use rejoin_outside::calendar::links as event_links;
use rejoin_shared::work::deletion;
use rejoin_shared::work::documents::{self, Move};
use rejoin_shared::work::entities::{self, Filter, NewEntity, Strategy, Update, Version};
use rejoin_shared::work::links;
use rejoin_shared::work::{Entity, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::{EntityBody, LinkBody, change, invalid};
use crate::caller::Caller;
use crate::extract::{Body, Limit, PageParams, Params, Segments, page};
use crate::problem::{BodyRefused, Problem, ProblemBody, Refused};
use crate::routes::calendar_event_entities::EventBody;
use crate::routes::graph::{Made, Versioned, etag, expected_version};
use crate::state::AppState;

pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(list))
        .routes(routes!(get, update, delete))
        .routes(routes!(history))
        .routes(routes!(linked))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkEntityPage)]
pub struct EntityPage {
    /// The newest first
    pub items: Vec<EntityBody>,
    pub next_cursor: Option<String>,
}

/// Which entities, and which page of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct EntityParams {
    /// Of this project
    #[serde(alias = "project_id")]
    pub project_id: Option<Uuid>,
    /// In this state
    #[serde(alias = "state_key")]
    pub state_key: Option<String>,
    /// Of this sort
    #[serde(alias = "type_key")]
    pub type_key: Option<String>,
    /// Items of the page
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the page before
    pub cursor: Option<String>,
}

/// An entity to be made. Which fields there are depends on its kind; unknown ones are refused.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewWorkEntity)]
pub struct NewEntityRequest {
    /// The project that it will belong to
    #[serde(alias = "project_id")]
    pub project_id: Uuid,
    /// Of a document: the one that it is put below
    #[serde(alias = "parent_id")]
    pub parent_id: Option<Uuid>,
    /// `name` or `title`, `description`, `stateKey`, `dueAt`, …
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub fields: Map<String, Value>,
}

/// What is to be different.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkEntityPatch)]
pub struct EntityPatch {
    /// `replace` (default), `append` (texts go behind what is there, `props` are merged) or `merge` (`props` are merged)
    #[serde(alias = "update_strategy")]
    #[schema(pattern = "^(replace|append|merge)$")]
    pub update_strategy: Option<String>,
    /// What the change is, in words; kept with the version
    #[serde(alias = "change_summary", alias = "mergeInstructions", alias = "merge_instructions")]
    pub change_summary: Option<String>,
    /// The version that the change was made for; another one there: 409. `If-Match` says the same
    pub version: Option<i32>,
    /// The fields that are to be different; null clears one
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub fields: Map<String, Value>,
}

/// One version of an entity.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkVersion)]
pub struct VersionBody {
    pub version: i32,
    pub name: String,
    #[schema(value_type = Object)]
    pub properties: Value,
    /// What it changed, in words
    pub change_summary: Option<String>,
    /// From where it came: `chat`, `ui`, `api`, …
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
    /// The newest first
    pub items: Vec<VersionBody>,
}

/// An entity that another one is linked with.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkLinked)]
pub struct LinkedBody {
    pub link: LinkBody,
    /// Without `description` and `content`
    pub entity: EntityBody,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkLinkedList)]
#[serde(rename_all = "camelCase")]
pub struct LinkedList {
    pub items: Vec<LinkedBody>,
    /// Events of the caller's calendars that belong to it, the first ones first
    pub calendar_events: Vec<EventBody>,
}

fn kind_of(word: &str) -> Result<Kind, Problem> {
    Kind::of_plural(word).ok_or_else(|| Problem::not_found("not_found", "What the path names"))
}

/// Make an entity of a project
#[utoipa::path(post, path = "/api/onto/{kind}/create", tag = "onto", request_body = NewEntityRequest,
    params(("kind" = String, Path, description = "`tasks`, `goals`, `plans`, `documents`, `milestones`, `risks`, `requirements`, `outputs`, `events`"),
        ("X-Change-Source" = Option<String>, Header, description = "From where the change comes: one word")),
    responses((status = 201, description = "Made", body = EntityBody),
        (status = 409, description = "The project has as many as it may", body = ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Segments(kind): Segments<String>,
    headers: HeaderMap,
    Body(request): Body<NewEntityRequest>,
) -> Result<Made<EntityBody>, Problem> {
    let kind = kind_of(&kind)?;
    if kind == Kind::Project {
        return Err(invalid("projects are made by POST /api/onto/projects/instantiate"));
    }
    if request.parent_id.is_some() && kind != Kind::Document {
        return Err(invalid("only a document can be put below another one"));
    }
    let change = change(&caller, &headers)?;
    let new = NewEntity {
        kind,
        fields: request.fields,
    };
    let mut tx = caller.walled(&state).await?;
    let mut made = entities::create(&mut tx, caller.project_id, request.project_id, new, &change).await?;
    if let Some(parent) = request.parent_id {
        let to = Move {
            document: made.object.id,
            parent: Some(parent),
            position: None,
        };
        made = documents::move_to(&mut tx, caller.project_id, to, &change).await?;
    }
    tx.commit().await?;
    let location = format!("/api/onto/{}/{}", kind.plural(), made.object.id);
    Ok((
        StatusCode::CREATED,
        [(LOCATION, location), (ETAG, etag(made.object.version))],
        Json(made.into()),
    ))
}

/// Projects, or entities of one kind, the newest first
#[utoipa::path(get, path = "/api/onto/{kind}", tag = "onto",
    params(EntityParams, ("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …")),
    responses((status = 200, description = "A page", body = EntityPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller,
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
    let mut db = caller.walled(&state).await?;
    let rows = entities::find(&mut db, caller.project_id, &filter, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row: &Entity| row.object.id, EntityBody::from);
    Ok(Json(EntityPage { items, next_cursor }))
}

/// One project or entity
#[utoipa::path(get, path = "/api/onto/{kind}/{id}", tag = "onto",
    params(("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …"), ("id" = Uuid, Path, description = "It")),
    responses((status = 200, description = "As it is now; ETag names its version", body = EntityBody), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller,
    Segments((kind, id)): Segments<(String, Uuid)>,
) -> Result<Versioned<EntityBody>, Problem> {
    let kind = kind_of(&kind)?;
    let mut db = caller.walled(&state).await?;
    let entity = entities::get(&mut db, caller.project_id, kind, id).await?;
    Ok(([(ETAG, etag(entity.object.version))], Json(entity.into())))
}

/// Change fields of a project or entity: a new version
#[utoipa::path(patch, path = "/api/onto/{kind}/{id}", tag = "onto", request_body = EntityPatch,
    params(("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …"), ("id" = Uuid, Path, description = "It"),
        ("If-Match" = Option<String>, Header, description = "The version that the change was made for"),
        ("X-Change-Source" = Option<String>, Header, description = "From where the change comes: one word")),
    responses((status = 200, description = "As it is now", body = EntityBody),
        (status = 409, description = "Another version is the newest (`version_conflict`)", body = ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn update(
    State(state): State<AppState>,
    caller: Caller,
    Segments((kind, id)): Segments<(String, Uuid)>,
    headers: HeaderMap,
    Body(patch): Body<EntityPatch>,
) -> Result<Versioned<EntityBody>, Problem> {
    let kind = kind_of(&kind)?;
    let change = change(&caller, &headers)?;
    let strategy = match patch.update_strategy.as_deref() {
        None => Strategy::default(),
        Some(word) => Strategy::of(word)
            .ok_or_else(|| invalid(format!("updateStrategy must be one of {}", Strategy::WORDS.join(", "))))?,
    };
    let update = Update {
        fields: patch.fields,
        strategy,
        summary: patch.change_summary,
        expected_version: expected_version(&headers, patch.version)?,
    };
    let mut tx = caller.walled(&state).await?;
    let entity = entities::update(&mut tx, caller.project_id, kind, id, update, &change).await?;
    tx.commit().await?;
    Ok(([(ETAG, etag(entity.object.version))], Json(entity.into())))
}

/// Delete an entity with its links, or a project with all that belongs to it
#[utoipa::path(delete, path = "/api/onto/{kind}/{id}", tag = "onto",
    params(("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …"), ("id" = Uuid, Path, description = "It"),
        ("If-Match" = Option<String>, Header, description = "The version that is to be deleted"),
        ("X-Change-Source" = Option<String>, Header, description = "From where the change comes: one word")),
    responses((status = 204, description = "Gone"),
        (status = 409, description = "Another version is the newest (`version_conflict`)", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn delete(
    State(state): State<AppState>,
    caller: Caller,
    Segments((kind, id)): Segments<(String, Uuid)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let kind = kind_of(&kind)?;
    let change = change(&caller, &headers)?;
    let expected = expected_version(&headers, None)?;
    let mut tx = caller.walled(&state).await?;
    deletion::delete(&mut tx, caller.project_id, kind, id, expected, &change).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What an entity was like before, and who changed it from where
#[utoipa::path(get, path = "/api/onto/{kind}/{id}/history", tag = "onto",
    params(("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …"), ("id" = Uuid, Path, description = "It")),
    responses((status = 200, description = "Its versions, also of a deleted one", body = History), Refused))]
async fn history(
    State(state): State<AppState>,
    caller: Caller,
    Segments((kind, id)): Segments<(String, Uuid)>,
) -> Result<Json<History>, Problem> {
    let kind = kind_of(&kind)?;
    let mut db = caller.walled(&state).await?;
    let versions = entities::history(&mut db, caller.project_id, kind, id, entities::MAX_PAGE).await?;
    Ok(Json(History {
        items: versions.into_iter().map(VersionBody::from).collect(),
    }))
}

/// What an entity is linked with
#[utoipa::path(get, path = "/api/onto/{kind}/{id}/linked", tag = "onto",
    params(("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …"), ("id" = Uuid, Path, description = "It")),
    responses((status = 200, description = "Each with the link", body = LinkedList), Refused))]
async fn linked(
    State(state): State<AppState>,
    caller: Caller,
    Segments((kind, id)): Segments<(String, Uuid)>,
) -> Result<Json<LinkedList>, Problem> {
    let kind = kind_of(&kind)?;
    let mut db = caller.walled(&state).await?;
    entities::get(&mut db, caller.project_id, kind, id).await?;
    let pairs = links::linked(&mut db, caller.project_id, id, None).await?;
    let items = pairs.into_iter().map(|(link, entity)| LinkedBody {
        link: link.into(),
        entity: entity.into(),
    });
    let events = event_links::events_of(&mut *db, caller.owner(), id).await?;
    Ok(Json(LinkedList {
        items: items.collect(),
        calendar_events: events.into_iter().map(EventBody::from).collect(),
    }))
}
