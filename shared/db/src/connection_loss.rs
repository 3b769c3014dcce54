//! When a connection of this process was last lost. A pooled connection that was used before is tested before its next use: if the
//! server has stopped, or an operator has ended its sessions, the others are most likely lost, too.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time of the last known loss; shared by the pools of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionLoss(Arc<Mutex<Option<Instant>>>);

impl ConnectionLoss {
    /// A connection was lost now.
    pub(crate) fn record(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns whether a loss is known that is younger than the last use of a connection, which was so long ago.
    pub(crate) fn is_since(&self, idle_for: Duration) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() <= idle_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_used_before_a_loss_are_suspect() {
        let loss = ConnectionLoss::default();
        assert!(!loss.is_since(Duration::from_secs(3_600)), "no loss is known");
        loss.record();
        assert!(loss.is_since(Duration::from_secs(3_600)), "used before it");
        assert!(!loss.is_since(Duration::ZERO), "used after it");
    }
}
