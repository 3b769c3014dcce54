//! The text of `/metrics`: what this process has recorded, its pools, and the fleet. Called by `routes` and `operator_port`.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use rejoin_db::transactions;
use rejoin_event_log::wakeup::Hearing;
use rejoin_telemetry::exposition::{Exposition, PoolUse};
use rejoin_telemetry::recorder;

use crate::state::AppState;

/// Returns the response.
pub async fn response(state: &AppState) -> Response {
    let mut text = Exposition::default();
    text.value("rejoin_draining", if state.draining.is_cancelled() { 1.0 } else { 0.0 });
    text.settings(&state.config.database.common_settings());
    match state.bus.hearing() {
        Hearing::Listening => text.value("rejoin_wakeups_listening", 1.0),
        Hearing::Lost => text.value("rejoin_wakeups_listening", 0.0),
        Hearing::Off => {}
    }
    let (pool_sqlx, pool_pg) = (&state.db.pool_sqlx, state.db.pool_pg.status());
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
    state.fleet.write(&state.db, &mut text).await;
    if let Some(cells) = &state.cells {
        cells.write(&mut text);
    }
    ([(CONTENT_TYPE, recorder::CONTENT_TYPE)], state.metrics.render(text)).into_response()
}
