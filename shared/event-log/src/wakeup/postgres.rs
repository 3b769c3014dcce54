//! The wake-up bus over LISTEN/NOTIFY.
//!
//! NOTIFY takes an instance-wide lock at commit, so it is never part of a data transaction: hints are collected here
//! and sent as one notification at most every [`COALESCE`], over their own connection. The listening connection is
//! probed by a notification to itself: a silent one is replaced, and all waiters poll everything.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, mpsc};
use tokio::time::{Instant, timeout};
use tracing::debug;
use uuid::Uuid;

use super::carried::{self, Cipher};
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
/// Maximum size of a payload, in bytes: PostgreSQL's limit.
const MAX_PAYLOAD_BYTES: usize = 7_999;
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
        let key = Key::default();
        tokio::spawn(send(db.clone(), key.clone(), inbox));
        let listening = Arc::new(AtomicBool::new(false));
        let listener = Listener {
            db,
            local: local.clone(),
            listening: listening.clone(),
            key,
            me: Uuid::now_v7().to_string(),
            first: format!("{first}; listen {CHANNEL}"),
        };
        tokio::spawn(listener.run());
        Self {
            outbox,
            local,
            listening,
        }
    }
}

/// The key of what hints carry, once it was read.
#[derive(Clone, Default)]
struct Key(Arc<RwLock<Option<Cipher>>>);

impl Key {
    fn set(&self, cipher: Option<Cipher>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = cipher;
    }

    fn with<T>(&self, act: impl FnOnce(&Cipher) -> Option<T>) -> Option<T> {
        act(self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref()?)
    }

    /// Returns the text of a notification, with the carried events if they can be encrypted and fit.
    fn payload(&self, mut wake: Wake) -> String {
        if !wake.rows.is_empty() {
            wake.sealed = self.with(|cipher| cipher.seal(&wake.rows));
            let payload = text(&wake);
            if wake.sealed.take().is_some() && wake.ids() <= MAX_IDS && payload.len() <= MAX_PAYLOAD_BYTES {
                return payload;
            }
            wake.carry_nothing();
        }
        if wake.ids() > MAX_IDS {
            wake = Wake {
                queues: wake.queues,
                all: true,
                ..Wake::default()
            };
        }
        text(&wake)
    }

    /// Reads a payload. One that is unreadable may come from a newer version: poll everything.
    fn wake(&self, payload: &str) -> Wake {
        let mut wake: Wake = serde_json::from_str(payload).unwrap_or_else(|_| Wake::everything());
        if let Some(sealed) = wake.sealed.take() {
            match self.with(|cipher| cipher.open(&sealed)) {
                Some(rows) => wake.rows = rows,
                None => wake.all = true,
            }
        }
        wake
    }
}

fn text(wake: &Wake) -> String {
    serde_json::to_string(wake).expect("a wake-up is plain data")
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
async fn send(db: Db, key: Key, mut inbox: mpsc::Receiver<Wake>) {
    let mut pending = Wake::default();
    loop {
        if pending.is_empty() {
            let Some(first) = inbox.recv().await else { return };
            pending = first;
        }
        while let Ok(more) = inbox.try_recv() {
            pending.merge(more);
        }
        let wake = std::mem::take(&mut pending);
        let was_urgent = wake.is_urgent();
        let payload = key.payload(wake);
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
    local: broadcast::Sender<Arc<Wake>>,
    listening: Arc<AtomicBool>,
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
                self.listening.store(false, Ordering::Relaxed);
                outage.failed(ErrorChain(&error));
            }
            // Notifications sent meanwhile are lost: poll everything.
            let _ = self.local.send(Arc::new(Wake::everything()));
            if started.elapsed() < RECONNECT {
                tokio::time::sleep(RECONNECT).await;
            }
        }
    }

    async fn listen_once(&self, outage: &mut FailureLog) -> Result<(), ListenError> {
        let answered = Arc::new(Notify::new());
        let on_notice = {
            let (answered, local, key) = (answered.clone(), self.local.clone(), self.key.clone());
            let my_probe = format!("{PROBE}{}", self.me);
            move |notice: tokio_postgres::Notification| {
                if notice.payload() == my_probe {
                    answered.notify_one();
                } else if !notice.payload().starts_with(PROBE) {
                    let _ = local.send(Arc::new(key.wake(notice.payload())));
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
            self.key.set(read_key(&client).await?);
            client.batch_execute(&self.first).await
        })
        .await
        .map_err(|_| ListenError::Silent)??;
        self.listening.store(true, Ordering::Relaxed);
        outage.over();
        let _ = self.local.send(Arc::new(Wake::everything()));
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

/// None: there is no key, or this role may not read it. Hints then carry nothing.
async fn read_key(client: &tokio_postgres::Client) -> Result<Option<Cipher>, tokio_postgres::Error> {
    match client.query_opt(carried::KEY, &[]).await {
        Ok(row) => Ok(row.and_then(|row| Cipher::new(row.get(0)))),
        Err(error) if error.as_db_error().is_some() => {
            debug!(error = %ErrorChain(&error), "wake-ups carry no events: their key cannot be read");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
