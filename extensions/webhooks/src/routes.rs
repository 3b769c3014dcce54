//! The endpoints of webhooks, below `/api/admin/projects/{p}/webhooks` (admin): each file with its DTOs and handlers. `api` merges them with
//! the others.
//!
//! - `endpoints`  a workspace's endpoints and their secrets
//! - `deliveries` what was sent to them: deliveries, replays, tests

pub mod deliveries;
pub mod endpoints;

use rejoin_http::problem::Problem;
use rejoin_http::{HttpState, authorization, contains_http_state};

use crate::Webhooks;

/// The state of the handlers.
#[derive(Clone)]
pub struct WebhooksState {
    pub http: HttpState,
    pub webhooks: Webhooks,
}

contains_http_state!(WebhooksState);

/// Routes with this state.
pub type Routes = authorization::Routes<WebhooksState>;

pub fn routes() -> Routes {
    Routes::new().merge(endpoints::routes()).merge(deliveries::routes())
}

fn not_found() -> Problem {
    Problem::not_found("webhook_not_found", "The webhook")
}
