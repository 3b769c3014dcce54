//! Connections of tokio-postgres: those of the hot paths' pool, and the one that listens.
//!
//! Each is driven by a task of its owner's. Of several servers, the one that accepted the last connection is tried first (`servers`).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use deadpool_postgres::{Connect, Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, NoTlsStream};
use tokio_postgres::{AsyncMessage, Client, Connection, Error, Notification, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::{debug, warn};

use crate::config::Secret;
use crate::connection_loss::{self, ConnectionLoss};
use crate::errors::is_transient_pg;
use crate::failure_log::ErrorChain;
use crate::password::Password;
use crate::servers::Servers;
use crate::session::Session;
use crate::startup::Startup;

/// Timeout of one server's whole login, where there are others to try.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Creates tokio-postgres connections.
#[derive(Clone)]
pub struct Connector {
    servers: Arc<Servers>,
    /// Shared: handles to the database are cloned for every job.
    startup: Arc<Startup>,
    loss: ConnectionLoss,
}

impl Connector {
    pub(crate) fn new(servers: Arc<Servers>, startup: Startup, loss: ConnectionLoss) -> Self {
        Self {
            servers,
            startup: Arc::new(startup),
            loss,
        }
    }

    /// Creates a pool of such connections, each of which is checked first. Waiting for one, and opening one, are limited.
    pub(crate) fn pool(
        &self,
        max_size: usize,
        session: Session,
        limit: Duration,
    ) -> Result<Pool, deadpool_postgres::BuildError> {
        let config = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        // Each connection gets its configuration from `servers`.
        let manager = Manager::from_connect(tokio_postgres::Config::new(), self.clone(), config);
        let mut pool = Pool::builder(manager)
            .max_size(max_size)
            // The last one used: its server process has plans and pages at hand.
            .queue_mode(QueueMode::Lifo)
            .post_create(Hook::async_fn(move |client, _| {
                let session = session.clone();
                Box::pin(async move {
                    let checked = session.check_pg(client).await;
                    checked.map_err(|error| HookError::message(ErrorChain(&error).to_string()))
                })
            }))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(limit))
            .create_timeout(Some(limit));
        if self.servers.are_several() {
            pool = pool.pre_recycle(Hook::sync_fn(|_, metrics| {
                if connection_loss::is_read_only_since(metrics.last_used()) {
                    return Err(HookError::message("its server may have become a standby"));
                }
                Ok(())
            }));
        }
        pool.build()
    }

    /// Opens a separate connection, with the stream of its notifications.
    pub async fn listen_connection(
        &self,
        mut on_notice: impl FnMut(Notification) + Send + 'static,
    ) -> Result<(Client, JoinHandle<()>), Error> {
        let (client, mut connection) = self.open().await?;
        let loss = self.loss.clone();
        let task = tokio::spawn(async move {
            loop {
                match poll_fn(|cx| connection.poll_message(cx)).await {
                    Some(Ok(AsyncMessage::Notification(notice))) => on_notice(notice),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => {
                        loss.record();
                        return;
                    }
                }
            }
        });
        Ok((client, task))
    }

    /// Opens a connection of the hot paths.
    async fn pooled_connection(&self) -> Result<(Client, JoinHandle<()>), Error> {
        let (client, mut connection) = self.open().await?;
        // With one server, nothing has to be looked for.
        let loss = self.servers.are_several().then(|| self.loss.clone());
        let task = tokio::spawn(async move {
            loop {
                let end = match poll_fn(|cx| connection.poll_message(cx)).await {
                    Some(Ok(_)) => continue,
                    Some(Err(error)) => Some(error),
                    None => None,
                };
                // The pool ends this task with the connection; otherwise, its server did.
                if let Some(error) = end {
                    warn!(target: "deadpool.postgres", "Connection error: {}", ErrorChain(&error));
                }
                if let Some(loss) = &loss {
                    loss.record();
                }
                return;
            }
        });
        Ok((client, task))
    }

    /// Connects to the one server, or to the first that may be used.
    async fn open(&self) -> Result<(Client, Driver), Error> {
        let order = self.servers.order();
        let (last, others) = order.split_last().expect("a URL has a server");
        for at in others {
            match timeout(LOGIN_TIMEOUT, self.log_in(*at)).await {
                Ok(Ok(opened)) => {
                    self.servers.found(*at);
                    return Ok(opened);
                }
                // The others would refuse it, too.
                Ok(Err(error)) if error.as_db_error().is_some() && !is_transient_pg(&error) => return Err(error),
                Ok(Err(error)) => debug!(error = %ErrorChain(&error), "trying the next database server"),
                Err(_) => debug!("no response within {LOGIN_TIMEOUT:?}; trying the next database server"),
            }
        }
        // The caller limits the time of the last one.
        let opened = self.log_in(*last).await;
        if opened.is_ok() {
            self.servers.found(*last);
        } else if self.servers.are_several() {
            // `follow` looks for one meanwhile.
            self.loss.record();
        }
        opened
    }

    async fn log_in(&self, at: usize) -> Result<(Client, Driver), Error> {
        let Some(source) = self.servers.password() else {
            return self.connect_to(at, None).await;
        };
        let password = password_of(source).await;
        let connected = self.connect_to(at, password.as_ref()).await;
        match (connected, password) {
            (Err(error), Some(password)) if is_refused_login(&error) => match source.renewed(&password).await {
                Some(renewed) => self.connect_to(at, Some(&renewed)).await,
                None => Err(error),
            },
            (connected, _) => connected,
        }
    }

    async fn connect_to(&self, at: usize, password: Option<&Secret>) -> Result<(Client, Driver), Error> {
        let (config, tls) = self.servers.tokio_postgres(at, &self.startup, password);
        let connector = match tls.connector() {
            Ok(connector) => connector,
            Err(error) => {
                // The driver's errors can't carry it; without TLS, the connection fails if TLS is required.
                warn!(error = %ErrorChain(&error), "a connection to the database can't use TLS");
                None
            }
        };
        match connector {
            Some(tls) => {
                let (client, connection) = config.connect(tls).await?;
                Ok((client, Driver::Tls(Box::new(connection))))
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                Ok((client, Driver::Plain(Box::new(connection))))
            }
        }
    }
}

impl Connect for Connector {
    fn connect(
        &self,
        _config: &tokio_postgres::Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + '_>> {
        Box::pin(self.pooled_connection())
    }
}

/// The protocol's side of a connection.
enum Driver {
    Plain(Box<Connection<Socket, NoTlsStream>>),
    Tls(Box<Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>>),
}

impl Driver {
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> {
        match self {
            Driver::Plain(connection) => connection.poll_message(cx),
            Driver::Tls(connection) => connection.poll_message(cx),
        }
    }
}

/// None: it can't be read, which is logged; the server then refuses the login.
async fn password_of(source: &Password) -> Option<Secret> {
    match source.current().await {
        Ok(password) => Some(password),
        Err(error) => {
            warn!(error = %ErrorChain(&error), "a connection to the database has no password");
            None
        }
    }
}

fn is_refused_login(error: &Error) -> bool {
    matches!(error.code().map(|code| code.code()), Some("28P01" | "28000"))
}
