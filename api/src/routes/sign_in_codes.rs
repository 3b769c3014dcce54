//! `POST /api/sign-in-codes`: a one-time code with which a browser signs in, so that no link has to contain the API
//! key.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::origin::Origin;
use rejoin_http::problem::{Problem, Refused};
use rejoin_identity::auth::Kind;
use rejoin_identity::sign_in;
use serde::Serialize;
use utoipa::ToSchema;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(create))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInCode {
    /// For `POST /api/session`. It is shown only this once
    pub code: String,
    /// URL of the page that signs a browser in with the code
    pub url: String,
    /// When the code expires: ten minutes from now
    pub expires_at: DateTime<Utc>,
}

/// Create a code that signs a browser in, once, as the user of the API key
#[utoipa::path(post, path = "/api/sign-in-codes", tag = "callers",
    responses((status = 201, description = "Made", body = SignInCode), Refused))]
async fn create(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Origin(origin): Origin,
) -> Result<(StatusCode, Json<SignInCode>), Problem> {
    let key_id = caller.credential.key_id().filter(|_| caller.shown_in == Kind::Key);
    let Some(key_id) = key_id else {
        let detail = "a sign-in code can be created only with an API key, not with a session or a token";
        return Err(Problem::new(StatusCode::FORBIDDEN, "key_needed", detail));
    };
    let made = sign_in::create(&state.db.pool_sqlx, &caller, key_id).await?;
    let body = SignInCode {
        url: format!("{origin}/#code={}", made.code),
        code: made.code,
        expires_at: made.expires_at,
    };
    Ok((StatusCode::CREATED, Json(body)))
}
