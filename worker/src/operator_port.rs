//! The port for operators: `/metrics` for Prometheus, `/livez` and `/readyz` for supervisors. Served if it is configured, until the worker has
//! drained.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rejoin_db::transactions;
use rejoin_event_log::wakeup::Hearing;
use rejoin_telemetry::catalogue::Process;
use rejoin_telemetry::exposition::{Exposition, PoolUse};
use rejoin_telemetry::recorder::{self, Recorder};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::WorkerError;
use crate::services::Services;

/// Interval of sorting recorded values into buckets.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

struct Port {
    services: Services,
    recorder: Recorder,
    drain: CancellationToken,
}

/// Starts serving, if an address is configured. The caller aborts the task when the worker has drained.
pub async fn start(services: &Services, drain: &CancellationToken) -> Result<Option<JoinHandle<()>>, WorkerError> {
    let Some(address) = services.config.metrics else {
        return Ok(None);
    };
    let failed = |source| WorkerError::Metrics { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let recorder = recorder::install(Process::Worker);
    let port = Arc::new(Port {
        services: services.clone(),
        recorder: recorder.clone(),
        drain: drain.clone(),
    });
    let router = Router::new()
        .route("/metrics", get(show))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .with_state(port);
    let upkeep = async move {
        loop {
            sleep(UPKEEP_EVERY).await;
            recorder.run_upkeep();
        }
    };
    Ok(Some(tokio::spawn(async move {
        tokio::select! {
            // It is optional: the worker continues without it.
            _ = axum::serve(listener, router).into_future() => {}
            () = upkeep => {}
        }
    })))
}

async fn show(State(port): State<Arc<Port>>) -> Response {
    let services = &port.services;
    let mut text = Exposition::default();
    text.value("rejoin_draining", flag(port.drain.is_cancelled()));
    text.value("rejoin_database_up", flag(!services.downtime.is_down()));
    text.settings(&services.config.common_settings());
    match services.bus.hearing() {
        Hearing::Listening => text.value("rejoin_wakeups_listening", 1.0),
        Hearing::Lost => text.value("rejoin_wakeups_listening", 0.0),
        Hearing::Off => {}
    }
    text.value("rejoin_worker_slots", services.config.slots as f64);
    let (pool_sqlx, pool_pg) = (&services.db.pool_sqlx, services.db.pool_pg.status());
    text.pools(&[
        PoolUse {
            name: "queries",
            open: pool_sqlx.size() as usize,
            idle: pool_sqlx.num_idle(),
            max: pool_sqlx.options().get_max_connections() as usize,
            waiting: transactions::waiting(),
        },
        PoolUse {
            name: "streams",
            open: pool_pg.size,
            idle: pool_pg.available,
            max: pool_pg.max_size,
            waiting: pool_pg.waiting,
        },
    ]);
    ([(CONTENT_TYPE, recorder::CONTENT_TYPE)], port.recorder.render(text)).into_response()
}

async fn live() -> &'static str {
    "ok\n"
}

/// Ready: it claims jobs. Not ready: it hands its jobs over and stops, or the database does not respond.
async fn ready(State(port): State<Arc<Port>>) -> (StatusCode, &'static str) {
    if port.drain.is_cancelled() {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "draining: the worker is shutting down\n",
        )
    } else if port.services.downtime.is_down() {
        (StatusCode::SERVICE_UNAVAILABLE, "database: it does not respond\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

fn flag(is_so: bool) -> f64 {
    if is_so { 1.0 } else { 0.0 }
}
