//! Calendars as an extension: their tools, the job that syncs a calendar with Google's, and the sweeps that start it and remove
//! abandoned consents.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rejoin_event_log::wakeup::Wake;
use rejoin_extension::sweep::SweepError;
use rejoin_extension::{Extension, Host, JobHandler, Signals, Sweep};
use rejoin_queue::{ClaimedJob, Outcome};
use rejoin_tools::SharedTool;

use crate::google::{Google, links, oauth_states, sync};
use crate::tools;

/// Between two looks for calendars that are due.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Between two removals of abandoned consents.
const CONSENTS_EVERY: Duration = Duration::from_secs(60);

/// Calendars. Without Google (`None`), the process syncs none.
pub struct Calendars(pub Option<Google>);

#[async_trait]
impl Extension for Calendars {
    fn name(&self) -> &'static str {
        "calendar"
    }

    fn tools(&self) -> Vec<SharedTool> {
        tools::tools()
    }

    fn tools_without_conversation(&self) -> Vec<SharedTool> {
        tools::without_conversation()
    }

    fn jobs(&self) -> Vec<Arc<dyn JobHandler>> {
        let google = self.0.iter().cloned();
        google
            .map(|google| Arc::new(SyncJobs(google)) as Arc<dyn JobHandler>)
            .collect()
    }

    fn sweeps(&self) -> Vec<Arc<dyn Sweep>> {
        vec![Arc::new(DueCalendars), Arc::new(AbandonedConsents)]
    }
}

/// Syncs one calendar with Google's, and exchanges the OAuth codes that users return with. At most one job lives per calendar.
struct SyncJobs(Google);

#[async_trait]
impl JobHandler for SyncJobs {
    fn kind(&self) -> &'static str {
        links::KIND
    }

    async fn run(&self, host: &Host, job: &ClaimedJob, signals: &Signals) -> Outcome {
        let Some(calendar_id) = job.payload["calendarId"].as_str().and_then(|id| id.parse().ok()) else {
            return Outcome::Fail {
                error: "the job has no calendar id".to_owned(),
            };
        };
        // The next job continues where this one stopped.
        let done = tokio::select! {
            biased;
            () = signals.drain.cancelled() => return Outcome::Release,
            () = signals.lost.cancelled() => return Outcome::Release,
            () = signals.cancel.cancelled() => return Outcome::Complete,
            done = sync::run(&self.0, &host.db, calendar_id) => done,
        };
        match done {
            Ok(done) => {
                if done.has_exchanged {
                    host.bus.publish(Wake::tools(job.workspace_id));
                }
                Outcome::Complete
            }
            Err(error) => Outcome::Retry {
                error: error.to_string(),
                after: None,
            },
        }
    }
}

/// Enqueues jobs for calendars that are due, or were changed here.
struct DueCalendars;

#[async_trait]
impl Sweep for DueCalendars {
    fn what(&self) -> &'static str {
        "looking up calendars to sync"
    }

    fn every(&self) -> Duration {
        SYNC_EVERY
    }

    async fn sweep(&self, host: &Host) -> Result<(), SweepError> {
        if links::sweep(&host.db).await? {
            host.bus.publish(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
        }
        Ok(())
    }
}

/// Removes consents whose users did not return.
struct AbandonedConsents;

#[async_trait]
impl Sweep for AbandonedConsents {
    fn what(&self) -> &'static str {
        "removing abandoned consents"
    }

    fn every(&self) -> Duration {
        CONSENTS_EVERY
    }

    async fn sweep(&self, host: &Host) -> Result<(), SweepError> {
        Ok(oauth_states::sweep(&host.db).await?)
    }
}
