//! The port for operators, if one is configured: `/metrics`, `/livez` and `/readyz`, on an address that the proxy does not publish. `/metrics` is then
//! served here only. It also responds while the process drains. Called by `Server`.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::metrics_text;
use crate::routes::health;
use crate::state::AppState;

/// Serves until the returned guard is dropped.
pub fn start(listener: TcpListener, state: AppState) -> DropGuard {
    let ended = CancellationToken::new();
    let router = Router::new()
        .route("/metrics", get(show))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .with_state(state);
    let serving = axum::serve(listener, router).with_graceful_shutdown(ended.clone().cancelled_owned());
    tokio::spawn(async move {
        // It is optional: the API continues without it.
        let _ = serving.await;
    });
    ended.drop_guard()
}

async fn show(State(state): State<AppState>) -> Response {
    metrics_text::response(&state).await
}

async fn live() -> impl IntoResponse {
    health::liveness()
}

async fn ready(State(state): State<AppState>) -> impl IntoResponse {
    health::readiness(&state).await
}
