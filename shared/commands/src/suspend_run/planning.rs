//! Suspends a run that waits for a plan: stores and announces the plan, and begins its review or its steps.

use sqlx::PgConnection;

use super::{Deferred, SpawnItem, SuspendRun, started};
use crate::{Review, execute_plan};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::questions::NewQuestion;
use rejoin_runs::tool_calls;
use rejoin_scheduling::plans::NewPlan;
use rejoin_types::events::{Event, Kind};

/// A plan created by a call, and its reviewer.
#[derive(Debug, Clone)]
pub struct PlanAhead {
    pub new: NewPlan,
    pub reviewer: Reviewer,
}

#[derive(Debug, Clone)]
pub enum Reviewer {
    None,
    /// A user approves it.
    Person(NewQuestion),
    /// An agent, whose answer is parsed as a verdict.
    Agent(SpawnItem),
    /// Rules have already decided.
    Rules(Review),
}

impl SuspendRun<'_> {
    /// Publishes the gathered events before those that others publish themselves.
    pub(super) async fn tell_now(&self, db: &mut PgConnection, events: &mut Vec<Event>) -> Result<(), sqlx::Error> {
        if self.publish && !events.is_empty() {
            log::append(db, self.run.log_id, Some(self.run.root_run_id), events).await?;
        }
        events.clear();
        Ok(())
    }

    pub(super) async fn plan(
        &self,
        db: &mut PgConnection,
        call: &Deferred<'_>,
        ahead: &PlanAhead,
        events: &mut Vec<Event>,
    ) -> Result<Wake, sqlx::Error> {
        let run = self.run;
        if !matches!(ahead.reviewer, Reviewer::Agent(_)) {
            tool_calls::mark_running(db, call.id).await?;
            events.push(run.event(started(call)));
        }
        self.tell_now(db, events).await?;
        let status = match ahead.reviewer {
            Reviewer::None => "pending",
            Reviewer::Person(_) | Reviewer::Agent(_) | Reviewer::Rules(_) => "pending_review",
        };
        match &ahead.reviewer {
            Reviewer::None => {
                let plan = execute_plan::create(db, run, call.id, &ahead.new, status).await?;
                execute_plan::begin(db, run, &plan).await
            }
            Reviewer::Rules(review) => {
                execute_plan::create(db, run, call.id, &ahead.new, status).await?;
                execute_plan::reviewed(db, run, review).await
            }
            Reviewer::Person(question) => {
                let plan = execute_plan::create(db, run, call.id, &ahead.new, status).await?;
                execute_plan::ready_for_review(db, run, &plan).await?;
                self.ask(db, call, question, None, events).await?;
                Ok(Wake::default())
            }
            Reviewer::Agent(item) => {
                // It begins the call, like every start of sub-agents.
                let wake = self.spawn(db, call, std::slice::from_ref(item), events).await?;
                let begun = std::mem::take(events);
                let (call_started, rest): (Vec<_>, Vec<_>) = begun
                    .into_iter()
                    .partition(|event| matches!(event.kind, Kind::McpTool { .. }));
                *events = call_started;
                self.tell_now(db, events).await?;
                let plan = execute_plan::create(db, run, call.id, &ahead.new, status).await?;
                execute_plan::ready_for_review(db, run, &plan).await?;
                *events = rest;
                Ok(wake)
            }
        }
    }
}
