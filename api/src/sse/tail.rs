//! The live ends of the logs that somebody follows.
//!
//! One spawned future a process waits for wake-ups, gathers the logs that they name, and reads what is new in ALL of them with
//! one query; each event is rendered once into its log's ring, which all readers share. It looks at every followed log by
//! itself every [`POLL_INTERVAL`], too: a lost wake-up costs at most that (invariant I11).
//!
//! A ring holds contiguous numbers, `first..next`. A reader whose cursor is behind `first` reads the table.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rejoin_shared::auth;
use rejoin_shared::config::POLL_INTERVAL;
use rejoin_shared::db::Db;
use rejoin_shared::events::log::{self, StoredEvent};
use rejoin_shared::wakeup::{self, SharedBus, Wake};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use uuid::Uuid;

use super::frame::Frame;
use super::streams::Streams;

/// What one log's ring holds at most.
const RING_FRAMES: usize = 2_048;
const RING_BYTES: usize = 512 * 1024;
/// Between two reads of the tail: while many events come, they are read together. The first after a pause is read at once.
const COALESCE: Duration = Duration::from_millis(15);
/// Logs that one query looks at.
const LOGS_PER_QUERY: usize = 256;
/// A query that takes longer is given up and asked again.
const QUERY_LIMIT: Duration = Duration::from_secs(5);
/// Between two tries while the database is away.
const RETRY: Duration = Duration::from_millis(200);
/// How often keys and logs of open streams are checked. With the time that a key is remembered for: a stream ends within 5 s
/// of its key's end.
const CHECK_EVERY: Duration = Duration::from_secs(2);

pub struct Hub {
    followed: Mutex<HashMap<Uuid, Followed>>,
    /// Logs to look at without waiting for a wake-up: somebody has begun to follow them.
    asked: Mutex<HashSet<Uuid>>,
    asked_news: Notify,
    pub streams: Arc<Streams>,
    stop: CancellationToken,
}

struct Followed {
    tail: Arc<LogTail>,
    readers: usize,
}

/// The live end of one log.
pub struct LogTail {
    ring: Mutex<Ring>,
    /// Changes with every append.
    news: watch::Sender<()>,
    /// Cancelled when the log is gone.
    gone: CancellationToken,
}

struct Ring {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The number that the next event will have.
    next: i64,
}

/// What a ring has for a cursor.
#[derive(Debug)]
pub enum Ahead {
    /// The events after it, some of them at least.
    Frames(Vec<Frame>),
    /// Nothing is new.
    UpToDate,
    /// The ring begins later: read the table.
    Behind,
}

/// Locks a mutex whose holders never leave it half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    fn new(next: i64) -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
            next,
        }
    }

    fn push(&mut self, frame: Frame) {
        if frame.seq < self.next {
            return;
        }
        if frame.seq > self.next {
            // Retention took what lay between: keep the ring contiguous.
            self.frames.clear();
            self.bytes = 0;
        }
        self.next = frame.seq + 1;
        self.bytes += frame.bytes.len();
        self.frames.push_back(frame);
        while self.frames.len() > RING_FRAMES || self.bytes > RING_BYTES {
            let Some(oldest) = self.frames.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
        }
    }

    fn after(&self, cursor: i64, max_bytes: usize) -> Ahead {
        let first = self.next - i64::try_from(self.frames.len()).unwrap_or(i64::MAX);
        let wanted = cursor + 1;
        if wanted < first {
            return Ahead::Behind;
        }
        let skip = usize::try_from(wanted - first).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let mut frames = Vec::new();
        for frame in self.frames.iter().skip(skip) {
            bytes += frame.bytes.len();
            if bytes > max_bytes && !frames.is_empty() {
                break;
            }
            frames.push(frame.clone());
        }
        if frames.is_empty() {
            Ahead::UpToDate
        } else {
            Ahead::Frames(frames)
        }
    }
}

/// A reader's hold on a log's live end.
pub struct Subscription {
    hub: Arc<Hub>,
    pub log_id: Uuid,
    tail: Arc<LogTail>,
    news: watch::Receiver<()>,
}

impl Subscription {
    /// What is after `cursor`. What comes later is told by [`Subscription::changed`].
    pub fn after(&mut self, cursor: i64, max_bytes: usize) -> Ahead {
        // Seen before looked at: what is appended after the look is news.
        self.news.mark_unchanged();
        lock(&self.tail.ring).after(cursor, max_bytes)
    }

    /// Waits until something was appended since the last look.
    pub async fn changed(&mut self) {
        // The sender lives in the tail that we hold.
        let _ = self.news.changed().await;
    }

    /// Cancelled when the log is gone.
    pub fn gone(&self) -> &CancellationToken {
        &self.tail.gone
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut followed = lock(&self.hub.followed);
        if let Some(entry) = followed.get_mut(&self.log_id) {
            entry.readers -= 1;
            if entry.readers == 0 {
                followed.remove(&self.log_id);
            }
        }
    }
}

/// A followed log and the number after which its tail reads on.
type Cursor = (Uuid, i64);

impl Hub {
    pub fn start(db: Db, bus: SharedBus, max_streams_per_user: usize) -> Arc<Self> {
        let hub = Arc::new(Self {
            followed: Mutex::default(),
            asked: Mutex::default(),
            asked_news: Notify::new(),
            streams: Arc::new(Streams::new(max_streams_per_user)),
            stop: CancellationToken::new(),
        });
        let stop = hub.stop.clone();
        let follow = hub.clone().follow_logs(db.clone(), bus);
        let check = hub.clone().check_streams(db);
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = async { tokio::join!(follow, check); } => {}
            }
        });
        hub
    }

    /// Ends what [`Hub::start`] spawned.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Begins to follow a log whose last number was `last_seq` a moment ago.
    pub fn follow(self: &Arc<Self>, log_id: Uuid, last_seq: i64) -> Subscription {
        let (tail, first) = {
            let mut followed = lock(&self.followed);
            let mut first = false;
            let entry = followed.entry(log_id).or_insert_with(|| {
                first = true;
                let tail = LogTail {
                    ring: Mutex::new(Ring::new(last_seq + 1)),
                    news: watch::Sender::new(()),
                    gone: CancellationToken::new(),
                };
                Followed {
                    tail: Arc::new(tail),
                    readers: 0,
                }
            });
            entry.readers += 1;
            (entry.tail.clone(), first)
        };
        if first {
            // What was appended before we followed has had its wake-up already.
            lock(&self.asked).insert(log_id);
            self.asked_news.notify_one();
        }
        let news = tail.news.subscribe();
        Subscription {
            hub: self.clone(),
            log_id,
            tail,
            news,
        }
    }

    async fn follow_logs(self: Arc<Self>, db: Db, bus: SharedBus) {
        let mut wakes = bus.subscribe();
        let mut look_at_all = Instant::now() + POLL_INTERVAL;
        let mut may_read = Instant::now();
        loop {
            let mut news = Wake::default();
            tokio::select! {
                wake = wakeup::next(&mut wakes) => news.merge(Wake::clone(&wake)),
                () = self.asked_news.notified() => {}
                () = sleep_until(look_at_all) => news.all = true,
            }
            // Whatever else comes until the next read is allowed is read with it.
            sleep_until(may_read).await;
            while !wakes.is_empty() {
                news.merge(Wake::clone(&*wakeup::next(&mut wakes).await));
            }
            news.logs.extend(lock(&self.asked).drain());
            if news.all {
                look_at_all = Instant::now() + POLL_INTERVAL;
            }
            let dirty = self.cursors(&news);
            for batch in dirty.chunks(LOGS_PER_QUERY) {
                self.read_on(&db, batch.to_vec()).await;
            }
            if !dirty.is_empty() {
                may_read = Instant::now() + COALESCE;
            }
        }
    }

    /// Where the tails of the followed logs stand that `news` names.
    fn cursors(&self, news: &Wake) -> Vec<Cursor> {
        let followed = lock(&self.followed);
        let cursor = |(id, entry): (&Uuid, &Followed)| (*id, lock(&entry.tail.ring).next - 1);
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

    /// Reads on in these logs until nothing more is new. A database that is away is waited for.
    async fn read_on(&self, db: &Db, mut cursors: Vec<Cursor>) {
        let mut said = false;
        while !cursors.is_empty() {
            metrics::counter!("rejoin_tail_queries_total").increment(1);
            let failed = match timeout(QUERY_LIMIT, log::tail(&db.hot, &cursors)).await {
                Ok(Ok(events)) => {
                    cursors = self.append(&cursors, &events);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {} s", QUERY_LIMIT.as_secs()),
            };
            if !said {
                warn!(error = failed, "reading new events failed; trying again until it works");
                said = true;
            }
            sleep(RETRY).await;
        }
    }

    /// Hands events to their logs' readers. Returns the logs that may have more, which is where a page was full.
    fn append(&self, cursors: &[Cursor], events: &[(usize, StoredEvent)]) -> Vec<Cursor> {
        let page = usize::try_from(log::TAIL_PAGE).unwrap_or(usize::MAX);
        let mut more = Vec::new();
        for of_log in events.chunk_by(|(a, _), (b, _)| a == b) {
            let Some((log_id, _)) = of_log.first().and_then(|(index, _)| cursors.get(*index)) else {
                continue;
            };
            // Nobody follows it any more: nothing to do.
            let Some(tail) = lock(&self.followed).get(log_id).map(|entry| entry.tail.clone()) else {
                continue;
            };
            let next = {
                let mut ring = lock(&tail.ring);
                for (_, event) in of_log {
                    ring.push(Frame::of(event));
                }
                ring.next
            };
            tail.news.send_replace(());
            if of_log.len() >= page {
                more.push((*log_id, next - 1));
            }
        }
        more
    }

    /// Ends streams whose key was revoked or whose log was deleted.
    async fn check_streams(self: Arc<Self>, db: Db) {
        loop {
            sleep(CHECK_EVERY).await;
            let keys = self.streams.keys();
            if !keys.is_empty() {
                match timeout(QUERY_LIMIT, auth::still_valid(&db.sql, &keys)).await {
                    Ok(Ok(valid)) => {
                        let ended: Vec<Uuid> = keys.into_iter().filter(|key| !valid.contains(key)).collect();
                        self.streams.end(&ended);
                    }
                    // Checked again soon; as long as the database is away, streams have nothing to tell anyway.
                    Ok(Err(error)) => debug!(%error, "checking the keys of open streams failed"),
                    Err(_) => debug!("checking the keys of open streams took too long"),
                }
            }
            let logs: Vec<Uuid> = lock(&self.followed).keys().copied().collect();
            if !logs.is_empty() {
                match timeout(QUERY_LIMIT, log::existing(&db.hot, &logs)).await {
                    Ok(Ok(existing)) => self.end_logs(&logs, &existing.into_iter().collect()),
                    Ok(Err(error)) => debug!(%error, "checking the logs of open streams failed"),
                    Err(_) => debug!("checking the logs of open streams took too long"),
                }
            }
        }
    }

    fn end_logs(&self, asked: &[Uuid], existing: &HashSet<Uuid>) {
        let followed = lock(&self.followed);
        for entry in asked
            .iter()
            .filter(|log| !existing.contains(*log))
            .filter_map(|log| followed.get(log))
        {
            entry.tail.gone.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn frame(seq: i64) -> Frame {
        Frame {
            seq,
            run_id: None,
            done_of: None,
            bytes: Bytes::from(format!("{seq}")),
        }
    }

    fn numbers(ahead: &Ahead) -> Vec<i64> {
        match ahead {
            Ahead::Frames(frames) => frames.iter().map(|frame| frame.seq).collect(),
            Ahead::UpToDate | Ahead::Behind => vec![],
        }
    }

    #[test]
    fn a_ring_gives_what_is_after_a_cursor_once() {
        let mut ring = Ring::new(5);
        for seq in [5, 6, 6, 5, 7] {
            ring.push(frame(seq));
        }
        assert_eq!(numbers(&ring.after(4, 1_000)), [5, 6, 7]);
        assert_eq!(numbers(&ring.after(6, 1_000)), [7]);
        assert!(matches!(ring.after(7, 1_000), Ahead::UpToDate));
        assert!(
            matches!(ring.after(9, 1_000), Ahead::UpToDate),
            "the reader's page was newer than the tail"
        );
        assert!(matches!(ring.after(3, 1_000), Ahead::Behind));
    }

    #[test]
    fn a_ring_stays_bounded_and_contiguous() {
        let mut ring = Ring::new(1);
        for seq in 1..=5_000 {
            ring.push(frame(seq));
        }
        assert_eq!(ring.frames.len(), RING_FRAMES);
        assert!(matches!(ring.after(1, 1_000), Ahead::Behind));
        ring.push(frame(9_000));
        assert_eq!(numbers(&ring.after(8_999, 1_000)), [9_000]);
        assert!(
            matches!(ring.after(5_000, 1_000), Ahead::Behind),
            "what lay between is for the table to tell"
        );
    }

    #[test]
    fn a_chunk_is_bounded_but_never_empty() {
        let mut ring = Ring::new(1);
        for seq in 1..=9 {
            ring.push(frame(seq));
        }
        assert_eq!(numbers(&ring.after(0, 3)), [1, 2, 3]);
        assert_eq!(numbers(&ring.after(0, 0)), [1]);
    }
}
