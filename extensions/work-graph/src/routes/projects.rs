//! Whole projects of the work graph: create, rearrange, read; and manual installation of the pack with their types.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use rejoin_http::HttpState;
use rejoin_http::authorization::{Routes, routes};
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{EntityBody, LinkBody, change, invalid};
use crate::documents::Move;
use crate::links::{self, NewLink};
use crate::pack;
use crate::projects::{self, Instantiation, Rearrange};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(instantiate))
        .routes(routes!(reorganize))
        .routes(routes!(graph))
        .routes(routes!(overview))
        .routes(routes!(install))
}

/// A project to create with its initial entities and links, in one transaction.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstantiateRequest {
    /// Its fields: `name`, `description`, `stateKey`, …
    #[schema(value_type = Object)]
    pub project: Map<String, Value>,
    #[serde(default)]
    pub entities: Vec<InstantiateEntity>,
    #[serde(default)]
    pub relationships: Vec<InstantiateLink>,
    /// The fields of a document that describes the project
    #[serde(alias = "context_document")]
    #[schema(value_type = Option<Object>)]
    pub context_document: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstantiateEntity {
    /// A temporary id, used in `relationships` and in the response
    #[serde(alias = "temp_id")]
    pub temp_id: String,
    /// `task`, `goal`, `plan`, `document`, …
    pub kind: String,
    /// Its fields: `title`, `description`, `dueAt`, …
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub fields: Map<String, Value>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstantiateLink {
    /// `depends_on`, `supports_goal`, …; `parent_of` makes a document the parent of another
    #[serde(alias = "rel")]
    pub r#type: String,
    /// A temporary id; `project` and `context_document` refer to the project and its document
    #[serde(alias = "from")]
    pub source: String,
    #[serde(alias = "to")]
    pub target: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstantiatedBody {
    pub project: EntityBody,
    /// Ids by temporary ids
    pub ids: BTreeMap<String, Uuid>,
}

/// Changes of a project's links and documents, in one transaction.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReorganizeRequest {
    #[serde(alias = "project_id")]
    pub project_id: Uuid,
    /// Links to create
    #[serde(default)]
    pub link: Vec<super::edges::LinkRequest>,
    /// Ids of links to delete, before any are created
    #[serde(default)]
    pub unlink: Vec<Uuid>,
    /// Documents to move, in this order
    #[serde(default, rename = "move")]
    pub moves: Vec<MoveOf>,
}

/// Target of a move.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveOf {
    #[serde(alias = "document_id")]
    pub document_id: Uuid,
    /// The new parent; null: top level
    #[serde(alias = "parent_id")]
    pub parent_id: Option<Uuid>,
    /// Position among its siblings, from 0; null: last
    pub position: Option<u32>,
}

impl From<MoveOf> for Move {
    fn from(to: MoveOf) -> Self {
        Self {
            document: to.document_id,
            parent: to.parent_id,
            position: to.position.map(i64::from),
        }
    }
}

/// A project with all its entities.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkGraph)]
pub struct GraphBody {
    pub project: EntityBody,
    /// In the order of their creation, without `description` and `content`
    pub entities: Vec<EntityBody>,
    pub links: Vec<LinkBody>,
}

/// An overview of the user's work.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkOverview)]
pub struct OverviewBody {
    /// Unfinished projects
    pub projects: Vec<EntityBody>,
    /// The most urgent tasks
    pub open_tasks: Vec<EntityBody>,
    pub open_task_count: usize,
    /// Unfinished entities with a date, by date
    pub due: Vec<EntityBody>,
}

/// Create a project with entities, relationships and a context document, in one transaction
#[utoipa::path(post, path = "/api/onto/projects/instantiate", tag = "onto projects", request_body = InstantiateRequest,
    params(("X-Change-Source" = Option<String>, Header, description = "Origin of the change: one word")),
    responses((status = 201, description = "Made", body = InstantiatedBody), Refused, BodyRefused))]
async fn instantiate(
    State(state): State<HttpState>,
    caller: Caller<Write>,
    headers: HeaderMap,
    Body(request): Body<InstantiateRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<InstantiatedBody>), Problem> {
    let change = change(&caller, &headers)?;
    let mut entities = Vec::with_capacity(request.entities.len());
    for entity in request.entities {
        let kind = entity.kind.parse().map_err(|error| invalid(format!("kind: {error}")))?;
        entities.push((entity.temp_id, kind, entity.fields));
    }
    let new = Instantiation {
        project: request.project,
        entities,
        links: request
            .relationships
            .into_iter()
            .map(|link| (link.r#type, link.source, link.target))
            .collect(),
        context_document: request.context_document,
    };
    let mut tx = caller.begin(&state).await?;
    let made = projects::instantiate(&mut tx, caller.workspace_id, new, &change).await?;
    tx.commit().await?;
    let location = [(LOCATION, format!("/api/onto/projects/{}", made.project.object.id))];
    let body = InstantiatedBody {
        project: made.project.into(),
        ids: made.ids.into_iter().collect(),
    };
    Ok((StatusCode::CREATED, location, Json(body)))
}

/// Create and delete links and move documents of a project, in one transaction
#[utoipa::path(post, path = "/api/onto/projects/reorganize", tag = "onto projects", request_body = ReorganizeRequest,
    params(("X-Change-Source" = Option<String>, Header, description = "Origin of the change: one word")),
    responses((status = 200, description = "The updated project", body = GraphBody), Refused, BodyRefused))]
async fn reorganize(
    State(state): State<HttpState>,
    caller: Caller<Write>,
    headers: HeaderMap,
    Body(request): Body<ReorganizeRequest>,
) -> Result<Json<GraphBody>, Problem> {
    let change = change(&caller, &headers)?;
    let unlinks = request.unlink.into_iter().map(Rearrange::Unlink);
    let made = request
        .link
        .into_iter()
        .map(|link| Rearrange::Link(NewLink::from(link)));
    let moved = request.moves.into_iter().map(|to| Rearrange::Move(to.into()));
    let changes: Vec<Rearrange> = unlinks.chain(made).chain(moved).collect();
    let mut tx = caller.begin(&state).await?;
    projects::reorganize(&mut tx, caller.workspace_id, request.project_id, &changes, &change).await?;
    let now = links::graph(&mut tx, caller.workspace_id, request.project_id).await?;
    tx.commit().await?;
    Ok(Json(now.into()))
}

impl From<links::Graph> for GraphBody {
    fn from(graph: links::Graph) -> Self {
        Self {
            project: graph.project.into(),
            entities: graph.entities.into_iter().map(EntityBody::from).collect(),
            links: graph.links.into_iter().map(LinkBody::from).collect(),
        }
    }
}

/// Get a project with all its entities
#[utoipa::path(get, path = "/api/onto/projects/{id}/graph", tag = "onto projects",
    params(("id" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The project, its entities, and the links between them", body = GraphBody), Refused))]
async fn graph(
    State(state): State<HttpState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<GraphBody>, Problem> {
    let mut db = caller.begin(&state).await?;
    Ok(Json(links::graph(&mut db, caller.workspace_id, id).await?.into()))
}

/// Get an overview: projects, open tasks and due dates
#[utoipa::path(get, path = "/api/onto/overview", tag = "onto projects",
    responses((status = 200, description = "The first items of each list", body = OverviewBody), Refused))]
async fn overview(State(state): State<HttpState>, caller: Caller<Read>) -> Result<Json<OverviewBody>, Problem> {
    let mut db = caller.begin(&state).await?;
    let overview = projects::overview(&mut db, caller.workspace_id, None).await?;
    let bodies = |entities: Vec<crate::Entity>| entities.into_iter().map(EntityBody::from).collect();
    Ok(Json(OverviewBody {
        projects: bodies(overview.projects),
        open_tasks: bodies(overview.open_tasks),
        open_task_count: overview.open_task_count,
        due: bodies(overview.due),
    }))
}

/// Install the pack `work`, so that agents get its tools before there is a project. Idempotent
#[utoipa::path(post, path = "/api/onto/install", tag = "onto projects",
    responses((status = 204, description = "The pack is installed"), Refused))]
async fn install(State(state): State<HttpState>, caller: Caller<Write>) -> Result<StatusCode, Problem> {
    let mut tx = caller.begin(&state).await?;
    pack::install(&mut tx, caller.workspace_id).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
