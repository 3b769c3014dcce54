//! `/api/admin/projects/{p}/webhooks/{id}/deliveries`: what was sent to a webhook, and sending it again (admin).

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{PageParams, Params, Segments, page};
use rejoin_http::problem::{Problem, Refused};
use rejoin_identity::audit::Action;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{Postgres, Transaction};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{Routes, WebhooksState, not_found};
use crate::deliveries::{self, Delivery, State as DeliveryState};
use crate::endpoints::{self, Endpoint};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_deliveries))
        .routes(routes!(replay))
        .routes(routes!(replay_dead))
        .routes(routes!(test))
}

/// One event for one webhook
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDeliveryBody {
    /// Sent as `webhook-id`, the same in every attempt
    pub id: Uuid,
    /// The event, such as `run.ended`
    pub event: String,
    /// `pending`, `delivered` or `dead` (given up)
    pub state: String,
    /// Number of attempts since it was added or replayed
    pub attempts: i32,
    pub last_attempt_at: Option<DateTime<Utc>>,
    /// Time of the next attempt; null: as soon as possible, or it has ended
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// HTTP status of the last response; null: none arrived
    pub last_status: Option<i32>,
    /// Why the last attempt failed
    pub last_error: Option<String>,
    /// The body that is sent
    #[schema(value_type = Object)]
    pub payload: Value,
    pub created_at: DateTime<Utc>,
    /// When it was delivered or given up
    pub ended_at: Option<DateTime<Utc>>,
}

impl From<Delivery> for WebhookDeliveryBody {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id,
            event: delivery.event,
            state: delivery.state,
            attempts: delivery.attempts,
            last_attempt_at: delivery.last_attempt_at,
            next_attempt_at: delivery.next_attempt_at,
            last_status: delivery.last_status,
            last_error: delivery.last_error,
            payload: serde_json::from_str(&delivery.payload).unwrap_or_default(),
            created_at: delivery.created_at,
            ended_at: delivery.ended_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDeliveryPage {
    pub items: Vec<WebhookDeliveryBody>,
    pub next_cursor: Option<String>,
}

/// The result of a replay
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplayedBody {
    /// Number of deliveries that are sent again. 1000: there may be more; repeat the request
    pub replayed: i64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StateParams {
    /// Only deliveries in this state: `pending`, `delivered` or `dead`
    pub state: Option<String>,
}

/// Begins the caller's transaction and finds the webhook.
async fn find(
    state: &WebhooksState,
    caller: &Caller,
    workspace_id: Uuid,
    id: Uuid,
) -> Result<(Transaction<'static, Postgres>, Endpoint), Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(state).await?;
    let found = endpoints::get(&mut *db, workspace_id, id).await?;
    Ok((db, found.ok_or_else(not_found)?))
}

/// Refuses a webhook to which nothing is sent.
fn must_be_enabled(endpoint: &Endpoint) -> Result<(), Problem> {
    if endpoint.content.enabled {
        return Ok(());
    }
    let detail = "the webhook is disabled; enable it first with PATCH {\"enabled\": true}";
    Err(Problem::conflict("webhook_disabled", detail))
}

fn wake(state: &WebhooksState) {
    state.bus.publish(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
}

/// List the deliveries of a webhook, newest first (admin)
#[utoipa::path(get, path = "/api/admin/projects/{p}/webhooks/{id}/deliveries", tag = "webhooks",
    params(PageParams, StateParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The webhook")),
    responses((status = 200, description = "A page", body = WebhookDeliveryPage), Refused))]
async fn list_deliveries(
    State(state): State<WebhooksState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Params(params): Params<PageParams>,
    Params(filter): Params<StateParams>,
) -> Result<Json<WebhookDeliveryPage>, Problem> {
    let limit = params.limit(&state)?;
    let before: Option<i64> = params.after()?;
    let wanted = filter.state.map(|text| text.parse::<DeliveryState>());
    let wanted = wanted
        .transpose()
        .map_err(|error| Problem::bad_request("invalid_query", format!("state: {error}")))?;
    let (mut db, _) = find(&state, &caller, workspace_id, id).await?;
    let rows = deliveries::page(&mut *db, workspace_id, id, wanted, before, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| row.number, WebhookDeliveryBody::from);
    Ok(Json(WebhookDeliveryPage { items, next_cursor }))
}

/// Send a delivery again (admin)
///
/// It is sent under the same `webhook-id`, after the pending deliveries of its conversation.
#[utoipa::path(post, path = "/api/admin/projects/{p}/webhooks/{id}/deliveries/{delivery}/replay", tag = "webhooks",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The webhook"),
        ("delivery" = Uuid, Path, description = "The delivery")),
    responses((status = 202, description = "It is pending again", body = WebhookDeliveryBody),
        (status = 409, description = "It is pending, or the webhook is disabled", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn replay(
    State(state): State<WebhooksState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id, delivery_id)): Segments<(Uuid, Uuid, Uuid)>,
) -> Result<(StatusCode, Json<WebhookDeliveryBody>), Problem> {
    let (mut db, endpoint) = find(&state, &caller, workspace_id, id).await?;
    must_be_enabled(&endpoint)?;
    let is_replayed = deliveries::replay(&mut db, workspace_id, id, delivery_id).await?;
    let found = deliveries::get(&mut *db, workspace_id, id, delivery_id).await?;
    let delivery = found.ok_or_else(|| Problem::not_found("webhook_delivery_not_found", "The delivery"))?;
    if !is_replayed {
        let detail = "the delivery is pending; it will be sent anyway";
        return Err(Problem::conflict("webhook_delivery_pending", detail));
    }
    let detail = json!({ "deliveryId": delivery_id });
    record(
        &mut db,
        &caller,
        Action::WebhookReplayed,
        format!("webhook:{id}"),
        detail,
    )
    .await?;
    db.commit().await?;
    wake(&state);
    Ok((StatusCode::ACCEPTED, Json(delivery.into())))
}

/// Send all dead deliveries of a webhook again (admin)
///
/// In their order, at most 1000 per request.
#[utoipa::path(post, path = "/api/admin/projects/{p}/webhooks/{id}/replay-dead", tag = "webhooks",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The webhook")),
    responses((status = 202, description = "They are pending again", body = ReplayedBody),
        (status = 409, description = "The webhook is disabled", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn replay_dead(
    State(state): State<WebhooksState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<(StatusCode, Json<ReplayedBody>), Problem> {
    let (mut db, endpoint) = find(&state, &caller, workspace_id, id).await?;
    must_be_enabled(&endpoint)?;
    let replayed = deliveries::replay_dead(&mut db, workspace_id, id).await?;
    let detail = json!({ "deliveries": replayed });
    record(
        &mut db,
        &caller,
        Action::WebhookReplayed,
        format!("webhook:{id}"),
        detail,
    )
    .await?;
    db.commit().await?;
    wake(&state);
    Ok((StatusCode::ACCEPTED, Json(ReplayedBody { replayed })))
}

/// Send a test event to a webhook (admin)
///
/// The event `webhook.test`, whatever events the webhook asks for. Its delivery is listed with the others.
#[utoipa::path(post, path = "/api/admin/projects/{p}/webhooks/{id}/test", tag = "webhooks",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The webhook")),
    responses((status = 202, description = "Its delivery", body = WebhookDeliveryBody),
        (status = 409, description = "The webhook is disabled", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn test(
    State(state): State<WebhooksState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<(StatusCode, Json<WebhookDeliveryBody>), Problem> {
    let (mut db, endpoint) = find(&state, &caller, workspace_id, id).await?;
    must_be_enabled(&endpoint)?;
    let delivery_id = deliveries::add_test(&mut db, workspace_id, id).await?;
    let found = deliveries::get(&mut *db, workspace_id, id, delivery_id).await?;
    let delivery = found.ok_or_else(Problem::internal)?;
    db.commit().await?;
    wake(&state);
    Ok((StatusCode::ACCEPTED, Json(delivery.into())))
}
