//! The document tree of a project, and moves within it. (A document's earlier versions: `…/history`, as for all
//! entities.)

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use rejoin_http::HttpState;
use rejoin_http::authorization::{Routes, routes};
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{EntityBody, change};
use crate::documents::{self, Move, Node};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(tree)).routes(routes!(move_to))
}

/// A document with its children.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DocumentNode)]
pub struct NodeBody {
    pub id: Uuid,
    pub title: String,
    pub state_key: String,
    #[schema(no_recursion)]
    pub children: Vec<NodeBody>,
}

impl From<Node> for NodeBody {
    fn from(node: Node) -> Self {
        Self {
            id: node.document.object.id,
            title: node.document.object.name.clone(),
            state_key: node.document.state().to_owned(),
            children: node.children.into_iter().map(NodeBody::from).collect(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DocumentTree)]
pub struct TreeBody {
    /// Top-level documents
    pub documents: Vec<NodeBody>,
}

/// Target of a move
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveRequest {
    /// The new parent; null: top level
    #[serde(alias = "parent_id")]
    pub parent_id: Option<Uuid>,
    /// Position among its siblings, from 0; null: last
    pub position: Option<u32>,
}

/// Get a project's document tree
#[utoipa::path(get, path = "/api/onto/projects/{id}/documents", tag = "onto documents",
    params(("id" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "In order", body = TreeBody), Refused))]
async fn tree(
    State(state): State<HttpState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<TreeBody>, Problem> {
    let mut db = caller.begin(&state).await?;
    let nodes = documents::tree(&mut db, caller.workspace_id, id).await?;
    Ok(Json(TreeBody {
        documents: nodes.into_iter().map(NodeBody::from).collect(),
    }))
}

/// Move a document in its project's document tree
#[utoipa::path(post, path = "/api/onto/documents/{id}/move", tag = "onto documents", request_body = MoveRequest,
    params(("id" = Uuid, Path, description = "The document"),
        ("X-Change-Source" = Option<String>, Header, description = "Origin of the change: one word")),
    responses((status = 200, description = "The document", body = EntityBody), Refused, BodyRefused))]
async fn move_to(
    State(state): State<HttpState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    headers: HeaderMap,
    Body(request): Body<MoveRequest>,
) -> Result<Json<EntityBody>, Problem> {
    let change = change(&caller, &headers)?;
    let to = Move {
        document: id,
        parent: request.parent_id,
        position: request.position.map(i64::from),
    };
    let mut tx = caller.begin(&state).await?;
    let moved = documents::move_to(&mut tx, caller.workspace_id, to, &change).await?;
    tx.commit().await?;
    Ok(Json(moved.into()))
}
