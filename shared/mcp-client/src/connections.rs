//! The MCP connections of a worker: one per server and workspace, opened on first use, shared by all runs, guarded by a
//! circuit breaker. Called by `McpTool`, the pools and the probe.
//!
//! - `accounts` users' accounts: the jobs that connect and disconnect them, and calls that wait for them
//!
//! Invariants: concurrent callers wait for the same connection attempt; a connection with outdated settings is not
//! used; one that was opened with a user's account is that user's, and ends with the account.

mod accounts;

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use backoff::{ExponentialBuilder, Retryable};
use dashmap::DashMap;
use rejoin_event_log::wakeup::{SharedBus, Wake};
use rejoin_files::FileStore;
use rejoin_integrations::mcp::{Server, offers};
use rejoin_secrets::MasterKeys;
use rejoin_tools::ToolError;
use rejoin_tools::input::InputGiven;
use rejoin_types::text;
use serde_json::{Map, Value};
use sqlx::PgPool;
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;
use tracing::{info, warn};
use uuid::Uuid;

use crate::answer::Keep;
use crate::breaker::{Admitted, Breaker};
use crate::connection::{CallError, Connection};
use crate::input::{Answered, Pending};
use crate::secrets;
use crate::transport::{ConnectorDeps, OpenError};

/// Number of connection attempts per call, and the delay after the first.
const CONNECT_TRIES: usize = 3;
const CONNECT_PAUSE: Duration = Duration::from_millis(250);
/// Minimum interval between listings caused by change notifications.
const RELIST_PAUSE: Duration = Duration::from_secs(5);
/// Interval of checks for idle connections.
const IDLE_LOOK: Duration = Duration::from_secs(5);
/// Number of references to a slot that no call uses: the map's, and that of the check.
const SLOT_UNUSED: usize = 2;

/// A worker's state of a server.
struct Slot {
    workspace_id: Uuid,
    connection: Mutex<Option<Open>>,
    breaker: Breaker,
}

/// An open connection.
struct Open {
    connection: Arc<Connection>,
    /// When its user has agreed to it, in microseconds since 1970. 0: it is not a user's.
    authorized: i64,
}

/// A server, and the user whose account is used, if the server has accounts of users.
type SlotKey = (Uuid, Option<Uuid>);

/// The connections of one worker to all servers of all workspaces.
pub struct Connections {
    deps: ConnectorDeps,
    db: PgPool,
    bus: SharedBus,
    keys: Option<Arc<MasterKeys>>,
    limits: Limits,
    slots: DashMap<SlotKey, Arc<Slot>>,
    /// For tasks that must not keep it alive.
    me: Weak<Connections>,
}

#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Timeout until a server's greeting.
    pub connect: Duration,
    /// Default timeout of a call.
    pub call: Duration,
    /// Idle time after which a connection is closed.
    pub idle: Duration,
    /// How long the circuit breaker stays open.
    pub pause: Duration,
    /// The storage of files in answers.
    pub files: FileStore,
    /// The server's address for users. None: links are paths.
    pub origin: Option<String>,
}

impl Connections {
    pub(crate) fn new(
        deps: ConnectorDeps,
        db: PgPool,
        bus: SharedBus,
        keys: Option<Arc<MasterKeys>>,
        limits: Limits,
    ) -> Arc<Self> {
        let connections = Arc::new_cyclic(|me| Self {
            deps,
            db,
            bus,
            keys,
            limits,
            slots: DashMap::new(),
            me: me.clone(),
        });
        tokio::spawn(close_idle(connections.me.clone()));
        connections
    }

    pub(crate) fn files(&self) -> &FileStore {
        &self.limits.files
    }

    fn slot(&self, server: &Server, user_id: Option<Uuid>) -> Arc<Slot> {
        self.slots
            .entry((server.id, user_id.filter(|_| server.settings.is_per_user())))
            .or_insert_with(|| {
                Arc::new(Slot {
                    workspace_id: server.workspace_id,
                    connection: Mutex::new(None),
                    breaker: Breaker::new(self.limits.pause),
                })
            })
            .clone()
    }

    /// Calls a tool of a server for a user, and stores the files in its answer. `given`: what the call has asked for before.
    pub(crate) async fn call(
        &self,
        server: &Server,
        user_id: Option<Uuid>,
        tool: &str,
        arguments: Map<String, Value>,
        given: Option<&InputGiven>,
        keep: &dyn Keep,
    ) -> Result<Value, ToolError> {
        let name = &server.settings.name;
        let account = server.settings.is_per_user();
        if account && user_id.is_none() {
            return Err(ToolError::RespondToModel(format!(
                "the MCP server {name} acts with the account of the run's user, and this run has no user; use another tool"
            )));
        }
        let before;
        let given = match given.map(Answered::of) {
            None | Some(Answered::Forms) => given,
            Some(Answered::Account(kept)) => {
                before = kept;
                before.as_ref()
            }
            Some(Answered::NoAccount) => {
                return Err(ToolError::RespondToModel(format!(
                    "the user has not connected an account at {name}, so the call was not made. Do not repeat it: find \
                    another way, or say why you cannot"
                )));
            }
        };
        let kept = account.then(|| arguments.clone());
        let slot = self.slot(server, user_id);
        let admitted = slot.breaker.admit(Instant::now());
        let admitted = admitted.map_err(|wait| ToolError::RespondToModel(rest(name, wait)))?;
        let limit = server
            .settings
            .timeout_s
            .and_then(|seconds| u64::try_from(seconds).ok());
        let limit = limit.map_or(self.limits.call, Duration::from_secs);
        let outcome = match self.connected(&slot, server, user_id).await {
            Ok(connection) => connection.call(tool, arguments, given, limit, Some(keep)).await,
            Err(OpenError::Account(needed)) => Err(CallError::NeedsAccount(needed)),
            Err(error) => Err(CallError::Failed(format!(
                "the MCP server {name} cannot be reached: {error}"
            ))),
        };
        let kind = match &outcome {
            Ok(_) => "completed",
            Err(CallError::RespondToModel(_)) => "refused",
            Err(CallError::Failed(_)) => "failed",
            Err(CallError::NeedsInput(_)) => "input_required",
            Err(CallError::NeedsAccount(_)) => "account_required",
        };
        metrics::counter!("rejoin_mcp_calls_total", "server" => name.clone(), "outcome" => kind).increment(1);
        match outcome {
            Ok(value) => {
                admitted.succeeded();
                Ok(value)
            }
            Err(CallError::RespondToModel(words)) => {
                admitted.succeeded();
                Err(ToolError::RespondToModel(words))
            }
            Err(CallError::NeedsInput(needed)) => {
                admitted.succeeded();
                Err(ToolError::NeedsInput(needed))
            }
            Err(CallError::NeedsAccount(needed)) => {
                admitted.succeeded();
                Err(self.ask(server, user_id, needed, kept.unwrap_or_default(), given).await)
            }
            Err(CallError::Failed(words)) => {
                self.failed(admitted, &slot, server).await;
                let words = format!("{words}. It may work later, or with other arguments.");
                Err(ToolError::RespondToModel(words))
            }
        }
    }

    /// Ends a call that has asked for input and is not made again: the server may be at work on it.
    pub(crate) async fn abandon(&self, server: &Server, user_id: Option<Uuid>, state: &Value) {
        let pending = Pending::of(state);
        if matches!(pending, Pending::Call(_)) {
            return;
        }
        let slot = self.slot(server, user_id);
        match self.connected(&slot, server, user_id).await {
            Ok(connection) => connection.abandon(pending),
            Err(error) => warn!(
                server = server.settings.name,
                %error, "cancelling a task at an MCP server failed"
            ),
        }
    }

    /// Lists a server's tools, and stores the result.
    pub async fn look(&self, server: &Server) -> Result<offers::Listed, String> {
        let slot = self.slot(server, None);
        let admitted = slot
            .breaker
            .admit(Instant::now())
            .map_err(|wait| rest(&server.settings.name, wait))?;
        self.look_by(&slot, admitted, server, None).await
    }

    /// The same for a user, past an open circuit breaker. With accounts of users, that user's is used.
    pub async fn test(&self, server: &Server, user_id: Option<Uuid>) -> Result<offers::Listed, String> {
        let slot = self.slot(server, user_id);
        let admitted = slot.breaker.admit_anyway();
        self.look_by(&slot, admitted, server, user_id).await
    }

    async fn look_by(
        &self,
        slot: &Slot,
        admitted: Admitted<'_>,
        server: &Server,
        user_id: Option<Uuid>,
    ) -> Result<offers::Listed, String> {
        let listed = match self.connected(slot, server, user_id).await {
            Ok(connection) => connection.list().await.map(|listed| (connection, listed)),
            Err(OpenError::Account(needed)) => Err(format!("it requires an account of yours: {needed}")),
            Err(error) => Err(error.to_string()),
        };
        match listed {
            Ok((connection, listed)) => {
                admitted.succeeded();
                self.record(server, &connection, &listed)
                    .await
                    .map_err(|error| error.to_string())?;
                Ok(listed)
            }
            Err(error) => {
                self.failed(admitted, slot, server).await;
                // A server's text may contain characters that the database can't store.
                let reason = text::plain(error.clone());
                if let Err(error) = offers::record_failure(&self.db, server, &reason).await {
                    warn!(%error, "storing an MCP server's failure failed");
                }
                Err(error)
            }
        }
    }

    async fn failed(&self, admitted: Admitted<'_>, slot: &Slot, server: &Server) {
        if admitted.failed(Instant::now()) {
            let name = &server.settings.name;
            warn!(server = name, "an MCP server failed repeatedly; pausing it for a while");
            metrics::counter!("rejoin_mcp_breaker_opened_total", "server" => name.clone()).increment(1);
            // Its process may be the cause: the next call starts a new one.
            if let Some(open) = slot.connection.lock().await.take() {
                open.connection.close();
            }
        }
    }

    async fn record(
        &self,
        server: &Server,
        connection: &Connection,
        listed: &offers::Listed,
    ) -> Result<(), sqlx::Error> {
        let mut tx = rejoin_db::begin(&self.db).await?;
        let changes = offers::record(&mut tx, server, &connection.about(), listed).await?;
        tx.commit().await?;
        if changes {
            self.bus.publish(Wake::tools(server.workspace_id));
        }
        Ok(())
    }

    /// Returns the connection, opened if necessary.
    async fn connected(
        &self,
        slot: &Slot,
        server: &Server,
        user_id: Option<Uuid>,
    ) -> Result<Arc<Connection>, OpenError> {
        let mut held = slot.connection.lock().await;
        let account = self.account(server, user_id).await;
        let authorized = *account.as_ref().unwrap_or(&0);
        if let Some(open) = held.as_ref() {
            let Open { connection, .. } = open;
            let is_current = connection.revision == server.revision && open.authorized == authorized;
            if account.is_ok() && is_current && !connection.is_over() {
                return Ok(connection.clone());
            }
            connection.close();
            *held = None;
        }
        account?;
        let connect = || async {
            let filled = secrets::fill(&self.db, self.keys.as_deref(), server)
                .await
                .map_err(OpenError::Hopeless)?;
            let filled = self.for_user(server, user_id, filled).map_err(OpenError::Hopeless)?;
            let list_changed = Arc::new(Notify::new());
            let opening = Connection::open(&self.deps, server, filled, list_changed.clone());
            let opened = timeout(self.limits.connect, opening).await;
            let limit = self.limits.connect.as_secs();
            let connection = opened.map_err(|_| {
                OpenError::Again(format!(
                    "it did not complete the initialization \
                within {limit} s"
                ))
            })??;
            Ok::<_, OpenError>((connection, list_changed))
        };
        let tries = ExponentialBuilder::default()
            .with_min_delay(CONNECT_PAUSE)
            .with_max_times(CONNECT_TRIES - 1);
        let (connection, list_changed) = connect
            .retry(tries)
            .when(|error| matches!(error, OpenError::Again(_)))
            .await?;
        info!(server = server.settings.name, project = %server.workspace_id, "connected to an MCP server");
        tokio::spawn(follow(
            self.me.clone(),
            server.clone(),
            connection.clone(),
            list_changed,
        ));
        *held = Some(Open {
            connection: connection.clone(),
            authorized,
        });
        drop(held);
        // Its tools may have changed since the last listing. Calls don't wait for it.
        let (me, server, asked) = (self.me.clone(), server.clone(), connection.clone());
        tokio::spawn(async move {
            if let Some(connections) = me.upgrade() {
                connections.refresh(&server, &asked).await;
            }
        });
        Ok(connection)
    }

    /// Lists a server's tools again over an existing connection.
    async fn refresh(&self, server: &Server, connection: &Connection) {
        let refreshed = match connection.list().await {
            Ok(listed) => self
                .record(server, connection, &listed)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        if let Err(error) = refreshed {
            warn!(
                server = server.settings.name,
                error, "listing an MCP server's tools again failed"
            );
        }
    }

    /// Closes the workspace's connections to other servers: they were removed or disabled.
    pub async fn keep_only(&self, workspace_id: Uuid, servers: &[Server]) {
        let is_outdated = |(id, _): &SlotKey| !servers.iter().any(|server| server.id == *id && server.settings.enabled);
        let outdated: Vec<SlotKey> = self
            .slots
            .iter()
            .filter(|slot| slot.workspace_id == workspace_id && is_outdated(slot.key()))
            .map(|slot| *slot.key())
            .collect();
        for id in outdated {
            if let Some((_, slot)) = self.slots.remove(&id)
                && let Some(open) = slot.connection.lock().await.take()
            {
                open.connection.close();
            }
        }
    }

    /// Returns the workspaces that have used a server here.
    pub fn workspaces(&self) -> BTreeSet<Uuid> {
        self.slots.iter().map(|slot| slot.workspace_id).collect()
    }

    /// Closes all connections, and waits until their processes have ended.
    pub async fn close(&self) {
        let slots: Vec<Arc<Slot>> = self.slots.iter().map(|slot| slot.clone()).collect();
        for slot in slots {
            if let Some(open) = slot.connection.lock().await.take() {
                open.connection.close();
            }
        }
        self.slots.clear();
        self.deps.processes.tasks.close();
        self.deps.processes.tasks.wait().await;
    }
}

fn rest(server: &str, wait: Duration) -> String {
    format!(
        "the MCP server {server} has failed repeatedly and is paused for another {} s; use another tool, or report \
        that it does not work",
        wait.as_secs().max(1)
    )
}

/// Lists a server's tools again on change notifications, with a pause between: notifications in between count once.
async fn follow(
    connections: Weak<Connections>,
    server: Server,
    connection: Arc<Connection>,
    list_changed: Arc<Notify>,
) {
    loop {
        tokio::select! {
            () = list_changed.notified() => {}
            () = connection.ended() => return,
        }
        let Some(connections) = connections.upgrade() else {
            return;
        };
        connections.refresh(&server, &connection).await;
        drop(connections);
        tokio::select! {
            () = tokio::time::sleep(RELIST_PAUSE) => {}
            () = connection.ended() => return,
        }
    }
}

async fn close_idle(connections: Weak<Connections>) {
    loop {
        tokio::time::sleep(IDLE_LOOK).await;
        let Some(connections) = connections.upgrade() else {
            return;
        };
        let slots: Vec<(SlotKey, Arc<Slot>)> = connections
            .slots
            .iter()
            .map(|slot| (*slot.key(), slot.clone()))
            .collect();
        for (key, slot) in slots {
            // The lock's holder is using it.
            let Ok(mut held) = slot.connection.try_lock() else {
                continue;
            };
            if let Some(open) = held.take_if(|open| open.connection.idle() > connections.limits.idle) {
                open.connection.close();
                if key.1.is_some() {
                    // There may be many users.
                    connections
                        .slots
                        .remove_if(&key, |_, slot| Arc::strong_count(slot) == SLOT_UNUSED);
                }
            }
        }
    }
}
