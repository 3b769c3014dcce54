//! Versions of a conversation's messages: forks of its runs, each with a conversation of the same messages before it.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::Segments;
use rejoin_http::problem::{Problem, Refused};
use rejoin_http::visible;
use rejoin_runs::branches::{self, Version};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{ChatState, Routes};

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(list_branches))
}

/// A version of a message
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageVersion {
    pub message_id: Uuid,
    /// The conversation that continues with this version
    pub conversation_id: Uuid,
    /// The first 200 characters of the message
    pub preview: String,
    pub created_at: DateTime<Utc>,
    /// Whether it is the one in the requested conversation
    pub is_current: bool,
}

/// A message that has several versions
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchPoint {
    /// The message in the requested conversation
    pub message_id: Uuid,
    pub seq: i64,
    /// Its versions, oldest first
    pub versions: Vec<MessageVersion>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Branches {
    /// In the order of the messages
    pub items: Vec<BranchPoint>,
}

fn points(versions: Vec<Version>) -> Vec<BranchPoint> {
    let mut points: Vec<BranchPoint> = Vec::new();
    for version in versions {
        let body = MessageVersion {
            message_id: version.message_id,
            conversation_id: version.conversation_id,
            preview: version.preview,
            created_at: version.created_at,
            is_current: version.is_current,
        };
        match points.last_mut() {
            Some(point) if point.message_id == version.at_message_id => point.versions.push(body),
            Some(_) | None => points.push(BranchPoint {
                message_id: version.at_message_id,
                seq: version.at_seq,
                versions: vec![body],
            }),
        }
    }
    points
}

/// List the messages of a conversation that have several versions
///
/// `POST /api/runs/{id}/fork` of the run that answers a message makes another version of the message, in a conversation that begins with
/// copies of the messages before it.
#[utoipa::path(get, path = "/api/conversations/{id}/branches", tag = "conversations",
    params(("id" = Uuid, Path, description = "The conversation")),
    responses((status = 200, description = "The messages, with their versions", body = Branches), Refused))]
async fn list_branches(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<Branches>, Problem> {
    visible::conversation(&state, &caller, id).await?;
    let mut db = caller.begin(&state).await?;
    let versions = branches::versions(&mut *db, id).await?;
    Ok(Json(Branches {
        items: points(versions),
    }))
}
