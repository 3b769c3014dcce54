//! Links between two entities of a project: link and unlink.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use rejoin_http::HttpState;
use rejoin_http::authorization::{Routes, routes};
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::Body;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{LinkBody, change};
use crate::links::{self, NewLink};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(link)).routes(routes!(unlink))
}

/// A link to create, read from source to target.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewWorkLink)]
pub struct LinkRequest {
    /// `supports_goal`, `in_plan`, `depends_on`, `document_of`, `targets_milestone`, `mitigates`, `fulfils`, `produces` or `references`
    #[serde(alias = "rel")]
    pub r#type: String,
    #[serde(alias = "source_id", alias = "srcId", alias = "src_id")]
    pub source_id: Uuid,
    #[serde(alias = "target_id", alias = "dstId", alias = "dst_id")]
    pub target_id: Uuid,
}

impl From<LinkRequest> for NewLink {
    fn from(request: LinkRequest) -> Self {
        Self {
            link_type: request.r#type,
            source: request.source_id,
            target: request.target_id,
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnlinkRequest {
    /// The link's id
    #[serde(alias = "edge_id")]
    pub edge_id: Uuid,
}

/// Link two entities of one project. An existing link is returned unchanged
#[utoipa::path(post, path = "/api/onto/edges/link", tag = "onto edges", request_body = LinkRequest,
    params(("X-Change-Source" = Option<String>, Header, description = "Origin of the change: one word")),
    responses((status = 200, description = "The link", body = LinkBody), Refused, BodyRefused))]
async fn link(
    State(state): State<HttpState>,
    caller: Caller<Write>,
    headers: HeaderMap,
    Body(request): Body<LinkRequest>,
) -> Result<Json<LinkBody>, Problem> {
    let change = change(&caller, &headers)?;
    let mut tx = caller.begin(&state).await?;
    let made = links::link(&mut tx, caller.workspace_id, &request.into(), &change).await?;
    tx.commit().await?;
    Ok(Json(made.into()))
}

/// Delete a link
#[utoipa::path(post, path = "/api/onto/edges/unlink", tag = "onto edges", request_body = UnlinkRequest,
    params(("X-Change-Source" = Option<String>, Header, description = "Origin of the change: one word")),
    responses((status = 204, description = "Gone"), Refused, BodyRefused))]
async fn unlink(
    State(state): State<HttpState>,
    caller: Caller<Write>,
    headers: HeaderMap,
    Body(request): Body<UnlinkRequest>,
) -> Result<StatusCode, Problem> {
    let change = change(&caller, &headers)?;
    let mut tx = caller.begin(&state).await?;
    links::unlink(&mut tx, caller.workspace_id, request.edge_id, &change).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
