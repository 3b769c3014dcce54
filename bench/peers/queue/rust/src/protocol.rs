//! The operations of a driver, shared by all queues of this program. Every printed line is one JSON object.

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio::task::JoinSet;

/// Connections per process: enough for eight producers, or for a worker's loops.
const CONNECTIONS: u32 = 20;
/// Opened at start, so that no measurement pays for them.
const WARM_CONNECTIONS: u32 = 8;
/// Interval at which a worker reports its count, if changed.
const TELL_EVERY: Duration = Duration::from_millis(20);

/// A job's payload: when it was enqueued, in µs of the monotonic clock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Payload {
    pub t: u64,
}

impl Payload {
    pub fn now() -> Self {
        Self { t: now_us() }
    }
}

/// A queue under test.
pub trait Queue: Clone + Send + Sync + 'static {
    fn setup(&self) -> impl Future<Output = Result<()>>;
    fn bulk(&self, n: usize) -> impl Future<Output = Result<()>>;
    fn one(&self) -> impl Future<Output = Result<()>> + Send;
    /// Calls [`started`], works until [`until_told_to_stop`] returns, and stops.
    fn work(&self) -> impl Future<Output = Result<()>>;
}

static HANDLED: AtomicU64 = AtomicU64::new(0);
static LATENCIES_WANTED: AtomicBool = AtomicBool::new(false);
static LATENCIES_US: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// The handler of every queue.
pub fn handle(job: &Payload) {
    if LATENCIES_WANTED.load(Relaxed) {
        let took_us = now_us().saturating_sub(job.t);
        LATENCIES_US.lock().expect("nobody panics with it").push(took_us);
    }
    HANDLED.fetch_add(1, Relaxed);
}

/// Reports that the worker begins.
pub fn started() {
    LATENCIES_WANTED.store(setting("LAT", 0) == 1, Relaxed);
    say(&format!(r#"{{"start":{}}}"#, now_us()));
}

/// Reports the number of handled jobs until stdin closes.
pub async fn until_told_to_stop() {
    let (closed, mut told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // An error counts as the end.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = closed.send(());
    });
    let mut last = 0;
    while tokio::time::timeout(TELL_EVERY, &mut told).await.is_err() {
        let handled = HANDLED.load(Relaxed);
        if handled != last {
            say(&format!(r#"{{"c":{handled},"t":{}}}"#, now_us()));
            last = handled;
        }
    }
}

/// Reads a number from the environment.
pub fn setting<T: FromStr>(name: &str, default: T) -> T {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

pub async fn connect() -> Result<PgPool> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL names the database")?;
    let options = sqlx::postgres::PgPoolOptions::new();
    let options = options.min_connections(WARM_CONNECTIONS).max_connections(CONNECTIONS);
    options.connect(&url).await.context("connecting")
}

/// CLOCK_MONOTONIC in µs: one clock for all processes of the machine.
pub fn now_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours and outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000
}

pub async fn drive<Q: Queue>(queue: Q, words: &[String]) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["setup"] => queue.setup().await,
        ["bulk", n] => {
            let n = n.parse()?;
            let began = Instant::now();
            queue.bulk(n).await?;
            report(n, began)
        }
        ["single", seconds, producers] => single(&queue, seconds.parse()?, producers.parse()?).await,
        ["produce", per_s, seconds] => produce(&queue, per_s.parse()?, seconds.parse()?).await,
        ["work"] => {
            queue.work().await?;
            let latencies = LATENCIES_US.lock().expect("nobody panics with it");
            say(&format!(
                r#"{{"final":{},"lat":{}}}"#,
                HANDLED.load(Relaxed),
                serde_json::to_string(&*latencies)?
            ));
            Ok(())
        }
        _ => bail!("not an operation: {words:?}"),
    }
}

async fn single<Q: Queue>(queue: &Q, seconds: f64, producers: usize) -> Result<()> {
    let (began, span) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut tasks = JoinSet::new();
    for _ in 0..producers {
        let queue = queue.clone();
        tasks.spawn(async move {
            let mut n = 0;
            while began.elapsed() < span {
                queue.one().await?;
                n += 1;
            }
            anyhow::Ok(n)
        });
    }
    let mut n = 0;
    while let Some(of_one) = tasks.join_next().await {
        n += of_one??;
    }
    report(n, began)
}

/// Open loop: a slow enqueue does not delay the next one.
async fn produce<Q: Queue>(queue: &Q, per_s: f64, seconds: f64) -> Result<()> {
    let (began, n) = (Instant::now(), (per_s * seconds) as usize);
    let mut tasks = JoinSet::new();
    for i in 0..n {
        tokio::time::sleep_until((began + Duration::from_secs_f64(i as f64 / per_s)).into()).await;
        let queue = queue.clone();
        tasks.spawn(async move { queue.one().await });
    }
    while let Some(enqueued) = tasks.join_next().await {
        enqueued??;
    }
    report(n, began)
}

fn report(n: usize, began: Instant) -> Result<()> {
    say(&format!(r#"{{"n":{n},"s":{:.6}}}"#, began.elapsed().as_secs_f64()));
    Ok(())
}

fn say(line: &str) {
    // The reader is gone: stdin closes, too.
    let _ = writeln!(std::io::stdout(), "{line}");
}
