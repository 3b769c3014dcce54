//! Settings of remote tools.

use std::time::Duration;

use clap::Args;

const LEASE_S: u64 = 15;
const WORKERS_MAX: i64 = 1_000;
const CALLS_WAIT_H: f64 = 24.0;
/// Heartbeats per lease.
const HEARTBEATS: u64 = 3;

/// Settings of remote tools.
#[derive(Debug, Clone, Args)]
pub struct RemoteToolArgs {
    /// Time without a heartbeat after which a remote worker has lost its calls, in seconds
    #[arg(long, env = "REJOIN_REMOTE_LEASE_S", default_value_t = LEASE_S, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub remote_lease_s: u64,

    /// Maximum number of remote workers of a project
    #[arg(long, env = "REJOIN_REMOTE_WORKERS_MAX", default_value_t = WORKERS_MAX, value_parser = clap::value_parser!(i64).range(1..=100_000))]
    pub remote_workers_max: i64,

    /// Time that a call of a remote tool waits for a worker, in hours; then it ends as an error
    #[arg(long, env = "REJOIN_REMOTE_CALLS_WAIT_H", default_value_t = CALLS_WAIT_H, value_parser = hours)]
    pub remote_calls_wait_h: f64,
}

fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if hours.is_finite() && hours > 0.0 => Ok(hours),
        Ok(_) | Err(_) => Err("a positive number of hours is required, such as 24 or 0.5".to_owned()),
    }
}

impl Default for RemoteToolArgs {
    fn default() -> Self {
        Self {
            remote_lease_s: LEASE_S,
            remote_workers_max: WORKERS_MAX,
            remote_calls_wait_h: CALLS_WAIT_H,
        }
    }
}

impl RemoteToolArgs {
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.remote_lease_s)
    }

    /// How often a worker that has calls sends a heartbeat.
    pub fn heartbeat(&self) -> Duration {
        self.lease() / u32::try_from(HEARTBEATS).unwrap_or(1)
    }
}
