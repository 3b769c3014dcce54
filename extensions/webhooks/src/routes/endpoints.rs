//! `/api/admin/projects/{p}/webhooks`: the endpoints of a project, and the rotation of their secrets (admin). A secret is shown once, in the
//! response that creates it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::{HeaderName, header::LOCATION};
use chrono::{DateTime, Utc};
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_integrations::webhook_secrets;
use rejoin_secrets::{MasterKeys, SecretError};
use rejoin_types::ids;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;
use url::Url;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Routes, WebhooksState, not_found};
use crate::endpoints::{self, Content, DESCRIPTION_MAX_CHARS, Endpoint, EventKind, MAX_ENDPOINTS, URL_MAX_BYTES};
use crate::signature;

/// Default time for which the previous secret also signs, in seconds: a day.
const OVERLAP_S: u32 = 86_400;
/// Maximum of the same: a week.
const OVERLAP_MAX_S: u32 = 7 * 86_400;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get, change, delete))
        .routes(routes!(rotate_secret))
}

/// A webhook
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookBody {
    pub id: Uuid,
    /// URL of the receiver
    pub url: String,
    pub description: String,
    /// Events that are sent: `run.ended`, `question.asked`, `dag.ended`, `budget.reached`
    pub events: Vec<String>,
    pub enabled: bool,
    /// Why it is disabled: `admin`, or `gone` if the receiver has responded 410
    pub disabled_reason: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

impl From<Endpoint> for WebhookBody {
    fn from(endpoint: Endpoint) -> Self {
        let content = endpoint.content;
        Self {
            id: endpoint.id,
            url: content.url,
            description: content.description,
            events: content.events.iter().map(ToString::to_string).collect(),
            enabled: content.enabled,
            disabled_reason: endpoint.disabled_reason.map(|reason| reason.to_string()),
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        }
    }
}

/// All webhooks of a project
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhooks {
    pub items: Vec<WebhookBody>,
}

/// A webhook with its new secret
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookWithSecret {
    pub webhook: WebhookBody,
    /// The secret that signs deliveries, `whsec_` and base64. Shown only here
    pub secret: String,
}

/// A new webhook
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewWebhookBody {
    /// URL of the receiver, `https://…`
    #[schema(max_length = 2000)]
    pub url: String,
    #[serde(default)]
    #[schema(max_length = 500)]
    pub description: String,
    /// Events to be sent: `run.ended`, `question.asked`, `dag.ended`, `budget.reached`; at least one
    #[schema(min_items = 1)]
    pub events: Vec<String>,
}

/// Changes of a webhook; absent: unchanged
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookPatch {
    /// URL of the receiver, `https://…`
    #[schema(max_length = 2000)]
    pub url: Option<String>,
    #[schema(max_length = 500)]
    pub description: Option<String>,
    /// Events to be sent
    #[schema(min_items = 1)]
    pub events: Option<Vec<String>>,
    /// False: no events are sent, and pending deliveries become dead
    pub enabled: Option<bool>,
}

/// How a secret is replaced
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateSecretBody {
    /// Time for which deliveries are also signed with the previous secret, in seconds; 0: the previous secret is invalid at once. Default:
    /// a day
    #[schema(maximum = 604800)]
    pub overlap_s: Option<u32>,
}

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::bad_request("invalid_webhook", detail)
}

fn checked_url(state: &WebhooksState, text: &str) -> Result<String, Problem> {
    if text.len() > URL_MAX_BYTES {
        return Err(invalid(format!("url can have at most {URL_MAX_BYTES} bytes")));
    }
    let url = Url::parse(text).map_err(|error| invalid(format!("url is not a URL: {error}")))?;
    state
        .webhooks
        .check(&url)
        .map_err(|why| invalid(format!("url: {why}")))?;
    Ok(url.into())
}

fn checked_description(text: String) -> Result<String, Problem> {
    if text.chars().count() > DESCRIPTION_MAX_CHARS || text.contains('\0') {
        let detail = format!("description can have at most {DESCRIPTION_MAX_CHARS} characters, and no NUL");
        return Err(invalid(detail));
    }
    Ok(text)
}

fn checked_events(texts: &[String]) -> Result<Vec<EventKind>, Problem> {
    let mut events = Vec::new();
    for text in texts {
        let event = text.parse().map_err(|error| invalid(format!("events: {error}")))?;
        if !events.contains(&event) {
            events.push(event);
        }
    }
    if events.is_empty() {
        return Err(invalid(format!(
            "events must name at least one of: {}",
            EventKind::TEXTS.join(", ")
        )));
    }
    Ok(events)
}

fn keys(state: &WebhooksState) -> Result<&MasterKeys, Problem> {
    state
        .webhooks
        .keys()
        .map_err(|why| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no_master_key", why))
}

/// Stores a new secret and returns its text.
async fn new_secret(
    db: &mut PgConnection,
    keys: &MasterKeys,
    workspace_id: Uuid,
    id: Uuid,
    overlap_s: u32,
) -> Result<String, Problem> {
    let failed = |error: SecretError| match error {
        SecretError::Database(error) => error.into(),
        error => {
            tracing::error!(%error, "making the secret of a webhook failed");
            Problem::internal()
        }
    };
    let secret = signature::new_secret().map_err(failed)?;
    webhook_secrets::replace(db, keys, workspace_id, id, &secret, f64::from(overlap_s))
        .await
        .map_err(failed)?;
    Ok(secret.expose_text().unwrap_or_default().to_owned())
}

/// Returns what the audit log shows: the receiver's host, no path, which may contain a token.
fn audit_detail(content: &Content) -> serde_json::Value {
    let url = Url::parse(&content.url).ok();
    json!({
        "host": url.as_ref().and_then(Url::host_str),
        "events": content.events,
        "enabled": content.enabled,
    })
}

/// List the project's webhooks (admin)
#[utoipa::path(get, path = "/api/admin/projects/{p}/webhooks", tag = "webhooks",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "All webhooks, the oldest first", body = Webhooks), Refused))]
async fn list(
    State(state): State<WebhooksState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<Webhooks>, Problem> {
    caller.in_workspace(workspace_id)?;
    let listed = endpoints::list(&mut *caller.begin(&state).await?, workspace_id).await?;
    let items = listed.into_iter().map(WebhookBody::from).collect();
    Ok(Json(Webhooks { items }))
}

/// Create a webhook (admin)
///
/// Events of the project are sent to its URL from now on, signed with the secret that the response contains.
#[utoipa::path(post, path = "/api/admin/projects/{p}/webhooks", tag = "webhooks", request_body = NewWebhookBody,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Created, with its secret", body = WebhookWithSecret,
            headers(("Location" = String, description = "URL of the webhook"))),
        (status = 409, description = "There are too many", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn create(
    State(state): State<WebhooksState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<NewWebhookBody>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<WebhookWithSecret>), Problem> {
    caller.in_workspace(workspace_id)?;
    let content = Content {
        url: checked_url(&state, &request.url)?,
        description: checked_description(request.description)?,
        events: checked_events(&request.events)?,
        enabled: true,
    };
    let keys = keys(&state)?;
    let mut db = caller.begin(&state).await?;
    if endpoints::count(&mut *db, workspace_id).await? >= MAX_ENDPOINTS {
        let detail = format!("a project can have at most {MAX_ENDPOINTS} webhooks; delete one first");
        return Err(Problem::conflict("too_many_webhooks", detail));
    }
    let id = ids::new();
    let endpoint = endpoints::create(&mut db, workspace_id, id, &content).await?;
    let secret = new_secret(&mut db, keys, workspace_id, id, 0).await?;
    let target = format!("webhook:{id}");
    record(&mut db, &caller, Action::WebhookCreated, target, audit_detail(&content)).await?;
    db.commit().await?;
    let location = format!("/api/admin/projects/{workspace_id}/webhooks/{id}");
    let webhook = endpoint.into();
    Ok((
        StatusCode::CREATED,
        [(LOCATION, location)],
        Json(WebhookWithSecret { webhook, secret }),
    ))
}

/// Get a webhook (admin)
#[utoipa::path(get, path = "/api/admin/projects/{p}/webhooks/{id}", tag = "webhooks",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The webhook")),
    responses((status = 200, description = "It", body = WebhookBody), Refused))]
async fn get(
    State(state): State<WebhooksState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<WebhookBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let found = endpoints::get(&mut *caller.begin(&state).await?, workspace_id, id).await?;
    Ok(Json(found.ok_or_else(not_found)?.into()))
}

/// Update a webhook (admin)
///
/// Pending deliveries go to the new URL. A webhook that was disabled, by an admin or because its receiver responded 410, is enabled with
/// `enabled`.
#[utoipa::path(patch, path = "/api/admin/projects/{p}/webhooks/{id}", tag = "webhooks", request_body = WebhookPatch,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The webhook")),
    responses((status = 200, description = "The updated webhook", body = WebhookBody), Refused, BodyRefused))]
async fn change(
    State(state): State<WebhooksState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(patch): Body<WebhookPatch>,
) -> Result<Json<WebhookBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let found = endpoints::get(&mut *db, workspace_id, id).await?;
    let before = found.ok_or_else(not_found)?.content;
    let content = Content {
        url: patch.url.map_or(Ok(before.url), |url| checked_url(&state, &url))?,
        description: patch.description.map_or(Ok(before.description), checked_description)?,
        events: patch
            .events
            .map_or(Ok(before.events), |events| checked_events(&events))?,
        enabled: patch.enabled.unwrap_or(before.enabled),
    };
    let changed = endpoints::update(&mut db, workspace_id, id, &content).await?;
    let changed = changed.ok_or_else(not_found)?;
    let target = format!("webhook:{id}");
    record(&mut db, &caller, Action::WebhookChanged, target, audit_detail(&content)).await?;
    db.commit().await?;
    Ok(Json(changed.into()))
}

/// Delete a webhook with its deliveries (admin)
#[utoipa::path(delete, path = "/api/admin/projects/{p}/webhooks/{id}", tag = "webhooks",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The webhook")),
    responses((status = 204, description = "Deleted"), Refused))]
async fn delete(
    State(state): State<WebhooksState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    if !endpoints::delete(&mut db, workspace_id, id).await? {
        return Err(not_found());
    }
    let target = format!("webhook:{id}");
    record(&mut db, &caller, Action::WebhookDeleted, target, json!({})).await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Replace the secret of a webhook (admin)
///
/// For `overlapS` seconds, deliveries have two signatures, so that the receiver can change its secret meanwhile.
#[utoipa::path(post, path = "/api/admin/projects/{p}/webhooks/{id}/rotate-secret", tag = "webhooks", request_body = RotateSecretBody,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The webhook")),
    responses((status = 200, description = "The webhook and its new secret", body = WebhookWithSecret), Refused, BodyRefused))]
async fn rotate_secret(
    State(state): State<WebhooksState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<RotateSecretBody>,
) -> Result<Json<WebhookWithSecret>, Problem> {
    caller.in_workspace(workspace_id)?;
    let overlap_s = request.overlap_s.unwrap_or(OVERLAP_S);
    if overlap_s > OVERLAP_MAX_S {
        return Err(invalid(format!("overlapS can be at most {OVERLAP_MAX_S}")));
    }
    let keys = keys(&state)?;
    let mut db = caller.begin(&state).await?;
    let found = endpoints::get(&mut *db, workspace_id, id).await?;
    let webhook = found.ok_or_else(not_found)?.into();
    let secret = new_secret(&mut db, keys, workspace_id, id, overlap_s).await?;
    let (target, detail) = (format!("webhook:{id}"), json!({ "overlapS": overlap_s }));
    record(&mut db, &caller, Action::WebhookSecretRotated, target, detail).await?;
    db.commit().await?;
    Ok(Json(WebhookWithSecret { webhook, secret }))
}
