//! Webhooks as an extension: the job that sends a delivery, and the sweep that removes old ones.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rejoin_extension::sweep::SweepError;
use rejoin_extension::{Extension, Host, JobHandler, Sweep};
use rejoin_integrations::webhook_secrets;

use crate::Webhooks;
use crate::configs;
use crate::deliveries;
use crate::send::SendDeliveries;

/// Interval of removals.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of deliveries or configs removed per statement.
const BATCH: i64 = 500;

/// Webhooks. Without settings (`None`), the process sends none.
pub struct SendWebhooks(pub Option<Webhooks>);

impl Extension for SendWebhooks {
    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn jobs(&self) -> Vec<Arc<dyn JobHandler>> {
        let webhooks = self.0.iter().cloned();
        webhooks
            .map(|webhooks| Arc::new(SendDeliveries(webhooks)) as Arc<dyn JobHandler>)
            .collect()
    }

    fn sweeps(&self) -> Vec<Arc<dyn Sweep>> {
        let webhooks = self.0.iter().cloned();
        webhooks
            .map(|webhooks| Arc::new(OldDeliveries(webhooks)) as Arc<dyn Sweep>)
            .collect()
    }
}

/// Removes old deliveries, configs of tasks that ended as long ago, and secrets that are no longer valid.
struct OldDeliveries(Webhooks);

#[async_trait]
impl Sweep for OldDeliveries {
    fn what(&self) -> &'static str {
        "removing old deliveries of webhooks"
    }

    fn every(&self) -> Duration {
        SWEEP_EVERY
    }

    async fn sweep(&self, host: &Host) -> Result<(), SweepError> {
        webhook_secrets::sweep(&host.db).await?;
        let hours = self.0.args.keep_webhook_deliveries_h;
        while hours > 0.0 && deliveries::sweep(&host.db, hours * 3600.0, BATCH).await? == BATCH.unsigned_abs() {}
        while hours > 0.0 && configs::sweep(&host.db, hours * 3600.0, BATCH).await? == BATCH.unsigned_abs() {}
        Ok(())
    }
}
