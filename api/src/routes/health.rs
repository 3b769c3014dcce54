//! Health checks. `GET /livez`: the process responds. `GET /readyz`: it is ready for requests.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_http::authorization::{Public, routes};
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::state::{AppState, Routes};

/// Tables that the migrations must have created.
const NEEDED_TABLES: [&str; 8] = [
    "queue.jobs",
    "stream.events",
    "kb.api_keys",
    "kb.chat_conversations",
    "kb.agent_runs",
    "kb.agent_run_tool_calls",
    "kb.graph_objects",
    "kb.graph_relationships",
];
/// Timeout of the database.
const QUERY_LIMIT: Duration = Duration::from_secs(2);

pub fn routes() -> Routes {
    Routes::new().routes(routes!(live)).routes(routes!(ready))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok` or `unavailable`
    pub status: &'static str,
    /// Why it is not ready
    pub reasons: Vec<String>,
    /// The cells, if it serves several databases. One that is down makes only its own projects unavailable
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<CellHealth>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CellHealth {
    pub name: String,
    /// `ok` or `unavailable`
    pub status: &'static str,
}

impl Health {
    fn of(reasons: Vec<String>) -> (StatusCode, Json<Health>) {
        let (code, status) = if reasons.is_empty() {
            (StatusCode::OK, "ok")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
        };
        let cells = Vec::new();
        (code, Json(Health { status, reasons, cells }))
    }
}

/// Check whether the process responds
#[utoipa::path(get, path = "/livez", tag = "operation",
    responses((status = 200, description = "The process responds", body = Health)))]
async fn live(_: Public) -> (StatusCode, Json<Health>) {
    liveness()
}

/// Returns the response to a check of liveness: there is one, so the process lives.
pub fn liveness() -> (StatusCode, Json<Health>) {
    Health::of(vec![])
}

/// Check whether the process is ready for requests
#[utoipa::path(get, path = "/readyz", tag = "operation",
    responses((status = 200, description = "Yes", body = Health), (status = 503, description = "Not ready, with the \
        reasons", body = Health)))]
async fn ready(State(state): State<AppState>, _: Public) -> (StatusCode, Json<Health>) {
    readiness(&state).await
}

/// Returns whether the process is ready for requests, or why not.
pub async fn readiness(state: &AppState) -> (StatusCode, Json<Health>) {
    let (code, Json(mut health)) = readiness_of(state).await;
    if let Some(cells) = &state.cells {
        let seen = cells.cells().into_iter();
        health.cells = seen
            .map(|(name, cell)| CellHealth {
                name,
                status: if cell.problem.is_none() { "ok" } else { "unavailable" },
            })
            .collect();
    }
    (code, Json(health))
}

async fn readiness_of(state: &AppState) -> (StatusCode, Json<Health>) {
    let mut reasons = Vec::new();
    if state.draining.is_cancelled() {
        reasons.push("draining: the server is shutting down".to_owned());
    }
    if let Some(refusal) = state.db.refusal() {
        reasons.push(format!("database: {refusal}"));
        return Health::of(reasons);
    }
    let missing =
        sqlx::query_scalar::<_, String>("select name from unnest($1::text[]) name where to_regclass(name) is null")
            .bind(&NEEDED_TABLES[..])
            .fetch_all(&state.db.pool_sqlx);
    match timeout(QUERY_LIMIT, missing).await {
        Ok(Ok(missing)) if missing.is_empty() => {}
        Ok(Ok(missing)) => reasons.push(format!("schema: migrations are missing ({})", missing.join(", "))),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready: querying the database failed");
            reasons.push("database: it does not respond".to_owned());
        }
        Err(_) => reasons.push(format!("database: no response within {} s", QUERY_LIMIT.as_secs())),
    }
    Health::of(reasons)
}
