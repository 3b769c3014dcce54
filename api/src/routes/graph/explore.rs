//! Exploration of the graph: search, types, traversals from an object.

use axum::Json;
use axum::extract::State;
use rejoin_graph::hybrid_ranking::{self, Mode};
use rejoin_graph::scope::Scope;
use rejoin_graph::traverse::{self, MAX_DEPTH, Walk};
use rejoin_graph::{Direction, embedder, schema};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{Body, Limit, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::objects::ObjectBody;
use crate::state::{AppState, Routes};

/// Default number of objects in a search result.
const SEARCH_LIMIT: i64 = 20;
/// Maximum length of a search query, in characters.
const QUERY_MAX_CHARS: usize = 2_000;
/// Default depth of a traversal.
const WALK_DEPTH: u32 = 2;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(search_objects))
        .routes(routes!(types))
        .routes(routes!(walk))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SearchParams {
    /// Words, or a phrase in quotes; typos are tolerated
    pub query: String,
    /// `lexical`: by words; `semantic`: by meaning; `hybrid`: by both
    #[serde(default)]
    #[param(value_type = Option<String>, pattern = "^(lexical|semantic|hybrid)$")]
    pub mode: Mode,
    /// Only objects of one of these types, separated by commas
    pub types: Option<String>,
    /// Only objects with one of these labels, separated by commas
    pub labels: Option<String>,
    /// Maximum number of objects in the result, at most 100
    #[param(value_type = Option<i32>, minimum = 0)]
    pub limit: Option<Limit>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphHit)]
pub struct HitBody {
    pub object: ObjectBody,
    /// 0 to 1
    pub score: f64,
    /// Score by words; null: not found by words
    pub lexical_score: Option<f64>,
    /// Score by meaning, the cosine similarity; null: not found by meaning
    pub vector_score: Option<f64>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphHits)]
pub struct HitsBody {
    /// Best first
    pub data: Vec<HitBody>,
    /// Total number of matching objects
    pub total: i64,
    /// Why only keyword search was used although meaning was requested
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphTypeCount)]
pub struct TypeBody {
    pub name: String,
    pub count: i64,
    /// Property names, from a sample
    pub properties: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphRelationshipCount)]
pub struct RelationshipTypeBody {
    pub r#type: String,
    pub from_type: String,
    pub to_type: String,
    pub count: i64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphTypes)]
pub struct TypesBody {
    /// Most common first
    pub types: Vec<TypeBody>,
    pub relationships: Vec<RelationshipTypeBody>,
    /// Number of objects of all types
    pub total: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GraphWalk)]
pub struct WalkRequest {
    pub start_entity_id: Uuid,
    /// 1 to 5
    pub max_depth: Option<u32>,
    /// Relationship types to follow; null: all
    #[serde(default)]
    pub relationship_types: Vec<String>,
    /// `outgoing`, `incoming` or `both`
    #[serde(default)]
    #[schema(value_type = String, pattern = "^(outgoing|incoming|both)$")]
    pub direction: Direction,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphNode)]
pub struct NodeBody {
    /// Number of relationships from the start
    pub depth: u32,
    pub object: ObjectBody,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphWalkEdge)]
pub struct WalkEdgeBody {
    pub id: Uuid,
    pub r#type: String,
    pub source_id: Uuid,
    pub target_id: Uuid,
    #[schema(value_type = Object)]
    pub properties: Value,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphWalked)]
pub struct WalkedBody {
    /// The start first, then by depth
    pub nodes: Vec<NodeBody>,
    /// Edges between these nodes
    pub edges: Vec<WalkEdgeBody>,
    /// Whether nodes or edges were omitted because of a limit
    pub truncated: bool,
}

fn listed(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// Search the graph
#[utoipa::path(get, path = "/api/projects/{p}/graph/search", tag = "graph",
    params(SearchParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The search results", body = HitsBody), Refused))]
async fn search_objects(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<SearchParams>,
) -> Result<Json<HitsBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    if params.query.chars().count() > QUERY_MAX_CHARS {
        let detail = format!("query must have at most {QUERY_MAX_CHARS} characters");
        return Err(Problem::bad_request("invalid_query", detail));
    }
    let scope = Scope {
        types: listed(params.types),
        labels: listed(params.labels),
        bounds: None,
    };
    let limit = params.limit.map_or(SEARCH_LIMIT, i64::from);
    let (vector, note) = match params.mode {
        Mode::Lexical => (None, None),
        Mode::Semantic | Mode::Hybrid => {
            match embedder::query_vector(&state.embedder, &state.db.pool_sqlx, workspace_id, &params.query).await? {
                Ok(vector) => (Some(vector), None),
                Err(reason) => (None, Some(reason)),
            }
        }
    };
    let db = &state.db.pool_sqlx;
    let found = hybrid_ranking::find(
        db,
        workspace_id,
        &params.query,
        vector.as_ref(),
        params.mode,
        &scope,
        limit,
    )
    .await?;
    let data = found.hits.into_iter().map(|hit| HitBody {
        object: hit.object.into(),
        score: hit.score,
        lexical_score: hit.lexical,
        vector_score: hit.vector,
    });
    Ok(Json(HitsBody {
        data: data.collect(),
        total: found.total,
        note,
    }))
}

/// List the types of objects and relationships in the graph
#[utoipa::path(get, path = "/api/projects/{p}/graph/types", tag = "graph",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "Types with counts", body = TypesBody), Refused))]
async fn types(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<TypesBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let types = schema::types(&state.db.pool_sqlx, workspace_id).await?;
    let relationships = schema::relationship_types(&state.db.pool_sqlx, workspace_id).await?;
    let total = types.iter().map(|of| of.count).sum();
    let types = types.into_iter().map(|of| TypeBody {
        name: of.name,
        count: of.count,
        properties: of.properties,
    });
    let relationships = relationships.into_iter().map(|of| RelationshipTypeBody {
        r#type: of.relationship_type,
        from_type: of.from_type,
        to_type: of.to_type,
        count: of.count,
    });
    Ok(Json(TypesBody {
        types: types.collect(),
        relationships: relationships.collect(),
        total,
    }))
}

/// Traverse the graph from an object, breadth first
#[utoipa::path(post, path = "/api/projects/{p}/graph/traverse", tag = "graph", request_body = WalkRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The visited nodes and edges", body = WalkedBody), Refused, BodyRefused))]
async fn walk(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<WalkRequest>,
) -> Result<Json<WalkedBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let max_depth = request.max_depth.unwrap_or(WALK_DEPTH);
    if !(1..=MAX_DEPTH).contains(&max_depth) {
        let detail = format!("maxDepth must be 1 to {MAX_DEPTH}");
        return Err(Problem::bad_request("invalid_body", detail));
    }
    let walk = Walk {
        max_depth,
        relationship_types: request.relationship_types,
        direction: request.direction,
        ..Walk::default()
    };
    let walked = traverse::traverse(&state.db.pool_sqlx, workspace_id, request.start_entity_id, &walk).await?;
    let nodes = walked.nodes.into_iter().map(|node| NodeBody {
        depth: node.depth,
        object: node.object.into(),
    });
    let edges = walked.edges.into_iter().map(|edge| WalkEdgeBody {
        id: edge.id,
        r#type: edge.relationship_type,
        source_id: edge.source_id,
        target_id: edge.target_id,
        properties: edge.properties,
    });
    Ok(Json(WalkedBody {
        nodes: nodes.collect(),
        edges: edges.collect(),
        truncated: walked.truncated,
    }))
}
