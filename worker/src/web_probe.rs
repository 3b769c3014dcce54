//! The job behind "test the search provider": one small search from a worker, which has the keys and network access.
//! The API enqueues it and reads the outcome from the settings' row.

use async_trait::async_trait;
use rejoin_outside::search::Ask;
use rejoin_shared::queue::{ClaimedJob, Outcome};
use rejoin_shared::wakeup::Wake;
use rejoin_shared::web_settings;
use tokio::time::Instant;

use crate::jobs::Handler;
use crate::services::Services;
use crate::signals::Signals;

/// A query that always has results.
const QUERY: &str = "PostgreSQL documentation";
/// Enough to see that there is an answer.
const RESULTS: usize = 3;

/// The handler of jobs of the kind [`web_settings::KIND_PROBE`].
pub struct WebProbe;

#[async_trait]
impl Handler for WebProbe {
    fn kind(&self) -> &'static str {
        web_settings::KIND_PROBE
    }

    async fn handle(&self, services: &Services, job: &ClaimedJob, signals: &Signals) -> Outcome {
        let again = |error: sqlx::Error| Outcome::Retry {
            error: error.to_string(),
            after: None,
        };
        let db = &services.db.sql;
        let settings = match web_settings::get(db, job.project_id).await {
            Ok(Some(settings)) => settings,
            // Disabled meanwhile.
            Ok(None) => return Outcome::Complete,
            Err(error) => return again(error),
        };
        let ask = Ask {
            query: QUERY.to_owned(),
            max_results: RESULTS,
            ..Ask::default()
        };
        let began = Instant::now();
        let found = tokio::select! {
            found = services.web.search(db, job.project_id, &settings, &ask) => found,
            () = signals.drain.cancelled() => return Outcome::HandOver,
        };
        let outcome = found
            .map(|found| found.results.len())
            .map_err(|error| error.to_string());
        match web_settings::tried(db, job.project_id, &settings, &outcome, began.elapsed()).await {
            Ok(()) => {
                services.bus.publish(Wake::tools(job.project_id));
                Outcome::Complete
            }
            Err(error) => again(error),
        }
    }
}
