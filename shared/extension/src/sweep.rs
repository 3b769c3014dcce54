//! Periodic work that any worker does for the whole fleet. Each sweep is idempotent, needs no leader, and takes rows that no other worker
//! is working on.

use std::time::Duration;

use async_trait::async_trait;

use crate::Host;

/// Why a sweep failed. It is logged, and tried again at its next turn.
pub type SweepError = Box<dyn std::error::Error + Send + Sync>;

/// Periodic work.
#[async_trait]
pub trait Sweep: Send + Sync {
    /// What it does, for the log: "looking up calendars to sync".
    fn what(&self) -> &'static str;

    /// Time between two rounds of one worker.
    fn every(&self) -> Duration;

    /// One round.
    async fn sweep(&self, host: &Host) -> Result<(), SweepError>;
}
