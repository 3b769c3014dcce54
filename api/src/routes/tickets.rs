//! `POST /api/stream-tickets`: a one-time ticket for one stream, for a browser's EventSource, which can't send headers;
//! and the authentication of streams, with or without a ticket.

use std::convert::Infallible;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use chrono::{DateTime, Utc};
use rejoin_db::rls;
use rejoin_http::authorization::{Access, Admits, routes};
use rejoin_http::caller::{Caller, Read, Scoped};
use rejoin_http::extract::Body;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::visible;
use rejoin_identity::auth;
use rejoin_sse::dialects::Dialect;
use rejoin_sse::start::{self, StreamParams, StreamSource};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(create))
}

/// Exactly one of the two.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TicketRequest {
    pub conversation_id: Option<Uuid>,
    pub run_id: Option<Uuid>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    /// For `?ticket=`
    pub ticket: String,
    pub expires_at: DateTime<Utc>,
}

/// Create a ticket for a stream
#[utoipa::path(post, path = "/api/stream-tickets", tag = "streams", request_body = TicketRequest,
    responses((status = 201, description = "Made", body = Ticket), Refused, BodyRefused))]
async fn create(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Body(request): Body<TicketRequest>,
) -> Result<(StatusCode, Json<Ticket>), Problem> {
    let target = match (request.conversation_id, request.run_id) {
        (Some(id), None) => visible::conversation(&state, &caller, id).await?.id,
        (None, Some(id)) => visible::run(&state, &caller, id).await?.id,
        (Some(_), Some(_)) | (None, None) => {
            return Err(Problem::bad_request(
                "invalid_body",
                "conversationId or runId is required",
            ));
        }
    };
    let mut db = rls::begin(&state.identity.pool_sqlx, rls::Scope::Directory(caller.owner())).await?;
    let (ticket, expires_at) = auth::create_ticket(&mut db, &caller, target).await?;
    db.commit().await?;
    Ok((StatusCode::CREATED, Json(Ticket { ticket, expires_at })))
}

/// The caller of a stream: the holder of a ticket, or an authenticated caller.
pub struct Follower(Parts);

impl Admits for Follower {
    const ACCESS: Access = Access::ScopeOrTicket(Read::SCOPE);
}

impl FromRequestParts<AppState> for Follower {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Infallible> {
        Ok(Self(parts.clone()))
    }
}

impl Follower {
    /// Streams the wanted events, for the id `target`.
    pub async fn follow(
        mut self,
        state: &AppState,
        target: Uuid,
        source: StreamSource,
        params: &StreamParams,
    ) -> Result<Response, Problem> {
        let caller = match &params.ticket {
            Some(ticket) => redeem(state, ticket, target).await?,
            None => Caller::<Read>::from_request_parts(&mut self.0, state).await?.plain(),
        };
        let start = params.start(&self.0.headers)?;
        let permit = start::admit(&state.streams, &caller)?;
        start::open(
            &state.streams,
            permit,
            caller.owner(),
            source,
            start,
            params,
            Dialect::Native,
        )
        .await
    }
}

/// Redeems a ticket: returns the caller for whom it was created.
async fn redeem(state: &AppState, ticket: &str, target: Uuid) -> Result<Caller, Problem> {
    let caller = auth::redeem_ticket(&state.identity.pool_pg, ticket, target).await?;
    let refused = || {
        Problem::unauthorized(
            "ticket_invalid",
            "the ticket is unknown, used, expired or for another stream",
        )
    };
    Ok(caller.ok_or_else(refused)?.into())
}
