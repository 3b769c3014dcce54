//! When a connection of this process was last lost. A pooled connection that was used before is tested before its next use: if the
//! server has stopped, or an operator has ended its sessions, the others are most likely lost, too.
//!
//! Where the URL names several servers, a refusal to write counts as well: the server has become a standby, so its connections are of no use
//! although they live. Errors are classified without knowing their connection (`errors`), so refusals are noted for the whole process.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How long after a refusal to write its connection may have been returned to its pool.
const RETURN_LIMIT: Duration = Duration::from_millis(500);

/// The last error of this process that says that a server only reads.
static READ_ONLY: LazyLock<watch::Sender<Option<Instant>>> = LazyLock::new(watch::Sender::default);
/// The last refused login of this process.
static LOGIN_REFUSED: LazyLock<watch::Sender<Option<Instant>>> = LazyLock::new(watch::Sender::default);

/// Notes an error of the server, if its SQLSTATE concerns other connections.
pub(crate) fn note(code: &str) {
    match code {
        "25006" => {
            READ_ONLY.send_replace(Some(Instant::now()));
        }
        "28P01" | "28000" => {
            LOGIN_REFUSED.send_replace(Some(Instant::now()));
        }
        // Those of one connection or statement.
        _ => {}
    }
}

/// Changes with each noted refusal to write.
pub(crate) fn read_only() -> watch::Receiver<Option<Instant>> {
    READ_ONLY.subscribe()
}

/// Changes with each noted refusal of a login.
pub(crate) fn login_refused() -> watch::Receiver<Option<Instant>> {
    LOGIN_REFUSED.subscribe()
}

/// The time of the last known loss; shared by the pools of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionLoss(watch::Sender<Option<Instant>>);

impl ConnectionLoss {
    /// A connection was lost now.
    pub(crate) fn record(&self) {
        self.0.send_replace(Some(Instant::now()));
    }

    /// Changes with each loss.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Instant>> {
        self.0.subscribe()
    }

    /// Returns whether a loss is known that is younger than the last use of a connection, which was so long ago.
    pub(crate) fn is_since(&self, idle_for: Duration) -> bool {
        is_younger(*self.0.borrow(), idle_for)
    }
}

/// The same for a refusal to write, which is noted before or after its connection is returned.
pub(crate) fn is_read_only_since(idle_for: Duration) -> bool {
    is_younger(*READ_ONLY.borrow(), idle_for + RETURN_LIMIT)
}

fn is_younger(last: Option<Instant>, than: Duration) -> bool {
    last.is_some_and(|last| last.elapsed() <= than)
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

    #[test]
    fn a_refusal_to_write_is_noted_and_other_errors_are_not() {
        let mut noted = read_only();
        for code in ["40001", "57P01", "28P01"] {
            note(code);
            assert!(!noted.has_changed().unwrap(), "{code}");
        }
        note("25006");
        assert!(noted.has_changed().unwrap());
        noted.mark_unchanged();
        assert!(is_read_only_since(Duration::ZERO));
        assert!(login_refused().borrow().is_some());
    }
}
