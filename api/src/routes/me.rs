//! `GET /api/me`: the rights of a key or token, for programs that know nothing else.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::problem::{Problem, Refused};
use rejoin_identity::{auth, sign_in};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(me))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Me {
    pub user_id: Uuid,
    /// The user's handle in this installation
    pub handle: String,
    /// The project in which this caller's requests act
    #[serde(rename = "projectId")]
    pub workspace_id: Uuid,
    /// The API key, or the browser session; absent for a token
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<Uuid>,
    /// When the token expires; absent for other credentials
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_expires_at: Option<DateTime<Utc>>,
    /// `owner`, `member`, `viewer`, `operator` or `service`
    pub role: String,
    /// `read`, `write`, `admin`, `worker`: scopes that both the credential and the role allow
    pub scopes: Vec<String>,
    /// Whether users may choose a model for a message. `GET /api/models` says which
    pub may_choose_models: bool,
}

impl Me {
    pub(super) async fn of(state: &AppState, caller: &auth::Caller) -> Result<Self, Problem> {
        let (handle, _) = sign_in::handles(&state.db.pool_sqlx, caller.user_id, caller.user_id).await?;
        Ok(Self {
            user_id: caller.user_id,
            handle,
            workspace_id: caller.workspace_id,
            key_id: caller.credential.key_id(),
            token_expires_at: caller.credential.expiry().map(|expiry| expiry.at),
            role: caller.role.as_str().to_owned(),
            scopes: caller.scopes.clone(),
            may_choose_models: state.settings.user_models.iter().any(|pattern| !pattern.is_empty()),
        })
    }
}

/// Get the caller and its project
#[utoipa::path(get, path = "/api/me", tag = "callers", responses((status = 200, description = "The caller", body = Me), Refused))]
async fn me(State(state): State<AppState>, caller: Caller<Read>) -> Result<Json<Me>, Problem> {
    Ok(Json(Me::of(&state, &caller).await?))
}
