//! Begins what the function of a user's program waits for: questions to the user, and sub-agents. Called in the transaction that suspends the
//! run of the call.

use sqlx::PgConnection;

use super::{Deferred, NewStep, SpawnItem, StepWhat, SuspendRun, spawning};
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::questions;
use rejoin_runs::remote_steps::{self, StepEnd};
use rejoin_types::events::Event;

impl SuspendRun<'_> {
    /// Begins steps of a suspended call. One that can't be begun ends as an error.
    pub(super) async fn begin_steps(
        &self,
        db: &mut PgConnection,
        call: &Deferred<'_>,
        steps: &[NewStep],
        events: &mut Vec<Event>,
    ) -> Result<Wake, sqlx::Error> {
        let mut ends = Vec::with_capacity(steps.len());
        let mut agents: Vec<(i32, &SpawnItem)> = Vec::new();
        for step in steps {
            match &step.what {
                StepWhat::Ask(question) => {
                    questions::insert(db, self.run.workspace_id, self.run.id, None, question).await?;
                    questions::opened(db, self.run.root_run_id).await?;
                    events.push(self.run.event(question.event(None)));
                    ends.push(StepEnd::begun(step.number, question.id));
                }
                StepWhat::Spawn(item) => agents.push((step.number, item)),
                StepWhat::Refused(why) => ends.push(StepEnd::failed(step.number, why.clone())),
            }
        }
        let begun = self.spawn_each(db, call, &agents, events).await?;
        let mut wake = spawning::wake_for(&begun);
        ends.extend(agents.iter().zip(begun).map(|((number, _), child)| match child {
            Ok(run_id) => StepEnd::begun(*number, run_id),
            Err(why) => StepEnd::failed(*number, why),
        }));
        wake.merge(remote_steps::answer(db, call.id, &ends).await?);
        Ok(wake)
    }
}
