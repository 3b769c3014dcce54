//! `/api/admin/projects/{p}/web`: settings of agents' web access (admin). Workers access the web; here it is switched
//! on and off.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::HttpState;
use rejoin_http::audit::record;
use rejoin_http::authorization::{Routes, routes};
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::probe::Probe;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_integrations::web_settings::{self, KIND_PROBE, WebSettings};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(get, put, delete)).routes(routes!(test))
}

/// What agents of a project may do on the web
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebBody {
    /// Search provider: `tavily`, `brave` or `searxng`. Null: there is no `web_search`
    pub provider: Option<String>,
    /// URL of the provider; null: its default URL. Required for SearXNG
    pub base_url: Option<String>,
    /// Name of the project's secret with the provider's key, set with `rejoin secrets set`
    pub key_secret: Option<String>,
    /// Whether agents have the tool `web_visit`
    #[serde(default)]
    pub visit: bool,
    /// Visit and search only these domains and their subdomains; empty: all
    #[serde(default)]
    #[schema(max_items = 100)]
    pub allowed_domains: Vec<String>,
    /// Neither visit nor search these domains
    #[serde(default)]
    #[schema(max_items = 100)]
    pub blocked_domains: Vec<String>,
}

impl From<WebSettings> for WebBody {
    fn from(settings: WebSettings) -> Self {
        Self {
            provider: settings.provider.map(|provider| provider.as_str().to_owned()),
            base_url: settings.base_url,
            key_secret: settings.key_secret,
            visit: settings.visit,
            allowed_domains: settings.allowed_domains,
            blocked_domains: settings.blocked_domains,
        }
    }
}

impl WebBody {
    fn settings(self) -> Result<WebSettings, Problem> {
        let wrong = |detail: String| Problem::bad_request("invalid_web_settings", detail);
        let provider = self
            .provider
            .map(|name| name.parse().map_err(|error| wrong(format!("provider: {error}"))));
        let settings = WebSettings {
            provider: provider.transpose()?,
            base_url: self.base_url,
            key_secret: self.key_secret,
            visit: self.visit,
            allowed_domains: self.allowed_domains,
            blocked_domains: self.blocked_domains,
        };
        settings.check().map_err(wrong)?;
        Ok(settings)
    }
}

/// Get what agents may do on the web (admin). Nothing by default
#[utoipa::path(get, path = "/api/admin/projects/{p}/web", tag = "web",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "So", body = WebBody), Refused))]
async fn get(
    State(state): State<HttpState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<WebBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let settings = web_settings::get(&mut *db, workspace_id).await?;
    Ok(Json(settings.unwrap_or_default().into()))
}

/// Set what agents may do on the web (admin)
#[utoipa::path(put, path = "/api/admin/projects/{p}/web", tag = "web", request_body = WebBody,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The updated settings", body = WebBody), Refused, BodyRefused))]
async fn put(
    State(state): State<HttpState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<WebBody>,
) -> Result<Json<WebBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let settings = request.settings()?;
    let mut db = caller.begin(&state).await?;
    web_settings::set(&mut *db, workspace_id, &settings).await?;
    let detail = json!({
        "provider": settings.provider,
        "visit": settings.visit,
        "allowedDomains": settings.allowed_domains.len(),
        "blockedDomains": settings.blocked_domains.len(),
    });
    record(
        &mut db,
        &caller,
        Action::WebSet,
        format!("project:{workspace_id}"),
        detail,
    )
    .await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(workspace_id));
    Ok(Json(settings.into()))
}

/// Remove all web access of agents (admin)
#[utoipa::path(delete, path = "/api/admin/projects/{p}/web", tag = "web",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 204, description = "Off"), Refused))]
async fn delete(
    State(state): State<HttpState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    if !web_settings::delete(&mut *db, workspace_id).await? {
        return Err(Problem::not_found(
            "web_settings_not_found",
            "What agents may do on the web",
        ));
    }
    record(
        &mut db,
        &caller,
        Action::WebRemoved,
        format!("project:{workspace_id}"),
        json!({}),
    )
    .await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(workspace_id));
    Ok(StatusCode::NO_CONTENT)
}

/// The result of a test
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebTestBody {
    /// Whether the provider has responded
    pub ok: bool,
    /// The provider
    pub provider: String,
    /// Why the test failed, for an admin
    pub failure: Option<String>,
    /// Number of pages found, of three requested; pages excluded by the lists of domains do not count
    pub found: Option<i32>,
    pub took_ms: i32,
}

/// Test the search provider: a worker runs one harmless search (admin)
///
/// It is a search like those of agents, with the current settings, and counts as one at the provider. `failure` tells
/// why it failed.
#[utoipa::path(post, path = "/api/admin/projects/{p}/web/test", tag = "web",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The test's result: `ok` tells whether the provider responds", body = WebTestBody),
        (status = 409, description = "No search provider is set", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 504, description = "No worker responded in time", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn test(
    State(state): State<HttpState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<WebTestBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let settings = web_settings::get(&mut *db, workspace_id).await?;
    let before = web_settings::last_try(&mut *db, workspace_id).await?;
    drop(db);
    let provider = settings.and_then(|settings| settings.provider).ok_or_else(|| {
        let detail = "no search provider is set; set one with PUT first";
        Problem::new(StatusCode::CONFLICT, "no_search_provider", detail)
    })?;
    let mut probe = Probe::start(&state, &caller, KIND_PROBE, json!({}), workspace_id).await?;
    loop {
        let mut db = caller.begin(&state).await?;
        let newest = web_settings::last_try(&mut *db, workspace_id).await?;
        drop(db);
        if let Some(tried) = newest.filter(|newest| before.as_ref() != Some(newest)) {
            return Ok(Json(WebTestBody {
                ok: tried.failure.is_none(),
                provider: provider.as_str().to_owned(),
                failure: tried.failure,
                found: tried.found,
                took_ms: tried.took_ms,
            }));
        }
        probe.wait(&state).await?;
    }
}
