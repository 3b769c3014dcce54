//! Keeps the options of a pool of sqlx current: the server to connect to, and the password.
//!
//! sqlx reads a pool's options for each connection attempt, and repeats attempts for as long as a caller waits. A task replaces the options
//! when a connection was lost, a server refused writes or a login, or the password has changed. With one server and a password that does not
//! change there is no task.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{Connection as _, PgPool};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::config::Secret;
use crate::connection_loss::{self, ConnectionLoss};
use crate::failure_log::{ErrorChain, FailureLog};
use crate::password::Password;
use crate::servers::Servers;
use crate::startup::Startup;

/// Interval between searches for a server that accepts writes, and between attempts to get the password.
const RETRY: Duration = Duration::from_millis(500);
/// Timeout of closing the connection of a search.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// The wait where nothing has to be looked at by time.
const NEVER: Duration = Duration::from_secs(86_400);

/// The task; it ends with the last handle.
#[derive(Debug)]
pub(crate) struct Follower(AbortHandle);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts the task, if one is needed.
pub(crate) fn start(
    servers: &Arc<Servers>,
    startup: &Startup,
    pool: &PgPool,
    loss: &ConnectionLoss,
) -> Option<Follower> {
    if !servers.may_change() {
        return None;
    }
    let following = Following {
        servers: servers.clone(),
        startup: startup.clone(),
        pool: pool.clone(),
        is_found: !servers.are_several(),
        applied: None,
        searching: FailureLog::of("looking for the database server that accepts writes"),
        reading: FailureLog::of("reading the database password"),
    };
    Some(Follower(tokio::spawn(following.run(loss.clone())).abort_handle()))
}

struct Following {
    servers: Arc<Servers>,
    startup: Startup,
    pool: PgPool,
    /// Whether the current server is believed to be the right one.
    is_found: bool,
    /// Server and password of the pool's options.
    applied: Option<(usize, Option<Secret>)>,
    searching: FailureLog,
    reading: FailureLog,
}

impl Following {
    async fn run(mut self, loss: ConnectionLoss) {
        let mut lost = loss.subscribe();
        let mut read_only = connection_loss::read_only();
        let mut refused = connection_loss::login_refused();
        let password = self.servers.password().cloned();
        let mut answers = password.as_ref().map(|password| password.changes());
        loop {
            if !self.is_found {
                self.is_found = self.search().await;
            }
            let is_applied = self.apply(password.as_deref()).await;
            let wait = if self.is_found && is_applied {
                until_look(password.as_deref()).await
            } else {
                RETRY
            };
            tokio::select! {
                Ok(()) = lost.changed() => self.is_found = !self.servers.are_several(),
                Ok(()) = read_only.changed() => self.is_found = !self.servers.are_several(),
                Ok(()) = refused.changed() => self.renew(password.as_deref()).await,
                () = changed(&mut answers) => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Returns whether the server that accepts connections was found.
    async fn search(&mut self) -> bool {
        match self.servers.connect(&self.startup).await {
            Ok(connection) => {
                // It has served its purpose.
                let _ = tokio::time::timeout(CLOSE_LIMIT, connection.close()).await;
                self.searching.over();
                true
            }
            Err(error) => {
                self.searching.failed(ErrorChain(&error));
                false
            }
        }
    }

    /// Replaces the pool's options, if others are current. Returns whether they are.
    async fn apply(&mut self, source: Option<&Password>) -> bool {
        let password = match source {
            None => None,
            Some(source) => match source.current().await {
                Ok(password) => Some(password),
                Err(error) => {
                    self.reading.failed(ErrorChain(&error));
                    return false;
                }
            },
        };
        self.reading.over();
        let current = (self.servers.current(), password);
        if self.applied.as_ref() != Some(&current) {
            let options = self.servers.sqlx(current.0, &self.startup, current.1.as_ref());
            self.pool.set_connect_options(options);
            self.applied = Some(current);
        }
        true
    }

    /// Looks for another password than the one that was refused.
    async fn renew(&self, source: Option<&Password>) {
        if let (Some(source), Some((_, Some(password)))) = (source, &self.applied) {
            // `apply` uses the new one.
            let _ = source.renewed(password).await;
        }
    }
}

/// Returns how long nothing has to be looked at.
async fn until_look(password: Option<&Password>) -> Duration {
    match password {
        Some(password) => password.next_look().await.saturating_duration_since(Instant::now()),
        None => NEVER,
    }
}

/// Waits for another answer of the password's command.
async fn changed(answers: &mut Option<watch::Receiver<u64>>) {
    let is_changed = match answers {
        Some(answers) => answers.changed().await.is_ok(),
        None => false,
    };
    if !is_changed {
        std::future::pending::<()>().await;
    }
}
