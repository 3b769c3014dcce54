//! Changes or deletes many conversations at once, with a result for each.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use rejoin_commands::DeleteConversation;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::Body;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Actor;
use rejoin_runs::conversation_lists::{self, Arrangement, InFolder, ReadMark};
use rejoin_runs::folders;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::folders::folder_not_found;
use crate::state::{ChatState, Routes};

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(change_many))
}

/// What to do with conversations
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum BulkAction {
    Pin,
    Unpin,
    Archive,
    Unarchive,
    /// Into the folder `folderId`, or out of any
    Move,
    MarkRead,
    MarkUnread,
    Delete,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkRequest {
    pub action: BulkAction,
    /// The conversations, at most 100
    pub ids: Vec<Uuid>,
    /// With `move`: the folder; null or absent: none
    pub folder_id: Option<Uuid>,
}

/// What became of a conversation
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkOutcome {
    Done,
    NotFound,
    /// Unchanged: the limit of audited changes per minute was reached. Wait and repeat the request for the rest
    TooMany,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkResult {
    pub id: Uuid,
    pub status: BulkOutcome,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkResults {
    /// In the order of the request
    pub results: Vec<BulkResult>,
}

fn arrangement(request: &BulkRequest) -> Option<Arrangement> {
    let mut change = Arrangement::default();
    match request.action {
        BulkAction::Pin => change.pinned = Some(true),
        BulkAction::Unpin => change.pinned = Some(false),
        BulkAction::Archive => change.archived = Some(true),
        BulkAction::Unarchive => change.archived = Some(false),
        BulkAction::Move => change.folder = Some(request.folder_id.map_or(InFolder::None, InFolder::Folder)),
        BulkAction::MarkRead => change.read = Some(ReadMark::End),
        BulkAction::MarkUnread => change.read = Some(ReadMark::BeforeNewestAnswer),
        BulkAction::Delete => return None,
    }
    Some(change)
}

/// Change or delete several conversations, with a result for each
#[utoipa::path(post, path = "/api/bulk/conversations", tag = "conversations", request_body = BulkRequest,
    responses((status = 200, description = "A result for each conversation", body = BulkResults), Refused, BodyRefused))]
async fn change_many(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Body(request): Body<BulkRequest>,
) -> Result<Json<BulkResults>, Problem> {
    let max = state.settings.max_bulk_conversations;
    if request.ids.is_empty() || request.ids.len() > usize::try_from(max).unwrap_or(usize::MAX) {
        let detail = format!("ids must name 1 to {max} conversations; send more of them in further requests");
        return Err(Problem::bad_request("invalid_ids", detail));
    }
    let results = match arrangement(&request) {
        Some(change) => arrange(&state, &caller, &request.ids, &change).await?,
        None => delete(&state, &caller, &request.ids).await?,
    };
    Ok(Json(BulkResults { results }))
}

/// All of them in one transaction.
async fn arrange(
    state: &ChatState,
    caller: &Caller,
    ids: &[Uuid],
    change: &Arrangement,
) -> Result<Vec<BulkResult>, Problem> {
    let mut db = caller.begin(state).await?;
    if let Some(InFolder::Folder(folder)) = change.folder
        && !folders::lock(&mut db, caller.owner(), folder).await?
    {
        return Err(folder_not_found());
    }
    let done = conversation_lists::arrange(&mut db, caller.owner(), ids, change).await?;
    db.commit().await?;
    let done: HashSet<Uuid> = done.into_iter().collect();
    let result = |id: &Uuid| BulkResult {
        id: *id,
        status: if done.contains(id) {
            BulkOutcome::Done
        } else {
            BulkOutcome::NotFound
        },
    };
    Ok(ids.iter().map(result).collect())
}

/// Each in a separate transaction, with its entry in the audit log.
async fn delete(state: &ChatState, caller: &Caller, ids: &[Uuid]) -> Result<Vec<BulkResult>, Problem> {
    let mut results = Vec::with_capacity(ids.len());
    for id in ids {
        let status = if caller.counts_audited().is_err() {
            BulkOutcome::TooMany
        } else {
            let command = DeleteConversation {
                owner: caller.owner(),
                by: Actor::caller(caller),
                id: *id,
            };
            if rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await? {
                state.bus.publish(Wake::log(*id));
                BulkOutcome::Done
            } else {
                BulkOutcome::NotFound
            }
        };
        results.push(BulkResult { id: *id, status });
    }
    Ok(results)
}
