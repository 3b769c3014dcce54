//! The polling bus: hints reach only the process that sends them; other processes find new data by polling.

use std::sync::Arc;

use tokio::sync::broadcast;

use super::{Bus, Wake};

/// Maximum number of hints that a slow receiver may lag behind.
const CAPACITY: usize = 256;

pub struct PollBus {
    sender: broadcast::Sender<Arc<Wake>>,
}

impl PollBus {
    pub fn new() -> Self {
        Self {
            sender: broadcast::channel(CAPACITY).0,
        }
    }
}

impl Default for PollBus {
    fn default() -> Self {
        Self::new()
    }
}

impl Bus for PollBus {
    /// Drops the hint: with this bus, nothing may depend on hints, not even within a process.
    fn publish(&self, _wake: Wake) {}

    fn subscribe(&self) -> broadcast::Receiver<Arc<Wake>> {
        self.sender.subscribe()
    }
}
