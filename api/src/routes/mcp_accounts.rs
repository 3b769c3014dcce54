//! `/api/mcp-accounts`: the caller's accounts at MCP servers that act for each user by itself. The user agrees at the
//! server's authorization server, and returns to the page, which sends the code here with the user's own session. Only
//! workers call servers.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::{Public, routes};
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::origin::Origin;
use rejoin_http::probe::Probe;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_integrations::mcp;
use rejoin_integrations::mcp::accounts::{self, Place};
use rejoin_integrations::mcp::consents::{self, Addresses, CODE_MAX_BYTES, KIND_EXCHANGE, KIND_PLAN, Progress};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

/// The page to which authorization servers redirect users.
const PAGE: &str = "/mcp/connect";
/// The client metadata document.
const CLIENT: &str = "/api/mcp-client";

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(connect, disconnect))
        .routes(routes!(come_back))
        .routes(routes!(client))
}

/// An MCP server with accounts of users, and the caller's account there
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpAccount {
    pub server_id: Uuid,
    pub server_name: String,
    pub connected: bool,
    /// The authorization server that has issued the tokens
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// OAuth scopes that were granted
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// OAuth scopes that a tool has required since; connecting again asks for them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_scopes: Vec<String>,
    /// When the user has agreed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorized_at: Option<DateTime<Utc>>,
}

impl From<Place> for McpAccount {
    fn from(place: Place) -> Self {
        let mut account = Self {
            server_id: place.server_id,
            server_name: place.server_name,
            connected: place.connected.is_some(),
            issuer: None,
            scopes: Vec::new(),
            missing_scopes: Vec::new(),
            authorized_at: None,
        };
        if let Some(connected) = place.connected {
            account.issuer = Some(connected.issuer);
            account.scopes = connected.scopes;
            account.missing_scopes = connected.missing_scopes;
            account.authorized_at = Some(connected.authorized_at);
        }
        account
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct McpAccounts {
    pub items: Vec<McpAccount>,
}

/// Where to send the browser
#[derive(Debug, Serialize, ToSchema)]
pub struct McpConsentBody {
    /// The page of the authorization server, which redirects to `/mcp/connect` of the web app with `state`, and `code` or `error`
    pub url: String,
}

/// Parameters of an authorization server's redirect
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct McpConsentAnswer {
    #[schema(max_length = 200)]
    pub state: String,
    #[schema(max_length = 4000)]
    pub code: Option<String>,
    /// The authorization server, if the redirect names it (RFC 9207)
    #[schema(max_length = 2000)]
    pub iss: Option<String>,
    /// Why there is no code, such as `access_denied`
    #[schema(max_length = 200)]
    pub error: Option<String>,
}

/// What this installation is, as an OAuth client
#[derive(Debug, Serialize, ToSchema)]
pub struct McpClientDocument {
    /// The URL of this document
    pub client_id: String,
    pub client_name: String,
    pub client_uri: String,
    pub redirect_uris: Vec<String>,
    pub grant_types: Vec<String>,
    pub response_types: Vec<String>,
    pub token_endpoint_auth_method: String,
}

fn not_found() -> Problem {
    Problem::not_found("mcp_server_not_found", "The MCP server with accounts of users")
}

async fn place(state: &AppState, caller: &Caller, id: Uuid) -> Result<Place, Problem> {
    let mut db = caller.begin(state).await?;
    let places = accounts::places(&mut *db, caller.owner(), Some(id)).await?;
    places.into_iter().next().ok_or_else(not_found)
}

/// List the MCP servers at which users connect an account, with the caller's accounts
#[utoipa::path(get, path = "/api/mcp-accounts", tag = "mcp accounts",
    responses((status = 200, description = "All such servers, by name", body = McpAccounts), Refused))]
async fn list(State(state): State<AppState>, caller: Caller<Read>) -> Result<Json<McpAccounts>, Problem> {
    let mut db = caller.begin(&state).await?;
    let places = accounts::places(&mut *db, caller.owner(), None).await?;
    let items = places.into_iter().map(McpAccount::from).collect();
    Ok(Json(McpAccounts { items }))
}

/// Start connecting an account: returns the URL at which the user agrees
///
/// A connected account is replaced when the user has agreed.
#[utoipa::path(post, path = "/api/mcp-accounts/{server}", tag = "mcp accounts",
    params(("server" = Uuid, Path, description = "The MCP server")),
    responses((status = 201, description = "Begun", body = McpConsentBody),
        (status = 502, description = "The server, or its authorization server, does not allow it", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 504, description = "No worker has responded yet", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn connect(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Origin(origin): Origin,
    Segments(id): Segments<Uuid>,
) -> Result<(StatusCode, Json<McpConsentBody>), Problem> {
    let addresses = Addresses {
        redirect_url: match &state.config.mcp_redirect_url {
            Some(url) => url.to_string(),
            None => format!("{origin}{PAGE}"),
        },
        client_url: format!("{origin}{CLIENT}"),
    };
    let mut db = caller.begin(&state).await?;
    let server = mcp::get(&mut *db, caller.workspace_id, id).await?;
    let server = server.filter(|server| server.settings.enabled && server.settings.is_per_user());
    let server = server.ok_or_else(not_found)?;
    let begun = consents::begin(&mut db, caller.owner(), id, server.revision, &addresses).await?;
    db.commit().await?;
    let mut probe = Probe::start(&state, &caller, KIND_PLAN, consents::payload(begun.id), begun.id).await?;
    loop {
        let mut db = caller.begin(&state).await?;
        match consents::progress(&mut *db, caller.owner(), begun.id, false).await? {
            Progress::Waiting => drop(db),
            Progress::Planned(plan) => {
                let url = begun.url(&plan).ok_or_else(Problem::internal)?;
                return Ok((StatusCode::CREATED, Json(McpConsentBody { url: url.to_string() })));
            }
            Progress::Failed(failure) => {
                consents::end(&mut *db, caller.owner(), begun.id).await?;
                db.commit().await?;
                return Err(failed(failure));
            }
            Progress::Over => return Err(replaced()),
        }
        probe.wait(&state).await?;
    }
}

fn failed(failure: String) -> Problem {
    Problem::new(StatusCode::BAD_GATEWAY, "mcp_account_failed", failure)
}

fn replaced() -> Problem {
    Problem::conflict(
        "consent_replaced",
        "connecting this account was started again meanwhile; finish it there",
    )
}

/// Submit an authorization server's answer: a worker exchanges the code, and runs that wait for the account go on
#[utoipa::path(post, path = "/api/mcp-consents", tag = "mcp accounts", request_body = McpConsentAnswer,
    responses((status = 200, description = "The account is connected", body = McpAccount),
        (status = 502, description = "The authorization server failed, or rejected the code", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 504, description = "No worker has responded yet", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn come_back(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Body(answer): Body<McpConsentAnswer>,
) -> Result<Json<McpAccount>, Problem> {
    let unknown = || {
        let detail = "this authorization is unknown, expired or already used; start again";
        Problem::bad_request("consent_unknown", detail)
    };
    let owner = caller.owner();
    let mut db = caller.begin(&state).await?;
    let returned = consents::returned(&mut *db, owner, &answer.state).await?;
    let returned = returned.ok_or_else(unknown)?;
    // RFC 9207: the answer must come from the server to which the user was sent.
    let issuer = &returned.plan.issuer;
    let is_from_issuer = match &answer.iss {
        Some(iss) => iss == issuer,
        None => !returned.plan.needs_issuer,
    };
    if !is_from_issuer {
        consents::end(&mut *db, owner, returned.id).await?;
        db.commit().await?;
        let detail =
            format!("the answer is not from the authorization server {issuer}, so its code is not used; start again");
        return Err(Problem::bad_request("consent_of_another_server", detail));
    }
    let Some(code) = answer.code.as_deref().filter(|code| !code.is_empty()) else {
        consents::end(&mut *db, owner, returned.id).await?;
        db.commit().await?;
        return Err(match answer.error.as_deref() {
            None | Some("access_denied") => {
                Problem::bad_request("consent_refused", "access was not granted, so no account was connected")
            }
            Some(error) => {
                let error: String = error.chars().filter(|c| !c.is_control()).take(200).collect();
                failed(format!(
                    "the authorization server {issuer} responded with the error {error}"
                ))
            }
        });
    };
    if code.len() > CODE_MAX_BYTES || code.contains('\0') {
        let detail = format!("a code can have at most {CODE_MAX_BYTES} bytes");
        return Err(Problem::bad_request("invalid_code", detail));
    }
    if !consents::redeem(&mut *db, owner, returned.id, code).await? {
        return Err(unknown());
    }
    let target = format!("mcp_server:{}", returned.server_id);
    record(&mut db, &caller, Action::McpAccountAuthorized, target, json!({})).await?;
    db.commit().await?;
    let payload = consents::payload(returned.id);
    let mut probe = Probe::start(&state, &caller, KIND_EXCHANGE, payload, returned.id).await?;
    loop {
        let mut db = caller.begin(&state).await?;
        match consents::progress(&mut *db, owner, returned.id, true).await? {
            Progress::Waiting | Progress::Planned(_) => drop(db),
            Progress::Failed(failure) => {
                consents::end(&mut *db, owner, returned.id).await?;
                db.commit().await?;
                return Err(failed(failure));
            }
            Progress::Over => {
                drop(db);
                let place = place(&state, &caller, returned.server_id).await?;
                // Another consent may have taken its place.
                return if place.connected.is_some() {
                    Ok(Json(place.into()))
                } else {
                    Err(replaced())
                };
            }
        }
        probe.wait(&state).await?;
    }
}

/// Disconnect the caller's account at an MCP server
///
/// Its tokens are no longer used, and a worker revokes them at the authorization server.
#[utoipa::path(delete, path = "/api/mcp-accounts/{server}", tag = "mcp accounts",
    params(("server" = Uuid, Path, description = "The MCP server")),
    responses((status = 204, description = "Disconnected"), Refused))]
async fn disconnect(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    if !accounts::disconnect(&mut *db, caller.owner(), id).await? {
        return Err(Problem::not_found(
            "mcp_account_not_found",
            "Your account at the MCP server",
        ));
    }
    let target = format!("mcp_server:{id}");
    record(&mut db, &caller, Action::McpAccountDisconnected, target, json!({})).await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(caller.workspace_id));
    Ok(StatusCode::NO_CONTENT)
}

/// Get the client metadata document, by which authorization servers know this installation
#[utoipa::path(get, path = "/api/mcp-client", tag = "mcp accounts",
    responses((status = 200, description = "The document", body = McpClientDocument)))]
async fn client(State(state): State<AppState>, _: Public, Origin(origin): Origin) -> Json<McpClientDocument> {
    let redirect_url = state.config.mcp_redirect_url.as_ref().map(ToString::to_string);
    Json(McpClientDocument {
        client_id: format!("{origin}{CLIENT}"),
        client_name: "Rejoin".to_owned(),
        client_uri: origin.clone(),
        redirect_uris: vec![redirect_url.unwrap_or_else(|| format!("{origin}{PAGE}"))],
        grant_types: ["authorization_code", "refresh_token"].map(str::to_owned).to_vec(),
        response_types: vec!["code".to_owned()],
        token_endpoint_auth_method: "none".to_owned(),
    })
}
