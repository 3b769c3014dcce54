//! Executes one claimed run up to `done`: loads its data, opens the turn (or resumes it after an earlier attempt), runs
//! the step loop, and ends the turn. Returns the job's outcome, or None if it is already settled.
//!
//! Invariants: every write is fenced by the attempt (I4); a turn ends with exactly one `done`, in one transaction with
//! its message and its job (I1); recorded work is not repeated (recovery).
//!
//! - `agent`   the run's agent and model
//! - `steps`   the step loop of one agent
//! - `budget`  warns if a budget can't be counted
//! - `attempt_error` errors that end an attempt
//! - `attempt_span` the attempt in its trace

mod agent;
mod attempt_error;
mod attempt_span;
mod budget;
mod steps;

use std::time::Duration;

use futures::try_join;
use rejoin_commands::{Begun, FencedError, FinishRun, Finished, RecordStep, RunError, StartRun, Started};
use rejoin_event_log::stream::Seen;
use rejoin_extension::Signals;
use rejoin_faults::Fault;
use rejoin_identity::initiators::{self, Membership};
use rejoin_queue::{ClaimedJob, KIND_RUN, Outcome};
use rejoin_runs::contexts;
use rejoin_runs::prices::{self, ModelPrice};
use rejoin_runs::runs::part::Part;
use rejoin_runs::runs::{self, Run};
use rejoin_runs::turn_records::TurnRecords;
use rejoin_telemetry::TraceContext;
use rejoin_types::events::DoneStatus;
use rejoin_types::events::Kind;
use rejoin_types::ids;
use serde_json::Value;
use tracing::{Instrument, info_span, warn};

use crate::compression;
use crate::config::TitleModel;
use crate::jobs::Handlers;
use crate::run::End;
use crate::run::errors;
use crate::run::history::{self, InitialMessages};
use crate::services::Services;
use crate::title;
use agent::Agent;
use attempt_error::AttemptError;
use steps::step_loop;

/// Delay before a run continues after a database failure.
const DATABASE_PAUSE: Duration = Duration::from_millis(500);

/// Executes a claimed job. None: already settled, or no longer held.
pub async fn execute_job(services: Services, handlers: Handlers, job: ClaimedJob, signals: Signals) -> Option<Outcome> {
    let Some(run_id) = job.run_id.filter(|_| job.kind == KIND_RUN) else {
        return Some(match handlers.get(&job.kind) {
            Some(handler) => handler.handle(&services, &job, &signals).await,
            None => Outcome::Fail {
                error: format!("no handler is registered for job kind {}", job.kind),
            },
        });
    };
    let span = info_span!("run", run = %run_id, attempt = job.attempt);
    // Boxed: a run's future is large, and other jobs must not be moved at its size.
    Box::pin(async {
        let failure = match attempt_run(&services, &job, &signals).await {
            Ok(outcome) => return outcome,
            Err(failure) => failure,
        };
        match failure {
            AttemptError::LeaseLost => {
                warn!("the lease was lost; another attempt owns the run, or it has ended");
                None
            }
            AttemptError::DatabaseAway(error) => {
                warn!(error, "the database is unavailable; the run continues when it is back");
                Some(Outcome::Snooze { after: DATABASE_PAUSE })
            }
            AttemptError::Refused(error) => match fail_refused_run(&services, &job, &error).await {
                Ok(()) => None,
                Err(failure) => {
                    warn!(error, because = %failure, "finalizing the run failed; the job will be retried");
                    Some(Outcome::Retry { error, after: None })
                }
            },
            AttemptError::Infrastructure(error) if job.attempt < job.max_attempts => {
                warn!(error, "the attempt failed; the job will be retried");
                Some(Outcome::Retry { error, after: None })
            }
            AttemptError::Infrastructure(error) => {
                // The sweep ends the run once the lease has expired: `done` needs the database, which has failed.
                warn!(error, "the last attempt failed");
                None
            }
        }
    })
    .instrument(span)
    .await
}

/// Ends a run whose records the database rejects, with a minimal record.
async fn fail_refused_run(services: &Services, job: &ClaimedJob, error: &str) -> Result<(), AttemptError> {
    let Some(run) = (match job.run_id {
        Some(id) => runs::get(&services.db.pool_sqlx, id).await?,
        None => None,
    }) else {
        return Err(AttemptError::LeaseLost);
    };
    let error = RunError {
        code: "refused_by_database".to_owned(),
        message: error.to_owned(),
        retryable: false,
    };
    let finish = FinishRun {
        run: &run,
        attempt: job.attempt,
        seen: &Seen::default(),
        message_id: ids::new(),
        status: DoneStatus::Failed,
        text: "",
        citations: &[],
        error: Some(&error),
        usage: &run.usage,
        last_step: None,
        output: None,
    };
    services.finish(&finish).await?;
    metrics::counter!("rejoin_runs_total", "status" => DoneStatus::Failed.as_str()).increment(1);
    Ok(())
}

/// What is read before an attempt begins, besides the agent.
struct Known {
    /// None: the run's messages are on record.
    records: Option<TurnRecords>,
    prices: Vec<ModelPrice>,
    membership: Membership,
}

impl Known {
    async fn of(services: &Services, run: &Run) -> Result<Self, sqlx::Error> {
        // Stored by an earlier attempt or turn, or by a fork. (One for another agent has a message to answer instead.)
        let is_stored = run.safe_seq.is_some()
            || run.turn_step > 0
            || run.total_steps > 0
            || run.forked_from_run_id.is_some() && run.message_id.is_none();
        if !is_stored {
            let records = history::records_of(services, run).await?;
            return Ok(Self {
                prices: records.prices.clone(),
                membership: Membership::of(run.user_id, records.role.as_deref()),
                records: Some(records),
            });
        }
        let db = &services.db.pool_sqlx;
        let (prices, membership) = try_join!(
            prices::list(db, run.workspace_id),
            initiators::membership(db, run.workspace_id, run.user_id)
        )?;
        Ok(Self {
            records: None,
            prices,
            membership,
        })
    }
}

async fn attempt_run(
    services: &Services,
    job: &ClaimedJob,
    signals: &Signals,
) -> Result<Option<Outcome>, AttemptError> {
    let Some(run) = (match job.run_id {
        Some(id) => runs::get(&services.db.pool_sqlx, id).await?,
        None => None,
    }) else {
        return Ok(Some(Outcome::Complete));
    };
    if run.state().has_ended() {
        // Its end was committed, and the response lost.
        return Ok(Some(Outcome::Complete));
    }
    let (
        mut agent,
        Known {
            records,
            prices,
            membership,
        },
    ) = try_join!(Agent::of(services, &run), Known::of(services, &run))?;
    let mut initial = match (&records, &agent.model_call) {
        (Some(records), Some(call)) => history::of_model_call(call, records),
        (Some(records), None) => history::initial_messages(services, &run, agent.definition.as_ref(), records).await?,
        (None, _) => InitialMessages::default(),
    };
    let model = agent.model_name();
    if let Some(turn) = &mut initial.context {
        turn.usage = contexts::with_window(turn.usage.take(), Some(&model));
    }
    let replaced = agent.replaced();
    let agent_name = agent.definition.as_ref().map(|definition| definition.name.clone());
    let notices = match &agent.model {
        Ok(_) => budget::notices(services, &run, agent.definition.as_ref(), &model, &prices).await?,
        Err(_) => Vec::new(),
    };
    let start = StartRun {
        run: &run,
        attempt: job.attempt,
        model: &model,
        agent_name: agent_name.as_deref(),
        meta: Kind::Meta {
            conversation_id: run.conversation_id,
            agent_definition_id: run.agent_definition_id,
            agent_name: agent_name.clone(),
            model: model.clone(),
            model_requested: replaced.map(|replaced| replaced.requested.clone()),
            model_retired_on: replaced
                .and_then(|replaced| replaced.retired_on)
                .map(|day| day.to_string()),
            citations: initial.citations.clone(),
            attempt: job.attempt,
        },
        initial_messages: initial.messages,
        context: initial.context.as_ref(),
        part: agent.plans().then_some(Part::Planner),
        notices,
        tells_routing: services.config.debug_agent_context,
        reason: job
            .last_error
            .as_deref()
            .unwrap_or("the worker handed the run to another worker"),
    };
    let Begun { started, mut run, .. } = services.execute(&start).await?;
    let fresh = match started {
        // A new turn of a resumed run continues from its records.
        Started::Fresh if start.initial_messages.is_empty() => None,
        Started::Fresh => Some(InitialMessages {
            messages: start.initial_messages,
            citations: initial.citations,
            context: None,
            client_tools: initial.client_tools,
            has_pending: initial.has_pending,
        }),
        Started::Resumed => {
            metrics::counter!("rejoin_runs_resumed_total").increment(1);
            None
        }
        Started::Woken => None,
    };

    if run.cancel_requested_at.is_some() {
        // Requested while no worker held it.
        signals.cancel.cancel();
    }
    let seen = Seen::through(run.safe_seq.unwrap_or_default());
    let mut initial = fresh.as_ref();
    let revoked = match run.cancel_requested_at {
        // It ends as cancelled.
        Some(_) => None,
        None => membership.revoked(),
    };
    let background = Background {
        summary: records.as_ref().is_none_or(TurnRecords::may_need_summary),
        title: services.config.title_model != TitleModel::Off
            // A branch has the title of its original.
            && run.forked_from_run_id.is_none()
            && (run.first_seq == 0 || records.as_ref().is_some_and(TurnRecords::is_first_answer)),
    };
    let end = loop {
        let span = attempt_span::open(services, job, &run, &agent);
        let ended = match revoked {
            Some(revoked) => Ok(End::failed(RunError {
                code: revoked.code().to_owned(),
                message: revoked.to_string(),
                retryable: false,
            })),
            None => {
                let attempt = (signals, &seen, span.context());
                run_agent(services, job, attempt, &run, (&agent, &prices), initial).await
            }
        };
        attempt_span::close(span, &ended);
        match ended? {
            End::Transferred => {
                run = runs::get(&services.db.pool_sqlx, run.id)
                    .await?
                    .ok_or(AttemptError::LeaseLost)?;
                agent = Agent::of(services, &run).await?;
                initial = None;
            }
            end => break end,
        }
    };
    end_turn(services, job, &run, end, fresh, &seen, background).await
}

/// Runs the part of one agent.
async fn run_agent(
    services: &Services,
    job: &ClaimedJob,
    attempt: (&Signals, &Seen, Option<TraceContext>),
    run: &Run,
    (agent, prices): (&Agent, &[ModelPrice]),
    fresh: Option<&InitialMessages>,
) -> Result<End, AttemptError> {
    let definition = agent.definition.as_ref();
    if definition.is_none() && (run.agent_definition_id.is_some() || run.agent_name.is_some()) {
        let message = "the agent definition of this run has been deleted".to_owned();
        return Ok(End::failed(RunError {
            code: "agent_definition_gone".to_owned(),
            message,
            retryable: false,
        }));
    }
    match &agent.model {
        Err(error) => Ok(End::failed(errors::of_model(error))),
        Ok(model) => {
            let models = agent.candidates(prices, model);
            step_loop(services, job, attempt, run, definition, models, fresh).await
        }
    }
}

/// What may be due for the conversation after the turn, by what is known at its beginning.
#[derive(Clone, Copy)]
struct Background {
    summary: bool,
    /// If the turn completes: no answer was before its own.
    title: bool,
}

/// Records the last step, then the end: what the database refuses of one does not keep the other from being stored.
async fn finish_apart(
    services: &Services,
    finish: &FinishRun<'_>,
    step: &RecordStep<'_>,
) -> Result<(Finished, DoneStatus), FencedError> {
    let refused = match services.execute(step).await {
        Ok(_) => None,
        Err(FencedError::Database { attempted, source }) if rejoin_db::is_final(&source) => {
            Some(errors::refused_by_database(attempted, &source))
        }
        Err(error) => return Err(error),
    };
    let finish = FinishRun {
        status: refused.as_ref().map_or(finish.status, |_| DoneStatus::Failed),
        error: refused.as_ref().or(finish.error),
        last_step: None,
        ..*finish
    };
    Ok((services.finish(&finish).await?, finish.status))
}

/// Ends the turn.
async fn end_turn(
    services: &Services,
    job: &ClaimedJob,
    run: &Run,
    end: End,
    fresh: Option<InitialMessages>,
    seen: &Seen,
    background: Background,
) -> Result<Option<Outcome>, AttemptError> {
    let (status, text, error, usage, last_step) = match end {
        End::Finished {
            status,
            text,
            error,
            usage,
            last_step,
        } => (status, text, error, usage, last_step),
        End::Release if rejoin_faults::enabled(Fault::DrainDrops) => return Ok(None),
        End::Release => return Ok(Some(Outcome::Release)),
        End::LeaseLost => return Err(AttemptError::LeaseLost),
        // Its job waits, held by no worker.
        End::Suspended => return Ok(None),
        End::Transferred => return Ok(Some(Outcome::Release)),
        End::Database { attempted, error } => return Err(AttemptError::of(attempted, &error)),
    };
    let citations = match fresh {
        Some(initial) => initial.citations,
        // Only a plain conversation's answer has some.
        None if run.agent_definition_id.is_some() => Vec::new(),
        None => history::citations(services, run).await?,
    };
    let usage = usage.unwrap_or_else(|| run.usage.clone());
    // The text of a valid structured output is its JSON.
    let output: Option<Value> = run
        .output_schema
        .as_ref()
        .filter(|_| status == DoneStatus::Completed)
        .and_then(|_| serde_json::from_str(&text).ok());
    let last_step = last_step.as_deref();
    let last_step = last_step.map(|step| step.command(run, job.attempt, seen, &[]));
    let command = FinishRun {
        run,
        attempt: job.attempt,
        seen,
        message_id: ids::new(),
        status,
        text: &text,
        citations: &citations,
        error: error.as_ref(),
        usage: &usage,
        last_step: last_step.as_ref(),
        output: output.as_ref(),
    };
    let (finished, status) = match (services.finish(&command).await, &last_step) {
        (Err(FencedError::Database { source, .. }), Some(step)) if rejoin_db::is_final(&source) => {
            finish_apart(services, &command, step).await?
        }
        (finished, _) => (finished?, status),
    };
    if finished == Finished::HasPending {
        // A steering message arrived at the last moment: the run continues with it.
        return Ok(Some(Outcome::Release));
    }
    metrics::counter!("rejoin_runs_total", "status" => status.as_str()).increment(1);
    if let (Some(conversation_id), false) = (run.conversation_id, run.is_sub_agent()) {
        if background.summary {
            compression::consider(services, run.workspace_id, conversation_id).await;
        }
        if background.title && status == DoneStatus::Completed {
            title::request(services, run.workspace_id, conversation_id).await;
        }
    }
    Ok(None)
}
