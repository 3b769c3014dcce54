//! What HTTP endpoints of all crates share: who calls and may call, bodies and pages, errors, descriptions. Called by `api` and by the
//! extensions that have endpoints.
//!
//! # Layout
//! - `settings`  options of endpoints; `state`: the state that handlers share
//! - `authorization`  who may call each operation, as its handler declares it; routes
//! - `authentication` determines the caller by API key, token or session
//! - `caller`    user, project, role
//! - `oidc/`     tokens of an identity provider, and browsers that sign in there
//! - `sign_in/`  endpoints of sign-in, invitations and sessions
//! - `cookie`    the session cookie of a browser
//! - `rate_limit` rate limits of callers; `concurrency_limits`: how many requests are processed at a time
//! - `proxies`   trusted reverse proxies; `origin`: the server's public address
//! - `extract`   body, query, path and page of a request
//! - `request_span` the span of a request that starts a run
//! - `request_body` receives a complete body; `upload` streams a large one
//! - `idempotency`  idempotency keys
//! - `versions`  `ETag`, `If-Match` and `If-None-Match`
//! - `visible`   conversations and runs that a caller may see
//! - `audit`     records callers' changes in the audit log
//! - `probe`     tests that only a worker can run
//! - `problem`   errors, as RFC 9457
//! - `openapi`   the base of the OpenAPI document
//!
//! Imports go one way: sign_in -> extract, origin, probe, request_span, visible -> authentication, authorization -> state -> caller -> rate_limit, oidc ->
//! problem, settings.

pub mod audit;
pub mod authentication;
pub mod authorization;
pub mod caller;
pub mod concurrency_limits;
pub mod cookie;
pub mod extract;
pub mod idempotency;
pub mod oidc;
pub mod openapi;
pub mod origin;
pub mod probe;
pub mod problem;
pub mod proxies;
pub mod rate_limit;
pub mod request_body;
pub mod request_span;
pub mod settings;
pub mod sign_in;
pub mod state;
pub mod upload;
pub mod versions;
pub mod visible;

use std::time::Duration;

pub use settings::HttpArgs;
pub use state::HttpState;

/// Timeout until a response begins; imports and uploads have none while their content arrives. The length of a stream
/// is not limited.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(25);

#[doc(hidden)]
pub use {rejoin_db, utoipa_axum};
