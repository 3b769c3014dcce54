//! `/api/sign-in`: browsers that sign in and out at the identity provider (OpenID Connect: authorization code flow with
//! PKCE, RP-initiated logout, back-channel logout).
//!
//! Invariants: a sign-in begins on a page of this server or in the address bar, and ends in the same browser, on a local
//! path; a browser that is signed in changes its user only if it asked for that (`replace`). Until the provider has vouched
//! for a user, nothing is stored.

use axum::Json;
use axum::extract::State;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use rejoin_event_log::wakeup::Wake;
use rejoin_identity::auth::{Kind, hash_secret};
use rejoin_identity::identities::Identity;
use rejoin_identity::sessions::{self, BegunBy};
use rejoin_identity::sso::{self, SignIn, SignedIn};
use serde::{Deserialize, Serialize};
use tracing::warn;
use url::form_urlencoded;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{new_session, signed_in};
use crate::authorization::{Access, Admits, Public, Routes, routes};
use crate::caller::{Caller, Read};
use crate::cookie;
use crate::extract::Params;
use crate::oidc::code_flow::{CodeFlow, FlowError};
use crate::oidc::flow_cookie::{self, Flow, local_path};
use crate::origin::Origin;
use crate::problem::{Problem, Refused};
use crate::state::HttpState;

/// Where a sign-in begins.
const START: &str = "/api/sign-in/sso";
/// Where the provider sends the browser back.
const CALLBACK: &str = "/api/sign-in/sso/callback";
/// Maximum length of a reason of the provider that is logged, in characters.
const MAX_REASON: usize = 200;

pub fn routes() -> Routes<HttpState> {
    Routes::new()
        .routes(routes!(methods))
        .routes(routes!(start))
        .routes(routes!(callback))
        .routes(routes!(sign_out))
        .routes(routes!(back_channel_logout))
}

/// How browsers can sign in here
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInMethods {
    /// At an identity provider; absent: none is configured
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sso: Option<SsoMethod>,
}

/// A sign-in at the identity provider
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SsoMethod {
    /// The provider's name, for a button
    pub name: String,
    /// The address to navigate to
    pub url: String,
}

/// List the ways to sign in with a browser
///
/// API keys and sign-in codes always work (`POST /api/session`).
#[utoipa::path(get, path = "/api/sign-in", tag = "sign in",
    responses((status = 200, description = "The ways", body = SignInMethods)))]
async fn methods(State(state): State<HttpState>, _: Public) -> Json<SignInMethods> {
    let sso = code_flow(&state).ok().map(|client| SsoMethod {
        name: client.name().to_owned(),
        url: START.to_owned(),
    });
    Json(SignInMethods { sso })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
struct StartParams {
    /// The local path to return to; default: `/`
    return_to: Option<String>,
    /// The project to sign in to; default: the user's oldest, or the invitation's
    #[serde(rename = "projectId")]
    workspace_id: Option<Uuid>,
    /// Sign the browser's user out first, so that it may sign in as another one
    #[serde(default)]
    replace: bool,
    /// Ask the user nothing: fails if the user is not signed in at the provider
    #[serde(default)]
    silent: bool,
}

/// Sign in at the identity provider
///
/// A browser navigates to it. It redirects to the provider, which redirects to `/api/sign-in/sso/callback`. That begins a
/// session and redirects to `returnTo`, or to `/#sign-in-error=CODE` if the sign-in has failed.
#[utoipa::path(get, path = "/api/sign-in/sso", tag = "sign in", params(StartParams),
    responses((status = 303, description = "To the provider", headers(("Location" = String), ("Set-Cookie" = String))),
        (status = 404, description = "No provider is configured", body = crate::problem::ProblemBody, content_type = "application/problem+json")))]
async fn start(
    State(state): State<HttpState>,
    _: Public,
    headers: HeaderMap,
    Origin(origin): Origin,
    Params(asked): Params<StartParams>,
) -> Result<Response, Problem> {
    let client = code_flow(&state)?;
    Ok(match begin(&state, &client, &headers, &origin, asked).await {
        Ok((url, cookies)) => see_other(&url, cookies),
        Err(problem) => failed(&problem, []),
    })
}

/// Returns the provider's address, and the cookies for the way.
async fn begin(
    state: &HttpState,
    client: &CodeFlow<'_>,
    headers: &HeaderMap,
    origin: &str,
    asked: StartParams,
) -> Result<(String, Vec<HeaderValue>), Problem> {
    if !cookie::is_from_here(&Method::GET, headers) {
        let detail = "a sign-in begins on a page of this server; open its address";
        return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
    }
    let return_to = asked.return_to.as_deref().unwrap_or("/");
    let Some(return_to) = local_path(return_to) else {
        let detail = "returnTo must be a path on this server, such as /chat";
        return Err(Problem::bad_request("invalid_query", detail));
    };
    let mut cookies = Vec::new();
    let mut user = None;
    if let Some(before) = signed_in(state, headers).await? {
        if asked.replace {
            sessions::end(&state.db.pool_sqlx, &before).await?;
            state.keys.forget(&before);
            cookies.push(cookie::ended());
        } else {
            user = Some(before.user_id);
        }
    }
    let flow = Flow::begin(return_to.to_owned(), asked.workspace_id, user);
    let redirect_uri = format!("{origin}{CALLBACK}");
    let url = client.authorization_url(&flow, &redirect_uri, asked.silent).await?;
    cookies.push(flow.cookie(is_secure(origin)));
    Ok((url.into(), cookies))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct CallbackParams {
    /// Identifies the sign-in
    state: Option<String>,
    /// The provider's code
    code: Option<String>,
    /// The provider's issuer (RFC 9207)
    iss: Option<String>,
    /// Why the provider has refused
    error: Option<String>,
    /// The same in words
    error_description: Option<String>,
}

/// Return from the identity provider
///
/// The provider sends the browser here. It redeems the code, begins a session, and redirects to a local path.
#[utoipa::path(get, path = "/api/sign-in/sso/callback", tag = "sign in", params(CallbackParams),
    responses((status = 303, description = "To a local path", headers(("Location" = String), ("Set-Cookie" = String))),
        (status = 404, description = "No provider is configured", body = crate::problem::ProblemBody, content_type = "application/problem+json")))]
async fn callback(
    State(state): State<HttpState>,
    _: Public,
    headers: HeaderMap,
    Origin(origin): Origin,
    Params(said): Params<CallbackParams>,
) -> Result<Response, Problem> {
    let client = code_flow(&state)?;
    let secure = is_secure(&origin);
    let of_this_flow = |flow: &Flow| said.state.as_deref() == Some(flow.state().as_str());
    // The response to another request ends nothing.
    let Some(flow) = Flow::shown(&headers, secure).filter(of_this_flow) else {
        return Ok(failed(&FlowError::Unknown.into(), []));
    };
    let forgotten = [Flow::forgotten(secure), flow_cookie::forget_invitation(secure)];
    Ok(match finish(&state, &client, &headers, &origin, &flow, &said).await {
        Ok(signed) => {
            state.keys.forget_workspace(signed.workspace_id);
            let session = cookie::begun_over(secure, &signed.session.secret, signed.session.lasts_s);
            see_other(&flow.return_to, forgotten.into_iter().chain([session]))
        }
        Err(problem) => failed(&problem, forgotten),
    })
}

/// Signs the user in for whom the provider vouches.
async fn finish(
    state: &HttpState,
    client: &CodeFlow<'_>,
    headers: &HeaderMap,
    origin: &str,
    flow: &Flow,
    said: &CallbackParams,
) -> Result<SignedIn, Problem> {
    client.check_issuer(said.iss.as_deref()).await?;
    if let Some(error) = &said.error {
        let shorten = |text: &str| text.chars().take(MAX_REASON).collect::<String>();
        let description = said.error_description.as_deref().map(shorten);
        warn!(
            error = shorten(error),
            description, "the identity provider has refused a sign-in"
        );
        return Err(FlowError::Refused(shorten(error)).into());
    }
    let code = said.code.as_deref().ok_or(FlowError::Unknown)?;
    let redirect_uri = format!("{origin}{CALLBACK}");
    let token = client.redeem(flow, &redirect_uri, code).await?;
    state.rates.count_audited(counted(&token.identity))?;
    // The cookie of a session is not sent here by browsers that keep to `SameSite=Strict`.
    let before = signed_in(state, headers).await?;
    let asked = SignIn {
        workspace: flow.workspace,
        invitation: flow_cookie::invitation(headers, is_secure(origin)),
        expected_user: before.map(|before| before.user_id).or(flow.user),
        session: new_session(state, headers, BegunBy::Sso),
    };
    let oidc = state.oidc.as_ref().ok_or_else(not_configured)?;
    let rules = client.rules(oidc.new_users());
    Ok(sso::sign_in(&state.db.pool_sqlx, &token, rules, asked).await?)
}

/// The identity for rate limits, before it is known whether it has a user.
fn counted(identity: &Identity) -> Uuid {
    let hash = hash_secret(&format!("{} {}", identity.issuer, identity.subject));
    Uuid::from_slice(&hash[..16]).expect("16 bytes")
}

/// What signing out leads to
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedOut {
    /// The provider's page that signs the user out there, too; null: it has none
    pub provider_url: Option<String>,
}

/// Sign out here, and at the identity provider
///
/// Ends the cookie's session, like `DELETE /api/session`. The page then navigates to `providerUrl`, which leads back to `/`.
#[utoipa::path(post, path = "/api/sign-in/sso/sign-out", tag = "sign in",
    responses((status = 200, description = "Signed out here", body = SignedOut, headers(("Set-Cookie" = String))), Refused))]
async fn sign_out(
    State(state): State<HttpState>,
    caller: Caller<Read>,
    Origin(origin): Origin,
) -> Result<([(HeaderName, HeaderValue); 1], Json<SignedOut>), Problem> {
    if caller.shown_in == Kind::Session {
        sessions::end(&state.db.pool_sqlx, &caller).await?;
        state.keys.forget(&caller);
    }
    let provider_url = match code_flow(&state) {
        Ok(client) => client.logout_url(&format!("{origin}/")).await.map(String::from),
        Err(_) => None,
    };
    Ok(([(SET_COOKIE, cookie::ended())], Json(SignedOut { provider_url })))
}

/// The identity provider, whose logout token is in the body.
struct Provider;

impl Admits for Provider {
    const ACCESS: Access = Access::SignedBody;
}

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for Provider {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(_: &mut axum::http::request::Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self)
    }
}

/// End sessions of a user who has signed out at the identity provider
///
/// For the provider (OpenID Connect Back-Channel Logout). The body is a form with `logout_token`, which the provider has signed.
#[utoipa::path(post, path = "/api/sign-in/sso/back-channel-logout", tag = "sign in",
    request_body(content = String, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "The sessions have ended"),
        (status = 400, description = "The token is not valid", body = crate::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "No provider is configured", body = crate::problem::ProblemBody, content_type = "application/problem+json")))]
async fn back_channel_logout(State(state): State<HttpState>, _: Provider, body: Bytes) -> Result<StatusCode, Problem> {
    let client = code_flow(&state)?;
    let token = form_urlencoded::parse(&body)
        .find(|(name, _)| name == "logout_token")
        .map(|(_, token)| token.into_owned());
    let Some(token) = token else {
        let detail = "the body must be a form with `logout_token`";
        return Err(Problem::bad_request("invalid_body", detail));
    };
    // By its specification, an invalid token is a bad request.
    let invalid = |problem: Problem| match problem.status {
        StatusCode::UNAUTHORIZED => Problem::bad_request(problem.code, problem.detail),
        _ => problem,
    };
    let logout = client.logout(&token).await.map_err(|error| invalid(error.into()))?;
    let ended = sso::log_out(&state.db.pool_sqlx, &logout).await;
    for session in ended.map_err(|error| invalid(error.into()))? {
        // Here immediately, elsewhere on the wake-up.
        state.keys.forget_workspace(session.workspace_id);
        state.bus.publish(Wake::keys(session.workspace_id));
    }
    Ok(StatusCode::OK)
}

fn code_flow(state: &HttpState) -> Result<CodeFlow<'_>, Problem> {
    state.oidc.as_deref().and_then(CodeFlow::of).ok_or_else(not_configured)
}

fn not_configured() -> Problem {
    let detail = "no identity provider is configured for browsers (REJOIN_SSO_CLIENT_ID)";
    Problem::new(StatusCode::NOT_FOUND, "sso_not_configured", detail)
}

/// Returns whether browsers load our pages over TLS.
fn is_secure(origin: &str) -> bool {
    origin.starts_with("https://")
}

/// Leads to the page, which explains the problem.
fn failed(problem: &Problem, cookies: impl IntoIterator<Item = HeaderValue>) -> Response {
    see_other(&format!("/#sign-in-error={}", problem.code), cookies)
}

fn see_other(location: &str, cookies: impl IntoIterator<Item = HeaderValue>) -> Response {
    let Ok(location) = HeaderValue::try_from(location) else {
        // Paths and URLs are ASCII.
        return Problem::internal().into_response();
    };
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(LOCATION, location);
    for cookie in cookies {
        headers.append(SET_COOKIE, cookie);
    }
    response
}
