//! Shared by all transports of MCP connections: their dependencies, the notification handler, errors on opening, and
//! cleanup of processes.

use std::sync::{Arc, OnceLock};

use rejoin_egress::ssrf_guard::Hosts;
use rejoin_egress::watchdog::Watchdog;
use rejoin_integrations::mcp::commands::Commands;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{NotificationContext, RoleClient};
use rmcp::{ClientHandler, model};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::input;
use crate::oauth::AccountNeeded;
use crate::redact::Redactor;

/// Shared dependencies of connections.
pub struct ConnectorDeps {
    /// The processes that may be started.
    pub commands: Commands,
    /// The hosts that may be connected to.
    pub hosts: Hosts,
    /// The client of [`net`](crate::net), which checks these hosts.
    pub http: reqwest::Client,
    /// The tasks and processes of all connections.
    pub processes: Processes,
    /// Maximum size of one answer, in bytes.
    pub max_result_bytes: usize,
}

/// What outlives a connection: its task until it has ended, and the processes' watchdog.
#[derive(Clone, Default)]
pub struct Processes {
    pub(crate) tasks: TaskTracker,
    watchdog: Arc<OnceLock<Option<Watchdog>>>,
}

impl Processes {
    /// Ends this leader's process group if this process dies.
    pub(crate) fn guard(&self, leader: Option<u32>) -> Guarded {
        let started = self.watchdog.get_or_init(|| {
            let started = Watchdog::start();
            if let Err(error) = &started {
                warn!(%error, "starting the watchdog failed; if this worker is killed, processes of MCP servers may keep running");
            }
            started.ok()
        });
        if let (Some(leader), Some(watchdog)) = (leader, started) {
            watchdog.guard_group(leader);
        }
        Guarded {
            processes: self.clone(),
            leader,
        }
    }
}

/// Dropped when the group has ended, or is being ended.
pub(crate) struct Guarded {
    processes: Processes,
    leader: Option<u32>,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let (Some(leader), Some(Some(watchdog))) = (self.leader, self.processes.watchdog.get()) {
            watchdog.forget_group(leader);
        }
    }
}

/// The reason why a connection can't be opened, without any secret.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A retry would fail the same way.
    #[error("{0}")]
    Hopeless(String),
    /// A retry may succeed.
    #[error("{0}")]
    Again(String),
    /// The user must connect an account first, or agree to more.
    #[error("{0}")]
    Account(AccountNeeded),
}

impl OpenError {
    pub(crate) fn map(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            OpenError::Hopeless(words) => OpenError::Hopeless(change(words)),
            OpenError::Again(words) => OpenError::Again(change(words)),
            OpenError::Account(needed) => OpenError::Account(needed),
        }
    }
}

/// Handles a server's notifications.
#[derive(Clone)]
pub(crate) struct NotificationHandler {
    pub(crate) server: String,
    pub(crate) list_changed: Arc<Notify>,
    pub(crate) redactor: Redactor,
    /// Whether the server may ask the user: not in sessions with a handshake ([`input`](crate::input)).
    pub(crate) has_forms: bool,
}

impl ClientHandler for NotificationHandler {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::new(
            ClientCapabilities::builder().enable_tasks().build(),
            Implementation::new("rejoin", env!("CARGO_PKG_VERSION")),
        );
        if self.has_forms {
            input::announce(&mut config.capabilities);
        }
        // The last revision with a handshake; for later ones see `lifecycle`.
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changed.notify_one();
    }

    #[expect(deprecated, reason = "servers go on sending logs by the protocol's older versions")]
    async fn on_logging_message(
        &self,
        message: model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        debug!(
            server = self.server,
            data = self.redactor.text(message.data.to_string()),
            "message from an MCP server"
        );
    }
}
