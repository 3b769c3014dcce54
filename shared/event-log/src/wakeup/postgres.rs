//! The wake-up bus over LISTEN/NOTIFY.
//!
//! NOTIFY takes an instance-wide lock at commit, so it is never part of a data transaction: hints are collected in the
//! outbox and sent over their own connection. The listening connection is
//! probed by a notification to itself: a silent one is replaced, and all waiters poll everything.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::outbox::Carrier;
use super::payload::Key;
use super::remote::{Inbox, RemoteBus};
use rejoin_db::Db;
use rejoin_db::failure_log::{ErrorChain, FailureLog};

/// The NOTIFY channel.
pub const CHANNEL: &str = "rejoin";
/// Interval of probes of the listening connection, and their timeout: a dead connection is detected within both.
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// Interval between connection attempts.
const RECONNECT: Duration = Duration::from_millis(500);
/// Prefix of probes; other processes ignore them.
const PROBE: &str = "probe:";

/// Starts the bus. Each listening session executes `first` to begin with.
pub(super) fn start(db: Db, first: String) -> RemoteBus {
    let (key, inbox) = (Key::default(), Inbox::new());
    let listener = Listener {
        db: db.clone(),
        inbox: inbox.clone(),
        key: key.clone(),
        me: Uuid::now_v7().to_string(),
        first: format!("{first}; listen {CHANNEL}"),
    };
    tokio::spawn(listener.run());
    RemoteBus::new(key, Notifier(db), inbox)
}

/// Notifies over the pool of the hot paths.
struct Notifier(Db);

impl Carrier for Notifier {
    async fn send(&self, message: String) -> Result<(), Box<dyn Error + Send + Sync>> {
        let client = self.0.pool_pg.get().await?;
        let statement = client.prepare_cached("select pg_notify($1, $2)").await?;
        client.execute(&statement, &[&CHANNEL, &message]).await?;
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
enum ListenError {
    #[error("the database cannot be reached")]
    Postgres(#[from] tokio_postgres::Error),
    #[error("no response to a probe within {} s", PROBE_LIMIT.as_secs())]
    Silent,
    #[error("the connection was closed")]
    Closed,
}

/// The listening side.
struct Listener {
    db: Db,
    inbox: Inbox,
    key: Key,
    /// Marks probes as this process's.
    me: String,
    /// The first statements of each session.
    first: String,
}

impl Listener {
    /// Listens, and reconnects whenever the connection fails.
    async fn run(self) {
        let mut outage = FailureLog::of("listening for wake-ups");
        loop {
            let started = Instant::now();
            if let Err(error) = self.listen_once(&mut outage).await {
                self.inbox.set_listening(false);
                outage.failed(ErrorChain(&error));
            }
            // Notifications sent meanwhile are lost: poll everything.
            self.inbox.wake_all();
            if started.elapsed() < RECONNECT {
                tokio::time::sleep(RECONNECT).await;
            }
        }
    }

    async fn listen_once(&self, outage: &mut FailureLog) -> Result<(), ListenError> {
        let answered = Arc::new(Notify::new());
        let on_notice = {
            let (answered, inbox, key) = (answered.clone(), self.inbox.clone(), self.key.clone());
            let my_probe = format!("{PROBE}{}", self.me);
            move |notice: tokio_postgres::Notification| {
                if notice.payload() == my_probe {
                    answered.notify_one();
                } else if !notice.payload().starts_with(PROBE) {
                    inbox.deliver(key.wake(notice.payload().as_bytes()));
                }
            }
        };
        let connect = self.db.connector().listen_connection(on_notice);
        let (client, mut connection) = timeout(PROBE_LIMIT * 2, connect)
            .await
            .map_err(|_| ListenError::Silent)??;
        // Dropped with this future: a black-holed connection's task must not linger.
        let _guard = AbortOnDrop(connection.abort_handle());
        timeout(PROBE_LIMIT, async {
            self.key.read(&client).await?;
            client.batch_execute(&self.first).await
        })
        .await
        .map_err(|_| ListenError::Silent)??;
        self.inbox.set_listening(true);
        outage.over();
        self.inbox.wake_all();
        loop {
            tokio::select! {
                () = tokio::time::sleep(PROBE_EVERY) => {}
                _ = &mut connection => return Err(ListenError::Closed),
            }
            let probe = async {
                client
                    .execute("select pg_notify($1, $2)", &[&CHANNEL, &format!("{PROBE}{}", self.me)])
                    .await?;
                answered.notified().await;
                Ok::<_, ListenError>(())
            };
            timeout(PROBE_LIMIT, probe).await.map_err(|_| ListenError::Silent)??;
        }
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
