//! Links that share a conversation: their owner makes, lists and revokes them. Readers use `shared`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Limit, PageParams, Params, Segments, page};
use rejoin_http::origin::Origin;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::visible;
use rejoin_identity::audit::Action;
use rejoin_identity::auth::{hash_secret, random_secret};
use rejoin_runs::shares::{self, NewShare, Share};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::state::{ChatState, Routes};

/// Default lifetime of a link, in hours, if the server allows as much.
const DEFAULT_HOURS: u32 = 30 * 24;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(create_share))
        .routes(routes!(list_shares))
        .routes(routes!(revoke_share))
}

/// What a link shows, and for how long
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewShare)]
pub struct ShareRequest {
    /// Whether messages that come later are shown, too. Default: only those until now
    #[serde(default)]
    pub live: bool,
    /// Whether files of the messages can be downloaded. Default: not
    #[serde(default)]
    pub files: bool,
    /// Lifetime of the link, in hours. Default: 30 days, or the maximum of the server if that is less
    #[schema(minimum = 1)]
    pub expires_in_hours: Option<u32>,
}

/// A link that shares a conversation
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Share)]
pub struct ShareBody {
    pub id: Uuid,
    pub conversation_id: Uuid,
    pub live: bool,
    /// Sequence number of the last message that is shown; null if `live`
    pub through_seq: Option<i64>,
    pub files: bool,
    pub created_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it was last opened, to the minute
    pub last_opened_at: Option<DateTime<Utc>>,
    /// Whether it can be opened
    pub valid: bool,
}

impl From<Share> for ShareBody {
    fn from(share: Share) -> Self {
        Self {
            id: share.id,
            conversation_id: share.conversation_id,
            live: share.through_seq.is_none(),
            through_seq: share.through_seq,
            files: share.includes_files,
            created_at: share.created_at,
            expires_at: share.expires_at,
            revoked_at: share.revoked_at,
            last_opened_at: share.last_opened_at,
            valid: share.is_valid,
        }
    }
}

/// A new link
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedShare {
    #[serde(flatten)]
    pub share: ShareBody,
    /// The secret: anyone who has it can read the conversation. It is shown only this once
    pub token: String,
    /// Page of the web app that shows the conversation, with the token
    pub url: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharePage {
    pub items: Vec<ShareBody>,
    pub next_cursor: Option<String>,
}

/// Filter and page of links
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ShareParams {
    /// Only links to this conversation
    pub conversation_id: Option<Uuid>,
    /// Maximum number of items in the page
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the previous page
    pub cursor: Option<String>,
}

fn lifetime_hours(asked: Option<u32>, max_days: u32) -> Result<u32, Problem> {
    let max = max_days.saturating_mul(24);
    match asked {
        None => Ok(DEFAULT_HOURS.min(max)),
        Some(hours) if (1..=max).contains(&hours) => Ok(hours),
        Some(_) => {
            let detail = format!("expiresInHours must be between 1 and {max}, the maximum of this server");
            Err(Problem::bad_request("invalid_lifetime", detail))
        }
    }
}

/// Share a conversation by a link that anyone can read, without signing in
#[utoipa::path(post, path = "/api/conversations/{id}/shares", tag = "sharing", request_body = ShareRequest,
    params(("id" = Uuid, Path, description = "The conversation")),
    responses((status = 201, description = "The link", body = CreatedShare),
        (status = 409, description = "The conversation has too many links", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused, BodyRefused))]
async fn create_share(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Origin(origin): Origin,
    Segments(id): Segments<Uuid>,
    Body(request): Body<ShareRequest>,
) -> Result<(StatusCode, Json<CreatedShare>), Problem> {
    let hours = lifetime_hours(request.expires_in_hours, state.settings.share_max_days)?;
    let max = state.settings.max_shares;
    let mut db = caller.begin(&state).await?;
    if shares::count_valid(&mut db, caller.owner(), id).await? >= i64::from(max) {
        let detail = format!("the conversation has {max} links, the maximum; revoke one first");
        return Err(Problem::conflict("too_many_shares", detail));
    }
    let token = random_secret();
    let token_hash = hash_secret(&token);
    let new = NewShare {
        conversation_id: id,
        token_hash: &token_hash,
        is_live: request.live,
        includes_files: request.files,
        lifetime_s: f64::from(hours) * 3_600.0,
    };
    let made = shares::create(&mut db, caller.owner(), &new).await?;
    let share = made.ok_or_else(visible::conversation_not_found)?;
    let (target, detail) = (
        format!("conversation_share:{}", share.id),
        json!({ "conversation": id, "live": request.live, "files": request.files, "hours": hours }),
    );
    record(&mut db, &caller, Action::ShareCreated, target, detail).await?;
    db.commit().await?;
    let url = format!("{origin}/shared/{token}");
    let share = share.into();
    Ok((StatusCode::CREATED, Json(CreatedShare { share, token, url })))
}

/// List the caller's links to conversations, newest first
#[utoipa::path(get, path = "/api/shares", tag = "sharing", params(ShareParams),
    responses((status = 200, description = "A page", body = SharePage), Refused))]
async fn list_shares(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Params(params): Params<ShareParams>,
) -> Result<Json<SharePage>, Problem> {
    let paging = PageParams {
        limit: params.limit,
        cursor: params.cursor,
    };
    let limit = paging.limit(&state)?;
    let mut db = caller.begin(&state).await?;
    let rows = shares::list(
        &mut *db,
        caller.owner(),
        params.conversation_id,
        paging.after()?,
        limit + 1,
    )
    .await?;
    let (items, next_cursor) = page(rows, limit, |row| row.id, ShareBody::from);
    Ok(Json(SharePage { items, next_cursor }))
}

/// Revoke a link: it stops working at once, and for ever
#[utoipa::path(delete, path = "/api/shares/{id}", tag = "sharing",
    params(("id" = Uuid, Path, description = "The link")),
    responses((status = 204, description = "Revoked"), Refused))]
async fn revoke_share(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    let revoked = shares::revoke(&mut db, caller.owner(), id).await?;
    let (conversation, was_open) = revoked.ok_or_else(|| Problem::not_found("share_not_found", "The link"))?;
    if was_open {
        let (target, detail) = (
            format!("conversation_share:{id}"),
            json!({ "conversation": conversation }),
        );
        record(&mut db, &caller, Action::ShareRevoked, target, detail).await?;
        db.commit().await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_lives_no_longer_than_the_server_allows() {
        assert_eq!(lifetime_hours(None, 365).unwrap(), 720);
        assert_eq!(lifetime_hours(None, 1).unwrap(), 24);
        assert_eq!(lifetime_hours(Some(24), 1).unwrap(), 24);
        for hours in [0, 25] {
            assert_eq!(lifetime_hours(Some(hours), 1).unwrap_err().code, "invalid_lifetime");
        }
    }
}
