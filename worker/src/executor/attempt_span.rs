//! The span of one agent's attempt at a run (docs/operations/traces.md): `invoke_agent`. Called by `executor`.
//!
//! Its parent is the span that started the run, whichever process executes it; without one, all attempts of a run, and of the runs that it starts,
//! have one trace all the same.

use rejoin_queue::ClaimedJob;
use rejoin_runs::runs::Run;
use rejoin_telemetry::{Attempt, Parent, Span, TraceContext};
use rejoin_types::events::DoneStatus;

use super::agent::Agent;
use super::attempt_error::AttemptError;
use crate::run::End;
use crate::services::Services;

/// Opens it, if traces are sent.
pub(super) fn open(services: &Services, job: &ClaimedJob, run: &Run, agent: &Agent) -> Span {
    if !services.telemetry.is_on() {
        return Span::none();
    }
    let started_by = run.traceparent.as_deref().and_then(TraceContext::parse);
    let definition = agent.definition.as_ref();
    let attempt = Attempt {
        run_id: run.id,
        number: job.attempt,
        workspace_id: run.workspace_id,
        conversation_id: run.conversation_id,
        // The definition of a model call is not stored.
        agent_id: run.agent_definition_id,
        agent_name: definition.map(|definition| definition.name.as_str()),
        model: &agent.model_name(),
    };
    let parent = started_by.map_or(Parent::Run(run.root_run_id), Parent::Remote);
    services.telemetry.invoke_agent(parent, &attempt)
}

/// Ends it, with how the attempt has ended.
pub(super) fn close(mut span: Span, ended: &Result<End, AttemptError>) {
    let (outcome, error) = match ended {
        Ok(End::Finished { status, error, .. }) => {
            let is_failed = *status == DoneStatus::Failed;
            let code = error.as_ref().filter(|_| is_failed).map(|error| error.code.as_str());
            (status.as_str(), code)
        }
        Ok(End::Release) => ("released", None),
        Ok(End::Suspended) => ("suspended", None),
        Ok(End::Transferred) => ("transferred", None),
        Ok(End::LeaseLost) | Err(AttemptError::LeaseLost) => ("lost", Some("lease_lost")),
        Ok(End::Database { .. }) | Err(AttemptError::DatabaseAway(_)) => ("interrupted", Some("database")),
        Err(AttemptError::Refused(_)) => ("failed", Some("refused_by_database")),
        Err(AttemptError::Infrastructure(_)) => ("interrupted", Some("infrastructure")),
    };
    span.set("rejoin.outcome", outcome);
    if let Some(error) = error {
        span.error(error);
    }
    span.end();
}
