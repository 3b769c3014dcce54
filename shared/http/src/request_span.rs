//! The span of a request that starts a run (docs/operations/traces.md). Called by the handlers that store runs: the run's own spans are its
//! children, whatever process executes it.

use rejoin_telemetry::{Span, TraceContext};
use uuid::Uuid;

use crate::caller::Caller;
use crate::problem::Problem;
use crate::state::HttpState;

/// The span of a request; it ends when it is dropped.
pub struct RequestSpan {
    span: Span,
    /// The client's span.
    client: Option<TraceContext>,
}

impl RequestSpan {
    /// Opens it, if traces are sent.
    pub fn open(state: &HttpState, caller: &Caller) -> Self {
        let sent = caller.sent();
        let route = sent.route.as_ref().map(|route| route.as_str());
        Self {
            span: state.telemetry.server(sent.trace, sent.method.as_str(), route),
            client: sent.trace,
        }
    }

    /// Returns the `traceparent` of the run: this span, or the client's if none are sent from here.
    pub fn traceparent(&self) -> Option<String> {
        self.span
            .traceparent()
            .or_else(|| self.client.map(|client| client.to_string()))
    }

    /// Ends it: this run was stored.
    pub fn stored(mut self, run_id: Uuid) {
        self.span.set("rejoin.run.id", run_id);
        self.span.end();
    }

    /// Ends it: the request is refused.
    pub fn refused(mut self, problem: &Problem) {
        self.span
            .set("http.response.status_code", u64::from(problem.status.as_u16()));
        // By the conventions, a request that the client has to change is no failure of a server.
        if problem.status.is_server_error() {
            self.span.error(problem.code);
        } else {
            self.span.set("error.type", problem.code);
        }
        self.span.end();
    }
}
