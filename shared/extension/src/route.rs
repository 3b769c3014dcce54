//! HTTP endpoints of an extension: JSON in, JSON out. The API authenticates the caller, checks the scope that the route declares, counts
//! the request against the caller's limits, and opens a transaction in which row-level security shows the caller's rows only; it commits
//! when the handler succeeds.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use rejoin_types::access::Scope;
use rejoin_types::owner::Owner;
use serde_json::Value;
use sqlx::PgConnection;

/// HTTP method of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
}

/// One endpoint.
#[derive(Clone)]
pub struct Route {
    pub method: Method,
    /// Below `/api/extensions/{name}`, such as `/entries/{id}`.
    pub path: &'static str,
    /// The scope that the caller needs.
    pub scope: Scope,
    pub handler: Arc<dyn RouteHandler>,
}

/// A request, authenticated.
#[derive(Debug)]
pub struct RouteRequest {
    /// The caller: a user in a workspace.
    pub owner: Owner,
    /// Parameters of the path, by name.
    pub path: HashMap<String, String>,
    /// Parameters of the query, by name.
    pub query: HashMap<String, String>,
    /// Null where the request has no body.
    pub body: Value,
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// 400 with these words: what is wrong and what to do.
    #[error("{0}")]
    BadRequest(String),
    /// 404 with these words.
    #[error("{0}")]
    NotFound(String),
    /// 409 with these words.
    #[error("{0}")]
    Conflict(String),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Answers requests.
#[async_trait]
pub trait RouteHandler: Send + Sync {
    /// `db` is the caller's transaction.
    async fn handle(&self, db: &mut PgConnection, request: RouteRequest) -> Result<Value, RouteError>;
}
