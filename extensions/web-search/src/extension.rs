//! The web as an extension: the tools of workspaces that have switched it on, the job behind "test the search provider", and the sweep of
//! cached pages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rejoin_event_log::wakeup::Wake;
use rejoin_extension::sweep::SweepError;
use rejoin_extension::{Extension, Host, JobHandler, Signals, Sweep};
use rejoin_integrations::web_settings;
use rejoin_queue::{ClaimedJob, Outcome};
use rejoin_tools::SharedTool;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::pages;
use crate::search::Ask;
use crate::tools::for_settings;
use crate::web::Web;

/// The query of a test: it has results wherever anything has.
const QUERY: &str = "PostgreSQL documentation";
/// Number of results that a test asks for.
const RESULTS: usize = 3;
/// Between two removals of cached pages.
const PAGES_EVERY: Duration = Duration::from_secs(60);

/// The web. Without it (`None`), the process gives no tools and runs no jobs.
pub struct WebSearch(pub Option<Web>);

#[async_trait]
impl Extension for WebSearch {
    fn name(&self) -> &'static str {
        "web-search"
    }

    async fn workspace_tools(&self, db: &mut PgConnection, workspace_id: Uuid) -> Result<Vec<SharedTool>, sqlx::Error> {
        let Some(web) = &self.0 else {
            return Ok(Vec::new());
        };
        let settings = web_settings::get(db, workspace_id).await?;
        Ok(settings
            .map(|settings| for_settings(web, &settings))
            .unwrap_or_default())
    }

    fn jobs(&self) -> Vec<Arc<dyn JobHandler>> {
        let web = self.0.iter().cloned();
        web.map(|web| Arc::new(ProviderTests(web)) as Arc<dyn JobHandler>)
            .collect()
    }

    fn sweeps(&self) -> Vec<Arc<dyn Sweep>> {
        vec![Arc::new(OldPages)]
    }
}

/// Tests a workspace's search provider from a worker, which has the keys and the way out. The API enqueues the job and reads the outcome
/// from the settings' row.
struct ProviderTests(Web);

#[async_trait]
impl JobHandler for ProviderTests {
    fn kind(&self) -> &'static str {
        web_settings::KIND_PROBE
    }

    async fn run(&self, host: &Host, job: &ClaimedJob, signals: &Signals) -> Outcome {
        let again = |error: sqlx::Error| Outcome::Retry {
            error: error.to_string(),
            after: None,
        };
        let settings = match web_settings::get(&host.db, job.workspace_id).await {
            Ok(Some(settings)) => settings,
            // Switched off since.
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
            found = self.0.search(&host.db, job.workspace_id, &settings, &ask) => found,
            () = signals.drain.cancelled() => return Outcome::Release,
        };
        let outcome = found
            .map(|found| found.results.len())
            .map_err(|error| error.to_string());
        match web_settings::tried(&host.db, job.workspace_id, &settings, &outcome, began.elapsed()).await {
            Ok(()) => {
                host.bus.publish(Wake::tools(job.workspace_id));
                Outcome::Complete
            }
            Err(error) => again(error),
        }
    }
}

/// Removes cached pages that no agent has read for long.
struct OldPages;

#[async_trait]
impl Sweep for OldPages {
    fn what(&self) -> &'static str {
        "removing cached pages"
    }

    fn every(&self) -> Duration {
        PAGES_EVERY
    }

    async fn sweep(&self, host: &Host) -> Result<(), SweepError> {
        while pages::sweep(&host.db).await? {}
        Ok(())
    }
}
