//! Invitations: `/api/admin/projects/{p}/invitations`, which owners make and revoke, and `/api/invitations`, with which users
//! join a project.
//!
//! Invariant: a token is sent in the body of a request of a page of this server, never in an address; an API key or a program's
//! token does not accept an invitation.

use axum::Json;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use rejoin_db::rls;
use rejoin_identity::audit::Action;
use rejoin_identity::invitations::{self, Invitation, Joined, NewInvitation};
use rejoin_identity::sessions::{self, BegunBy};
use rejoin_identity::workspaces::Role;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{Postgres, Transaction};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{SignsIn, new_session};
use crate::audit::record;
use crate::authorization::{Routes, routes};
use crate::caller::{Admin, Caller};
use crate::cookie;
use crate::extract::{self, Body, PageParams, Params, Segments, page};
use crate::oidc::code_flow::CodeFlow;
use crate::oidc::flow_cookie;
use crate::origin::Origin;
use crate::problem::{BodyRefused, Problem, Refused};
use crate::state::HttpState;

const DAY_S: i64 = 24 * 60 * 60;
/// Default lifetime of an invitation, in days.
const DEFAULT_DAYS: u32 = 7;
/// The address at which a browser signs in at the identity provider.
const SSO_URL: &str = "/api/sign-in/sso";

pub fn routes() -> Routes<HttpState> {
    Routes::new()
        .routes(routes!(list, make))
        .routes(routes!(revoke))
        .routes(routes!(preview))
        .routes(routes!(accept))
}

/// An invitation, without its token
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvitationItem {
    pub id: Uuid,
    /// The role of those who join: `owner`, `member`, `viewer` or `operator`
    pub role: String,
    /// How many users may join with it
    pub max_uses: i32,
    /// How many have joined
    pub uses: i32,
    /// For whom it is
    pub note: Option<String>,
    /// The owner who made it; null: the user was deleted
    pub made_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    /// Time at which it expires
    pub expires_at: DateTime<Utc>,
    pub revoked_at: Option<DateTime<Utc>>,
    /// It can still be accepted: it is neither used up, expired nor revoked, and the user who made it is an owner
    pub is_valid: bool,
}

impl From<Invitation> for InvitationItem {
    fn from(invitation: Invitation) -> Self {
        Self {
            id: invitation.id,
            role: invitation.role,
            max_uses: invitation.max_uses,
            uses: invitation.uses,
            note: invitation.note,
            made_by: invitation.made_by,
            created_at: invitation.created_at,
            expires_at: invitation.expires_at,
            revoked_at: invitation.revoked_at,
            is_valid: invitation.is_valid,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvitationPage {
    pub items: Vec<InvitationItem>,
    pub next_cursor: Option<String>,
}

/// A new invitation
#[derive(Debug, Serialize, ToSchema)]
pub struct MadeInvitation {
    #[serde(flatten)]
    pub item: InvitationItem,
    /// The token. It is shown only this once
    pub token: String,
    /// The page that asks whether to accept; for those who are invited
    pub url: String,
}

/// The role of those who join
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InvitedRole {
    Owner,
    Member,
    Viewer,
    Operator,
}

impl From<InvitedRole> for Role {
    fn from(role: InvitedRole) -> Self {
        match role {
            InvitedRole::Owner => Role::Owner,
            InvitedRole::Member => Role::Member,
            InvitedRole::Viewer => Role::Viewer,
            InvitedRole::Operator => Role::Operator,
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvitationRequest {
    pub role: InvitedRole,
    /// How many users may join with it; default: 1
    #[schema(minimum = 1, maximum = 1000)]
    pub max_uses: Option<i32>,
    /// Number of days after which it expires, at most `REJOIN_INVITATION_MAX_DAYS`; default: 7
    #[schema(minimum = 1, maximum = 365)]
    pub expires_in_days: Option<u32>,
    /// For whom it is, for the list
    #[schema(min_length = 1, max_length = 200)]
    pub note: Option<String>,
}

/// Begins a transaction that may change invitations of the caller's project.
async fn begin(state: &HttpState, caller: &Caller) -> Result<Transaction<'static, Postgres>, Problem> {
    Ok(rls::begin(&state.db.pool_sqlx, rls::Scope::UserLogin(caller.owner())).await?)
}

fn target(id: Uuid) -> String {
    format!("invitation:{id}")
}

/// List the project's invitations, newest first
///
/// The tokens are not included. Invitations that are not valid are listed for 30 days after they have expired.
#[utoipa::path(get, path = "/api/admin/projects/{p}/invitations", tag = "invitations",
    params(PageParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = InvitationPage), Refused))]
async fn list(
    State(state): State<HttpState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<InvitationPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit(&state)?;
    let after: Option<Uuid> = params.after()?;
    let mut db = begin(&state, &caller).await?;
    let rows = invitations::page(&mut db, workspace_id, after, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| row.id, InvitationItem::from);
    Ok(Json(InvitationPage { items, next_cursor }))
}

/// Invite users to the project
///
/// For owners. Users who open the URL and accept become members with the role. The token is shown only in this response.
#[utoipa::path(post, path = "/api/admin/projects/{p}/invitations", tag = "invitations", request_body = InvitationRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Made", body = MadeInvitation),
        (status = 409, description = "The project has too many invitations", body = crate::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn make(
    State(state): State<HttpState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Origin(origin): Origin,
    Body(request): Body<InvitationRequest>,
) -> Result<(StatusCode, Json<MadeInvitation>), Problem> {
    caller.owns(workspace_id)?;
    let max_days = state.args.invitation_max_days;
    let days = request.expires_in_days.unwrap_or(DEFAULT_DAYS.min(max_days));
    if !(1..=max_days).contains(&days) {
        let detail = format!("expiresInDays must be 1 to {max_days}");
        return Err(Problem::bad_request("invalid_invitation", detail));
    }
    let new = NewInvitation {
        role: request.role.into(),
        max_uses: request.max_uses.unwrap_or(1),
        lifetime_s: i64::from(days) * DAY_S,
        note: request.note.as_deref(),
        max_valid: i64::from(state.args.max_invitations),
    };
    let mut db = begin(&state, &caller).await?;
    let (made, token) = invitations::make(&mut db, &caller, &new).await?;
    let detail = json!({"role": made.role, "maxUses": made.max_uses, "expiresInS": new.lifetime_s});
    record(&mut db, &caller, Action::InvitationCreated, target(made.id), detail).await?;
    db.commit().await?;
    let made = MadeInvitation {
        item: made.into(),
        url: format!("{origin}/#invitation={token}"),
        token,
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Revoke an invitation
///
/// For owners. Users who have joined with it stay members. Idempotent.
#[utoipa::path(delete, path = "/api/admin/projects/{p}/invitations/{invitation}", tag = "invitations",
    params(("p" = Uuid, Path, description = "The project"), ("invitation" = Uuid, Path, description = "The invitation's id")),
    responses((status = 204, description = "Revoked"), Refused))]
async fn revoke(
    State(state): State<HttpState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.owns(workspace_id)?;
    let mut db = begin(&state, &caller).await?;
    if invitations::revoke(&mut db, workspace_id, id).await? {
        record(&mut db, &caller, Action::InvitationRevoked, target(id), json!({})).await?;
    }
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvitationToken {
    /// The token of the invitation
    pub invitation: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptRequest {
    /// The token of the invitation
    pub invitation: Option<String>,
    /// The handle of the new user, if no user is signed in and no identity provider is configured
    #[schema(min_length = 1, max_length = 255)]
    pub handle: Option<String>,
}

/// What an invitation offers
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvitationOffer {
    pub project_id: Uuid,
    /// The project's name
    pub project: String,
    /// The role of those who join
    pub role: String,
    /// The handle of the owner who made it
    pub invited_by: String,
    pub expires_at: DateTime<Utc>,
    /// Who joins: `signed_in` (the user of the session), `sso` (a user of the identity provider) or `handle` (a new user, who
    /// chooses a handle)
    pub joins_as: String,
}

/// A user who has joined
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinedProject {
    pub user_id: Uuid,
    pub project_id: Uuid,
    /// The user's role in the project
    pub role: String,
    /// When the session expires
    pub expires_at: DateTime<Utc>,
    /// The API key with which a new user signs in later. It is shown only this once; null: the user has another way to sign in
    pub key: Option<String>,
}

/// Who follows an invitation.
enum Guest {
    SignedIn(Caller),
    AtProvider,
    New,
}

impl Guest {
    /// Refuses programs, and requests from pages of other sites.
    fn of(state: &HttpState, headers: &HeaderMap, found: Result<Caller, Problem>) -> Result<Self, Problem> {
        if headers.contains_key(AUTHORIZATION) {
            let detail = "an invitation is accepted in a browser, without the header Authorization";
            return Err(Problem::new(StatusCode::FORBIDDEN, "session_needed", detail));
        }
        if !cookie::is_from_here(&Method::POST, headers) {
            let detail = "an invitation can be accepted only on pages of this server; open its link";
            return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
        }
        match found {
            Ok(caller) => Ok(Self::SignedIn(caller)),
            // A session that has ended is none.
            Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
                let at_provider = state.oidc.as_deref().and_then(CodeFlow::of).is_some();
                Ok(if at_provider { Self::AtProvider } else { Self::New })
            }
            Err(problem) => Err(problem),
        }
    }
}

/// Returns the caller, and the token of the body; without a token, why there is no caller.
fn asked(found: Result<Caller, Problem>, token: Option<String>) -> Result<(Result<Caller, Problem>, String), Problem> {
    match token {
        Some(token) => Ok((found, token)),
        None => {
            found?;
            Err(Problem::bad_request(
                "invalid_body",
                "the field `invitation` is missing",
            ))
        }
    }
}

fn body<T: Default + serde::de::DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    if body.is_empty() {
        return Ok(T::default());
    }
    extract::json(headers, body)
}

/// Show what an invitation offers
///
/// Needs no credential but the invitation, in the body of a request of a page of this server.
#[utoipa::path(post, path = "/api/invitations/preview", tag = "invitations", request_body = InvitationToken,
    responses((status = 200, description = "The offer", body = InvitationOffer), Refused, BodyRefused))]
async fn preview(
    State(state): State<HttpState>,
    SignsIn(found): SignsIn,
    headers: HeaderMap,
    sent: Bytes,
) -> Result<Json<InvitationOffer>, Problem> {
    let request: InvitationToken = body(&headers, &sent)?;
    let (found, token) = asked(found.map(|caller| caller.plain()), request.invitation)?;
    let guest = Guest::of(&state, &headers, found)?;
    let offer = invitations::look_up(&state.db.pool_sqlx, &token).await?;
    let joins_as = match guest {
        Guest::SignedIn(_) => "signed_in",
        Guest::AtProvider => "sso",
        Guest::New => "handle",
    };
    Ok(Json(InvitationOffer {
        project_id: offer.workspace_id,
        project: offer.workspace,
        role: offer.role,
        invited_by: offer.invited_by,
        expires_at: offer.expires_at,
        joins_as: joins_as.to_owned(),
    }))
}

/// Accept an invitation
///
/// The user of the browser's session joins the project, and gets a session in it instead. Without a session: if an identity
/// provider is configured, the response is 401 `sign_in_needed`, and the invitation is accepted when the browser has signed in at
/// `signInUrl` within ten minutes; otherwise a user with the handle is created, with an API key for later.
#[utoipa::path(post, path = "/api/invitations/accept", tag = "invitations", request_body = AcceptRequest,
    responses((status = 201, description = "Joined", body = JoinedProject, headers(("Set-Cookie" = String))),
        (status = 409, description = "The handle is taken", body = crate::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn accept(
    State(state): State<HttpState>,
    SignsIn(found): SignsIn,
    headers: HeaderMap,
    Origin(origin): Origin,
    sent: Bytes,
) -> Result<Response, Problem> {
    let request: AcceptRequest = body(&headers, &sent)?;
    let (found, token) = asked(found.map(|caller| caller.plain()), request.invitation)?;
    let session = new_session(&state, &headers, BegunBy::Invitation);
    let db = &state.db.pool_sqlx;
    let joined = match Guest::of(&state, &headers, found)? {
        Guest::SignedIn(caller) => {
            caller.counts_audited()?;
            let joined = invitations::accept(db, &caller, &token, session).await?;
            // The browser keeps the new session.
            sessions::end(db, &caller).await?;
            state.keys.forget(&caller);
            joined
        }
        Guest::AtProvider => {
            invitations::look_up(db, &token).await?;
            return Ok(at_provider(&token, &origin));
        }
        Guest::New => {
            let Some(handle) = &request.handle else {
                let detail = "choose a handle for the new user, and send it as `handle`";
                return Err(Problem::bad_request("invalid_handle", detail));
            };
            invitations::accept_as_new_user(db, handle, &token, session).await?
        }
    };
    Ok(welcome(&headers, joined))
}

/// The browser keeps the invitation, and signs in first.
fn at_provider(token: &str, origin: &str) -> Response {
    let detail = "sign in at the identity provider to accept the invitation";
    let problem = Problem::unauthorized("sign_in_needed", detail).with("signInUrl", json!(SSO_URL));
    let mut response = problem.into_response();
    if let Some(kept) = flow_cookie::keep_invitation(token, origin.starts_with("https://")) {
        response.headers_mut().insert(SET_COOKIE, kept);
    }
    response
}

fn welcome(headers: &HeaderMap, joined: Joined) -> Response {
    let cookie = cookie::begun(headers, &joined.session.secret, joined.session.lasts_s);
    let body = JoinedProject {
        user_id: joined.user_id,
        project_id: joined.workspace_id,
        role: joined.role.as_str().to_owned(),
        expires_at: joined.session.expires_at,
        key: joined.key,
    };
    (StatusCode::CREATED, [(SET_COOKIE, cookie)], Json(body)).into_response()
}
