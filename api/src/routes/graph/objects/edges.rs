//! The edges of an object.

use axum::Json;
use axum::extract::State;
use rejoin_graph::edges::{self, Edge, Edges};
use rejoin_graph::objects::{self};
use rejoin_graph::relationships::Entity;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{Params, Segments};
use rejoin_http::problem::{Problem, Refused};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::LimitParams;
use crate::state::{AppState, Routes};

/// Default number of an object's edges in one direction.
const EDGES: i64 = 100;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(edges))
}

/// A short reference to an object.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphEntity)]
pub struct EntityBody {
    pub id: Uuid,
    pub key: String,
    pub r#type: String,
    pub name: String,
}

impl From<Entity> for EntityBody {
    fn from(entity: Entity) -> Self {
        Self {
            id: entity.id,
            key: entity.key,
            r#type: entity.object_type,
            name: entity.name,
        }
    }
}

/// A relationship as seen from one of its ends.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphEdge)]
pub struct EdgeBody {
    pub relationship_id: Uuid,
    pub relationship_type: String,
    pub connected: EntityBody,
    #[schema(value_type = Object)]
    pub properties: Value,
    pub weight: Option<f64>,
}

impl From<Edge> for EdgeBody {
    fn from(edge: Edge) -> Self {
        Self {
            relationship_id: edge.relationship_id,
            relationship_type: edge.relationship_type,
            connected: edge.connected.into(),
            properties: edge.properties,
            weight: edge.weight,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphEdges)]
pub struct EdgesBody {
    /// By type and name
    pub incoming: Vec<EdgeBody>,
    pub outgoing: Vec<EdgeBody>,
    /// Total number, including those beyond the limit
    pub incoming_total: i64,
    pub outgoing_total: i64,
}

impl From<Edges> for EdgesBody {
    fn from(edges: Edges) -> Self {
        let bodies = |edges: Vec<Edge>| edges.into_iter().map(EdgeBody::from).collect();
        Self {
            incoming: bodies(edges.incoming),
            outgoing: bodies(edges.outgoing),
            incoming_total: edges.incoming_total,
            outgoing_total: edges.outgoing_total,
        }
    }
}

/// List an object's incoming and outgoing relationships
#[utoipa::path(get, path = "/api/projects/{p}/graph/objects/{id}/edges", tag = "graph objects",
    params(LimitParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The object")),
    responses((status = 200, description = "At most `limit` in each direction", body = EdgesBody), Refused))]
async fn edges(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Params(params): Params<LimitParams>,
) -> Result<Json<EdgesBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    objects::get(&state.db.pool_sqlx, workspace_id, id).await?;
    let limit = params.limit.map_or(EDGES, i64::from);
    let edges = edges::edges(&state.db.pool_sqlx, workspace_id, id, limit).await?;
    Ok(Json(edges.into()))
}
