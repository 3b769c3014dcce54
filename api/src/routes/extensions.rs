//! Endpoints of extensions, below `/api/extensions/{name}`: authenticated and limited like all others, each in a transaction of its caller.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use bytes::Bytes;
use rejoin_extension::route::{self, RouteHandler};
use rejoin_extension::{Extensions, Route, RouteError, RouteRequest};
use rejoin_http::caller::{Admin, Caller, Read, Scoped, Worker, Write};
use rejoin_http::extract::{self, Params, Segments};
use rejoin_http::problem::Problem;
use rejoin_types::access::Scope;
use serde_json::Value;

use crate::state::{AppState, Routes};

/// Returns the routes of all extensions.
pub fn routes(extensions: &Extensions) -> Routes {
    let mut routes = Routes::new();
    for extension in extensions.iter() {
        for route in extension.routes() {
            let path = format!("/api/extensions/{}{}", extension.name(), route.path);
            routes = match route.scope {
                Scope::Read => mounted::<Read>(routes, &path, &route),
                Scope::Write => mounted::<Write>(routes, &path, &route),
                Scope::Admin => mounted::<Admin>(routes, &path, &route),
                Scope::Worker => mounted::<Worker>(routes, &path, &route),
            };
        }
    }
    routes
}

fn mounted<S: Scoped + Send + Sync + 'static>(routes: Routes, path: &str, route: &Route) -> Routes {
    let method = match route.method {
        route::Method::Get => Method::GET,
        route::Method::Post => Method::POST,
        route::Method::Put => Method::PUT,
        route::Method::Delete => Method::DELETE,
    };
    let handler = route.handler.clone();
    routes.undocumented(
        method,
        path,
        async move |State(state): State<AppState>,
                    caller: Caller<S>,
                    Segments(path): Segments<HashMap<String, String>>,
                    Params(query): Params<HashMap<String, String>>,
                    headers: HeaderMap,
                    body: Bytes| {
            let body = if body.is_empty() {
                Value::Null
            } else {
                extract::json(&headers, &body)?
            };
            let request = RouteRequest {
                owner: caller.owner(),
                path,
                query,
                body,
            };
            answered(&state, &caller, handler, request).await
        },
    )
}

/// The handler's answer. What it changed is committed before the answer is sent, and rolled back where it refuses.
async fn answered(
    state: &AppState,
    caller: &Caller,
    handler: Arc<dyn RouteHandler>,
    request: RouteRequest,
) -> Result<Json<Value>, Problem> {
    let mut tx = caller.begin(state).await?;
    let answer = handler.handle(&mut tx, request).await.map_err(|error| match error {
        RouteError::BadRequest(why) => Problem::bad_request("invalid_request", why),
        RouteError::NotFound(why) => Problem::new(StatusCode::NOT_FOUND, "not_found", why),
        RouteError::Conflict(why) => Problem::conflict("conflict", why),
        RouteError::Database(error) => error.into(),
    })?;
    tx.commit().await?;
    Ok(Json(answer))
}
