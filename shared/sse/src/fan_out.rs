//! The live ends of followed logs.
//!
//! One spawned future per process waits for wake-ups, gathers the logs that they name, and reads new events of ALL of
//! them with one query; each event is rendered once into its log's ring, which all readers share. It also polls every
//! followed log each [`poll_interval`]: a lost wake-up costs at most that (invariant I11).
//!
//! - `checks` ends streams that must not go on

mod checks;

use std::collections::vec_deque::Iter;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use rejoin_db::config::poll_interval;
use rejoin_db::failure_log::ErrorChain;
use rejoin_event_log::log;
use rejoin_event_log::rows::StoredEvent;
use rejoin_event_log::wakeup::{self, SharedBus, Wake};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use checks::Epochs;

use super::frame::Frame;
use super::ring::{LogTail, Polled};
use super::source::{Cursor, Source};
use super::streams::Streams;
use super::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use super::sync::{Instant, Mutex, MutexGuard, PoisonError, sleep, sleep_until, timeout};
use crate::settings::StreamArgs;

/// Pause of the tail after a read, as a multiple of its duration, within these bounds: the higher the load, the more
/// events are read together. The first read after a pause is immediate.
const COALESCE_FACTOR: u32 = 2;
const COALESCE_MIN: Duration = Duration::from_millis(1);
const COALESCE_MAX: Duration = Duration::from_millis(15);
/// Number of checks by readers between two heartbeats.
const TICKS_PER_HEARTBEAT: u32 = 4;
/// Maximum number of logs per query.
const LOGS_PER_QUERY: usize = 256;
/// Timeout of a query, which is then retried.
const QUERY_LIMIT: Duration = Duration::from_secs(5);
/// Retry interval while the database is unreachable.
const RETRY: Duration = Duration::from_millis(200);

pub struct Hub {
    followed: Mutex<HashMap<Uuid, Followed>>,
    /// Logs to poll without a wake-up: they have new followers.
    subscribed: Mutex<HashSet<Uuid>>,
    new_subscription: Notify,
    pub streams: Arc<Streams>,
    pub source: Box<dyn Source>,
    pub counters: Counters,
    heartbeat: Duration,
    epochs: Epochs,
    /// Changes when readers must check whether their stream has to end, and how long it was silent.
    tick: AtomicU64,
    /// The server is stopping: readers must reconnect elsewhere.
    draining: AtomicBool,
    stop: CancellationToken,
}

/// Metrics of streams: looked up once, not for every event.
pub struct Counters {
    pub events: Counter,
    pub bytes: Counter,
    pub pages: Counter,
    queries: Counter,
    query_seconds: Histogram,
    by_hint: Counter,
}

impl Counters {
    fn new() -> Self {
        Self {
            events: counter!("rejoin_events_delivered_total"),
            bytes: counter!("rejoin_stream_bytes_total"),
            pages: counter!("rejoin_log_reads_total"),
            queries: counter!("rejoin_tail_queries_total"),
            query_seconds: histogram!("rejoin_tail_query_seconds"),
            by_hint: counter!("rejoin_events_by_hint_total"),
        }
    }
}

struct Followed {
    tail: Arc<LogTail>,
    readers: usize,
}

/// Locks a mutex that a panicking holder never leaves half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reader's subscription to a log's live end.
pub struct Subscription {
    hub: Arc<Hub>,
    pub log_id: Uuid,
    tail: Arc<LogTail>,
    /// Its slot among the tail's readers.
    place: usize,
}

impl Subscription {
    /// Passes events after `cursor` to `take`; without any, `waker` is woken by the next one, or by the next beat.
    pub fn poll_log<T>(&self, waker: &Waker, cursor: i64, take: impl FnOnce(Iter<'_, Frame>) -> T) -> Polled<T> {
        self.tail.poll_log(self.place, waker, cursor, take)
    }

    /// Waits as if there were no events after the cursor.
    pub fn wait(&self, waker: &Waker) {
        self.tail.wait(self.place, waker);
    }

    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Returns whether the log was deleted.
    pub fn is_gone(&self) -> bool {
        self.tail.is_gone()
    }

    /// Returns whether the log was shortened: the database was restored to an earlier state.
    pub fn is_taken_back(&self) -> bool {
        self.tail.is_taken_back()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.tail.leave(self.place);
        let mut followed = lock(&self.hub.followed);
        // After a shortening, others may already follow a new tail.
        if let Some(entry) = followed.get_mut(&self.log_id)
            && Arc::ptr_eq(&entry.tail, &self.tail)
        {
            entry.readers -= 1;
            if entry.readers == 0 {
                followed.remove(&self.log_id);
            }
        }
    }
}

impl Hub {
    /// Requires an installed metrics recorder.
    pub fn start(
        source: impl Source + 'static,
        bus: SharedBus,
        args: &StreamArgs,
        draining: CancellationToken,
    ) -> Arc<Self> {
        let hub = Arc::new(Self::new(
            source,
            Streams::new(
                args.max_streams,
                args.max_streams_per_user,
                args.max_streams_per_project,
            ),
            args.heartbeat(),
        ));
        tokio::spawn(hub.clone().run(bus, draining));
        hub
    }

    pub(super) fn new(source: impl Source + 'static, streams: Streams, heartbeat: Duration) -> Self {
        Self {
            followed: Mutex::default(),
            subscribed: Mutex::default(),
            new_subscription: Notify::new(),
            streams: Arc::new(streams),
            source: Box::new(source),
            counters: Counters::new(),
            heartbeat,
            epochs: Epochs::default(),
            tick: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            stop: CancellationToken::new(),
        }
    }

    /// Serves the readers until [`Hub::stop`].
    pub(super) async fn run(self: Arc<Self>, bus: SharedBus, draining: CancellationToken) {
        let stop = self.stop.clone();
        let follow = self.clone().follow_logs(bus);
        let check = self.clone().check_streams();
        let tick = self.keep_ticking(draining);
        stop.run_until_cancelled(async { tokio::join!(follow, check, tick) })
            .await;
    }

    pub fn tick(&self) -> u64 {
        self.tick.load(Ordering::Acquire)
    }

    /// Returns the silence after which a stream sends a heartbeat at a beat: the next beat would be too late.
    pub fn silence(&self) -> Duration {
        self.heartbeat - self.heartbeat / TICKS_PER_HEARTBEAT
    }

    /// Returns whether readers must reconnect elsewhere.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    async fn keep_ticking(self: Arc<Self>, draining: CancellationToken) {
        while timeout(self.heartbeat / TICKS_PER_HEARTBEAT, draining.cancelled())
            .await
            .is_err()
        {
            self.wake_all();
        }
        self.draining.store(true, Ordering::Release);
        self.wake_all();
    }

    /// Wakes all readers for checks.
    fn wake_all(&self) {
        self.tick.fetch_add(1, Ordering::Release);
        let tails: Vec<Arc<LogTail>> = lock(&self.followed).values().map(|entry| entry.tail.clone()).collect();
        for tail in tails {
            tail.wake();
        }
    }

    /// Asks the readers of a workspace to reconnect: it has moved to another database.
    pub fn send_away(&self, workspace_id: Uuid) {
        if self.streams.send_away(workspace_id) > 0 {
            self.wake_all();
        }
    }

    /// Ends [`Hub::run`].
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Begins to follow a log whose last number was recently `last_seq`.
    pub fn subscribe(self: &Arc<Self>, log_id: Uuid, last_seq: i64) -> Subscription {
        let (tail, first) = {
            let mut followed = lock(&self.followed);
            let mut first = false;
            let entry = followed.entry(log_id).or_insert_with(|| {
                first = true;
                Followed {
                    tail: Arc::new(LogTail::new(last_seq + 1)),
                    readers: 0,
                }
            });
            entry.readers += 1;
            (entry.tail.clone(), first)
        };
        if first {
            // The wake-up of events appended before has already passed.
            lock(&self.subscribed).insert(log_id);
            self.new_subscription.notify_one();
        }
        Subscription {
            hub: self.clone(),
            log_id,
            place: tail.enter(),
            tail,
        }
    }

    async fn follow_logs(self: Arc<Self>, bus: SharedBus) {
        let mut wakes = bus.subscribe();
        let mut poll_all_at = Instant::now() + poll_interval();
        let mut may_read = Instant::now();
        // What is to be read as soon as that is allowed.
        let mut news = Wake::default();
        loop {
            tokio::select! {
                biased;
                // These first: an endless series of hints must not delay them.
                () = sleep_until(poll_all_at), if !news.all => {
                    news.all = true;
                    continue;
                }
                () = sleep_until(may_read), if !news.is_empty() => {}
                () = self.new_subscription.notified() => {
                    news.logs.extend(lock(&self.subscribed).drain());
                    continue;
                }
                wake = wakeup::next(&mut wakes) => {
                    news.merge(self.take_carried(&wake));
                    continue;
                }
            }
            // Hints until then are handled with it.
            while !wakes.is_empty() {
                let wake = wakeup::next(&mut wakes).await;
                news.merge(self.take_carried(&wake));
            }
            let news = std::mem::take(&mut news);
            if news.all {
                poll_all_at = Instant::now() + poll_interval();
            }
            let dirty = self.cursors(&news);
            let began = Instant::now();
            for batch in dirty.chunks(LOGS_PER_QUERY) {
                self.read_on(batch.to_vec()).await;
            }
            if !dirty.is_empty() {
                may_read = Instant::now() + (began.elapsed() * COALESCE_FACTOR).clamp(COALESCE_MIN, COALESCE_MAX);
            }
        }
    }

    /// Passes the events that come with a hint to their readers, if the tail has the events before them. Returns what is to be read.
    fn take_carried(&self, wake: &Wake) -> Wake {
        let mut news = Wake {
            all: wake.all,
            logs: wake.logs.clone(),
            ..Wake::default()
        };
        for row in &wake.rows {
            // No followers: nothing to do.
            let Some(tail) = lock(&self.followed).get(&row.log_id).map(|entry| entry.tail.clone()) else {
                continue;
            };
            let events = row.clone().events(tail.last_seq());
            if tail
                .append_next(row.first_seq(), events.iter().map(Frame::of))
                .is_some()
            {
                self.counters.by_hint.increment(events.len() as u64);
            } else {
                news.logs.insert(row.log_id);
            }
        }
        news
    }

    /// Returns the positions of the followed logs named by `news`.
    fn cursors(&self, news: &Wake) -> Vec<Cursor> {
        let followed = lock(&self.followed);
        let cursor = |(id, entry): (&Uuid, &Followed)| (*id, entry.tail.last_seq());
        if news.all {
            followed.iter().map(cursor).collect()
        } else {
            news.logs
                .iter()
                .filter_map(|id| followed.get_key_value(id))
                .map(cursor)
                .collect()
        }
    }

    /// Reads these logs until there is nothing more. Waits for an unreachable database.
    async fn read_on(&self, mut cursors: Vec<Cursor>) {
        let (mut logged, mut checked) = (false, false);
        while !cursors.is_empty() {
            self.counters.queries.increment(1);
            let began = Instant::now();
            let answer = timeout(QUERY_LIMIT, self.source.news(&cursors)).await;
            if let Ok(Ok(_)) = &answer {
                self.counters.query_seconds.record(began.elapsed().as_secs_f64());
            }
            let failed = match answer {
                // It may be a different database now.
                Ok(Ok(_)) if logged && !checked => {
                    checked = self.check_logs().await;
                    if !checked {
                        sleep(RETRY).await;
                    }
                    let followed = lock(&self.followed);
                    cursors.retain(|(log_id, _)| followed.contains_key(log_id));
                    continue;
                }
                Ok(Ok(events)) => {
                    cursors = self.append(&cursors, &events);
                    continue;
                }
                Ok(Err(error)) => ErrorChain(&*error).to_string(),
                Err(_) => format!("no response within {} s", QUERY_LIMIT.as_secs()),
            };
            if !logged {
                warn!(error = failed, "reading new events failed; retrying until it succeeds");
                logged = true;
            }
            sleep(RETRY).await;
        }
    }

    /// Passes events to their logs' readers. Returns the logs that may have more, with full pages.
    fn append(&self, cursors: &[Cursor], events: &[(usize, StoredEvent)]) -> Vec<Cursor> {
        let page = usize::try_from(log::TAIL_PAGE).unwrap_or(usize::MAX);
        let mut more = Vec::new();
        for of_log in events.chunk_by(|(a, _), (b, _)| a == b) {
            let Some((log_id, _)) = of_log.first().and_then(|(index, _)| cursors.get(*index)) else {
                continue;
            };
            // No followers left: nothing to do.
            let Some(tail) = lock(&self.followed).get(log_id).map(|entry| entry.tail.clone()) else {
                continue;
            };
            let last = tail.append(of_log.iter().map(|(_, event)| Frame::of(event)));
            if of_log.len() >= page {
                more.push((*log_id, last));
            }
        }
        more
    }
}
