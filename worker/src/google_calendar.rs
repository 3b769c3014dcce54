//! The job that syncs a calendar with Google Calendar and exchanges users' authorization codes. The sweep enqueues it
//! for calendars that are due or changed locally; at most one is live per calendar.

use async_trait::async_trait;
use rejoin_outside::calendar::google::{links, sync};
use rejoin_shared::queue::{self, ClaimedJob, Outcome};
use rejoin_shared::wakeup::Wake;

use crate::jobs::Handler;
use crate::services::Services;
use crate::signals::Signals;

/// The handler of jobs of the kind [`links::KIND`].
pub struct GoogleCalendars;

#[async_trait]
impl Handler for GoogleCalendars {
    fn kind(&self) -> &'static str {
        links::KIND
    }

    async fn handle(&self, services: &Services, job: &ClaimedJob, signals: &Signals) -> Outcome {
        let Some(calendar_id) = job.payload["calendarId"].as_str().and_then(|id| id.parse().ok()) else {
            return Outcome::Fail {
                error: "the job has no calendar id".to_owned(),
            };
        };
        // Interrupted anywhere, the next job continues.
        let done = tokio::select! {
            biased;
            () = signals.drain.cancelled() => return Outcome::HandOver,
            () = signals.lost.cancelled() => return Outcome::HandOver,
            () = signals.cancel.cancelled() => return Outcome::Complete,
            done = sync::run(&services.google, &services.db.sql, calendar_id) => done,
        };
        match done {
            Ok(done) => {
                if done.has_entered {
                    // Wakes the waiting requests.
                    services.bus.publish(Wake::tools(job.project_id));
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

/// Enqueues jobs for calendars that are due.
pub async fn sweep(services: &Services) -> Result<(), sqlx::Error> {
    if links::sweep(&services.db.sql).await? {
        services.bus.publish(Wake::queue(queue::DEFAULT_QUEUE));
    }
    Ok(())
}
