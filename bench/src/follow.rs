//! A tailing connection: an API process's work for followed logs, without HTTP. Woken by the product's bus, it reads
//! all woken logs with the product's tail query, and records the age of each event. It has its own runtime, like a
//! process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_event_log::log;
use rejoin_event_log::rows::StoredEvent;
use rejoin_event_log::wakeup;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::load::Latencies;
use crate::process::OwnRuntime;

/// Maximum number of logs per query, as in the API.
const LOGS_PER_QUERY: usize = 256;
/// Timeout of an event's visibility.
const VISIBLE_LIMIT: Duration = Duration::from_secs(20);

/// Follows logs until dropped.
pub struct Follower {
    task: JoinHandle<Result<()>>,
    seen: Arc<Seen>,
    _runtime: OwnRuntime,
}

#[derive(Default)]
struct Seen {
    deltas: AtomicU64,
    latencies: std::sync::Mutex<Latencies>,
}

impl Follower {
    /// Starts following these logs from (log, number of the last irrelevant event).
    pub async fn start(url: &str, logs: Vec<(Uuid, i64)>) -> Result<Self> {
        let runtime = OwnRuntime::new()?;
        let db = Db::connect_lazy(&DatabaseArgs::new(url), "rejoin-bench-follower", Role::Login)?;
        let bus = {
            let _inside = runtime.enter();
            wakeup::over_postgres(&db)
        };
        let mut wakes = bus.subscribe();
        // The first hint shows that the bus listens.
        wakeup::next(&mut wakes).await;
        let seen = Arc::new(Seen::default());
        let task = runtime.spawn(follow(db, bus, wakes, logs, seen.clone()));
        Ok(Self {
            task,
            seen,
            _runtime: runtime,
        })
    }

    /// Waits until `deltas` were seen, and returns their latencies from the times in their text.
    pub async fn wait_for(self, deltas: u64) -> Result<Latencies> {
        let began = Instant::now();
        while self.seen.deltas.load(Ordering::Relaxed) < deltas {
            ensure!(!self.task.is_finished(), "the follower gave up");
            ensure!(
                began.elapsed() < VISIBLE_LIMIT,
                "of {deltas} deltas {} were visible after {} s",
                self.seen.deltas.load(Ordering::Relaxed),
                VISIBLE_LIMIT.as_secs()
            );
            sleep(Duration::from_millis(1)).await;
        }
        let latencies = self
            .seen
            .latencies
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(latencies.clone())
    }
}

async fn follow(
    db: Db,
    bus: wakeup::SharedBus,
    mut wakes: tokio::sync::broadcast::Receiver<Arc<wakeup::Wake>>,
    logs: Vec<(Uuid, i64)>,
    seen: Arc<Seen>,
) -> Result<()> {
    let _listening = bus;
    let mut cursors: HashMap<Uuid, i64> = logs.into_iter().collect();
    loop {
        let mut news = wakeup::Wake::clone(&*wakeup::next(&mut wakes).await);
        while !wakes.is_empty() {
            news.merge(wakeup::Wake::clone(&*wakeup::next(&mut wakes).await));
        }
        // As the API does: what a hint carries is not read.
        for row in std::mem::take(&mut news.rows) {
            let Some(after) = cursors.get_mut(&row.log_id) else {
                continue;
            };
            let (log, first) = (row.log_id, row.first_seq());
            if first > *after + 1 {
                news.logs.insert(log);
                continue;
            }
            let events: Vec<_> = row.events(*after).into_iter().map(|event| (0, event)).collect();
            note(&events, &seen);
            *after = events.last().map_or(*after, |(_, last)| last.seq);
        }
        let woken: Vec<(Uuid, i64)> = if news.all {
            cursors.iter().map(|(log, after)| (*log, *after)).collect()
        } else {
            news.logs
                .iter()
                .filter_map(|log| cursors.get_key_value(log))
                .map(|(log, after)| (*log, *after))
                .collect()
        };
        for batch in woken.chunks(LOGS_PER_QUERY) {
            let mut batch = batch.to_vec();
            // Until there is nothing more in a log whose page was full.
            while !batch.is_empty() {
                let events = log::tail(&db.pool_pg, &batch).await?;
                note(&events, &seen);
                let mut more = Vec::new();
                for of_log in events.chunk_by(|(a, _), (b, _)| a == b) {
                    let (Some((index, _)), Some((_, last))) = (of_log.first(), of_log.last()) else {
                        continue;
                    };
                    let Some((log, _)) = batch.get(*index) else { continue };
                    cursors.insert(*log, last.seq);
                    if of_log.len() >= usize::try_from(log::TAIL_PAGE).unwrap_or(usize::MAX) {
                        more.push((*log, last.seq));
                    }
                }
                batch = more;
            }
        }
    }
}

fn note(events: &[(usize, StoredEvent)], seen: &Seen) {
    let mut latencies = seen.latencies.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = latencies.count();
    for (_, event) in events {
        for moment in moments(&event.data) {
            latencies.since(moment);
        }
    }
    seen.deltas.fetch_add(latencies.count() - before, Ordering::Relaxed);
}

/// The text of a delta that contains its scheduled time, in µs.
pub fn text_at(moment_us: u64) -> String {
    format!("{moment_us} ")
}

/// Returns the times in a `token` event's text: one per delta, several for merged deltas.
fn moments(data: &[u8]) -> impl Iterator<Item = u64> {
    const BEFORE: &[u8] = b"\"token\":\"";
    let at = data
        .windows(BEFORE.len())
        .position(|window| window == BEFORE)
        .map_or(data.len(), |at| at + BEFORE.len());
    data[at..]
        .split(|byte| *byte == b' ')
        .map_while(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
}
