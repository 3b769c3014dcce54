//! The wake-up bus over LISTEN/NOTIFY.
//!
//! NOTIFY takes an instance-wide lock at commit, so it is never part of a data transaction: hints are collected here
//! and sent as one notification at most every [`COALESCE`], over their own connection. The listening connection is
//! probed by a notification to itself: a silent one is replaced, and all waiters poll everything.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, mpsc};
use tokio::time::{Instant, timeout};
use tracing::debug;
use uuid::Uuid;

use super::{Bus, Hearing, Wake};
use rejoin_db::Db;
use rejoin_db::failure_log::{ErrorChain, FailureLog};

/// The NOTIFY channel.
pub const CHANNEL: &str = "rejoin";
/// Minimum interval between notifications; hints of that time are sent together.
const COALESCE: Duration = Duration::from_millis(1);
/// Maximum number of ids in a notification; more are sent as "poll everything": a payload holds 8,000 bytes at most,
/// and an id takes 39.
const MAX_IDS: usize = 150;
/// Maximum number of unsent hints; further ones are dropped (they are hints).
const OUTBOX: usize = 4096;
/// Maximum number of hints that a slow receiver may lag behind.
const CAPACITY: usize = 1024;
/// Interval of probes of the listening connection, and their timeout: a dead connection is detected within both.
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// Interval between connection attempts.
const RECONNECT: Duration = Duration::from_millis(500);
/// Prefix of probes; other processes ignore them.
const PROBE: &str = "probe:";

pub struct PostgresBus {
    outbox: mpsc::Sender<Wake>,
    local: broadcast::Sender<Arc<Wake>>,
    listening: Arc<AtomicBool>,
}

impl PostgresBus {
    /// Each listening session executes `first` to begin with.
    pub fn start(db: Db, first: String) -> Self {
        let (outbox, inbox) = mpsc::channel(OUTBOX);
        let local = broadcast::channel(CAPACITY).0;
        tokio::spawn(send(db.clone(), inbox));
        let listening = Arc::new(AtomicBool::new(false));
        tokio::spawn(listen(db, local.clone(), listening.clone(), first));
        Self {
            outbox,
            local,
            listening,
        }
    }
}

impl Bus for PostgresBus {
    fn publish(&self, wake: Wake) {
        // A full outbox means that the database is unreachable or slow; the others will poll.
        let _ = self.outbox.try_send(wake);
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<Wake>> {
        self.local.subscribe()
    }

    fn hearing(&self) -> Hearing {
        if self.listening.load(Ordering::Relaxed) {
            Hearing::Listening
        } else {
            Hearing::Lost
        }
    }
}

/// Sends gathered hints until the bus is dropped.
async fn send(db: Db, mut inbox: mpsc::Receiver<Wake>) {
    let mut pending = Wake::default();
    loop {
        if pending.is_empty() {
            let Some(first) = inbox.recv().await else { return };
            pending = first;
        }
        while let Ok(more) = inbox.try_recv() {
            pending.merge(more);
        }
        let mut wake = std::mem::take(&mut pending);
        let was_urgent = wake.is_urgent();
        if wake.ids() > MAX_IDS {
            wake = Wake {
                queues: wake.queues,
                all: true,
                ..Wake::default()
            };
        }
        let payload = serde_json::to_string(&wake).expect("a wake-up is plain data");
        if let Err(error) = notify(&db, &payload).await {
            debug!(error = %ErrorChain(&*error), "sending a wake-up failed; it is lost");
            tokio::time::sleep(RECONNECT).await;
        }
        // The first hint is sent immediately; those within this time together. What work waits for is not delayed by readers' hints.
        let mut coalescing = pin!(tokio::time::sleep(COALESCE));
        while was_urgent || !pending.is_urgent() {
            tokio::select! {
                () = &mut coalescing => break,
                more = inbox.recv() => match more {
                    Some(more) => pending.merge(more),
                    // What is pending is sent first.
                    None => break,
                },
            }
        }
    }
}

async fn notify(db: &Db, payload: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let client = db.pool_pg.get().await?;
    let statement = client.prepare_cached("select pg_notify($1, $2)").await?;
    client.execute(&statement, &[&CHANNEL, &payload]).await?;
    Ok(())
}

/// Listens, and reconnects whenever the connection fails.
async fn listen(db: Db, local: broadcast::Sender<Arc<Wake>>, listening: Arc<AtomicBool>, first: String) {
    let first = format!("{first}; listen {CHANNEL}");
    let me = Uuid::now_v7().to_string();
    let mut outage = FailureLog::of("listening for wake-ups");
    loop {
        let started = Instant::now();
        if let Err(error) = listen_once(&db, &local, &me, &first, &listening, &mut outage).await {
            listening.store(false, Ordering::Relaxed);
            outage.failed(ErrorChain(&error));
        }
        // Notifications sent meanwhile are lost: poll everything.
        let _ = local.send(Arc::new(Wake::everything()));
        if started.elapsed() < RECONNECT {
            tokio::time::sleep(RECONNECT).await;
        }
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

async fn listen_once(
    db: &Db,
    local: &broadcast::Sender<Arc<Wake>>,
    me: &str,
    first: &str,
    listening: &AtomicBool,
    outage: &mut FailureLog,
) -> Result<(), ListenError> {
    let answered = Arc::new(Notify::new());

    let on_notice = {
        let (answered, local) = (answered.clone(), local.clone());
        let my_probe = format!("{PROBE}{me}");
        move |notice: tokio_postgres::Notification| {
            if notice.payload() == my_probe {
                answered.notify_one();
            } else if !notice.payload().starts_with(PROBE) {
                // An unreadable payload may come from a newer version: poll everything.
                let wake = serde_json::from_str(notice.payload()).unwrap_or_else(|_| Wake::everything());
                let _ = local.send(Arc::new(wake));
            }
        }
    };
    let connect = db.connector().listen_connection(on_notice);
    let (client, mut connection) = timeout(PROBE_LIMIT * 2, connect)
        .await
        .map_err(|_| ListenError::Silent)??;
    // Dropped with this future: a black-holed connection's task must not linger.
    let _guard = AbortOnDrop(connection.abort_handle());
    timeout(PROBE_LIMIT, client.batch_execute(first))
        .await
        .map_err(|_| ListenError::Silent)??;
    listening.store(true, Ordering::Relaxed);
    outage.over();
    let _ = local.send(Arc::new(Wake::everything()));
    loop {
        tokio::select! {
            () = tokio::time::sleep(PROBE_EVERY) => {}
            _ = &mut connection => return Err(ListenError::Closed),
        }
        let probe = async {
            client
                .execute("select pg_notify($1, $2)", &[&CHANNEL, &format!("{PROBE}{me}")])
                .await?;
            answered.notified().await;
            Ok::<_, ListenError>(())
        };
        timeout(PROBE_LIMIT, probe).await.map_err(|_| ListenError::Silent)??;
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
