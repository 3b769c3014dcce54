//! Thousands of stream readers in a few threads: epoll loops over bare sockets, since they share the machine with the
//! measured system. Run as a part (see `part`).
//!
//! - `reader_thread` one thread's readers
//! - `connection`  one reader: its socket and parser
//!
//! A reader counts an event when its bytes have been read, and its latency from the scheduled moment in its data after
//! an `@` (µs of the monotonic clock).

mod connection;
mod reader_thread;

use std::io::BufRead as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::load::now_us;
use crate::part;
use reader_thread::{ReaderThread, Tally, ThreadMessage};

/// Minimum number of readers per thread before another one is added.
const READERS_A_THREAD: usize = 500;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    pub address: SocketAddr,
    /// Request heads, each with its blank line. Reader i sends the one at i modulo their number.
    pub requests: Vec<String>,
    pub readers: usize,
    /// A reader is live once its stream contains this; empty: once it has begun.
    pub live_mark: String,
    /// Whether the streams' ids are gapless numbers.
    pub gapless: bool,
    /// The number that all readers already have; 0: their first may be any.
    pub cursor: u64,
    /// Rate of connects; None: a few at a time, as fast as they are answered.
    pub connects_per_s: Option<f64>,
    pub stuck: Option<Stuck>,
}

impl Settings {
    /// One reader per request, live once its stream has begun.
    pub fn of(address: SocketAddr, requests: Vec<String>) -> Self {
        Self {
            address,
            readers: requests.len(),
            requests,
            live_mark: String::new(),
            gapless: false,
            cursor: 0,
            connects_per_s: None,
            stuck: None,
        }
    }

    /// The number of reading readers.
    fn reading(&self) -> usize {
        let stuck = self
            .stuck
            .as_ref()
            .map_or(0, |stuck| self.readers.div_ceil(stuck.every));
        self.readers - stuck
    }
}

/// Readers that stop reading once their stream has begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stuck {
    /// One in this many readers.
    pub every: usize,
    pub request: String,
    /// Size of their receive buffer.
    pub receive_buffer_bytes: usize,
}

/// All readers are live, or have failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Live {
    pub live: usize,
    pub failed: usize,
    pub failure: Option<String>,
    /// From the first scheduled connect until the last reader is live.
    pub took_ms: f64,
    /// From a reader's scheduled connect until it is live.
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Bytes read until then.
    pub bytes: u64,
    /// Numbered frames, and those out of sequence (gapless streams only).
    pub numbers: u64,
    pub gaps: u64,
}

/// The measured events.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Window {
    /// Scheduled times, in µs of the monotonic clock.
    pub from_us: u64,
    pub to_us: u64,
    /// The expected number of deliveries, over all readers.
    pub expected: u64,
    /// Events not read by then are missing.
    pub deadline_us: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    pub delivered: u64,
    /// Deliveries of any event during the window.
    pub meanwhile: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
    /// Numbers out of sequence.
    pub gaps: u64,
    /// Readers whose connection ended.
    pub lost: usize,
}

/// The fleet's start time.
#[derive(Debug, Clone, Copy)]
struct Began {
    at: Instant,
    at_us: u64,
}

pub fn run() -> Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let settings: Arc<Settings> =
        serde_json::from_str::<Settings>(&lines.next().context("no settings")??).map(Arc::new)?;
    let cores = std::thread::available_parallelism()?.get();
    let threads = (settings.readers / READERS_A_THREAD).clamp(1, cores);
    let began = Began {
        at: Instant::now(),
        at_us: now_us(),
    };
    let (answers, inbox) = sync_channel(threads);
    let mut reader_threads: Vec<SyncSender<Window>> = Vec::new();
    for number in 0..threads {
        let (orders, orders_inbox) = sync_channel(1);
        let reader_thread = ReaderThread::new(settings.clone(), began, number, threads)?;
        let answers = answers.clone();
        std::thread::spawn(move || {
            if let Err(error) = reader_thread.run(&orders_inbox, &answers) {
                // The scenario may have ended.
                let _ = answers.send(ThreadMessage::Failed(error));
            }
        });
        reader_threads.push(orders);
    }
    let live = gather(&inbox, threads)?;
    part::say(&Live {
        live: live.live,
        failed: live.failed,
        failure: live.failure,
        took_ms: began.at.elapsed().as_secs_f64() * 1_000.0,
        p50_ms: live.until_live.quantile_ms(0.5),
        p99_ms: live.until_live.quantile_ms(0.99),
        bytes: live.bytes,
        numbers: live.numbers,
        gaps: live.gaps,
    })?;
    for line in lines {
        let window: Window = serde_json::from_str(&line?)?;
        for reader_thread in &reader_threads {
            reader_thread.send(window.clone())?;
        }
        let tally = gather(&inbox, threads)?;
        part::say(&Report {
            delivered: tally.latencies.count(),
            meanwhile: tally.meanwhile,
            p50_ms: tally.latencies.quantile_ms(0.5),
            p99_ms: tally.latencies.quantile_ms(0.99),
            p999_ms: tally.latencies.quantile_ms(0.999),
            max_ms: tally.latencies.max_ms(),
            gaps: tally.gaps,
            lost: tally.lost,
        })?;
    }
    Ok(())
}

/// Collects the results of all threads.
fn gather(inbox: &Receiver<ThreadMessage>, threads: usize) -> Result<Tally> {
    let mut all = Tally::default();
    for _ in 0..threads {
        match inbox.recv()? {
            ThreadMessage::Tally(tally) => all.add(*tally),
            ThreadMessage::Failed(error) => return Err(error),
        }
    }
    Ok(all)
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.live += other.live;
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
        self.until_live.merge(&other.until_live);
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.gaps += other.gaps;
        self.numbers += other.numbers;
        self.latencies.merge(&other.latencies);
        self.meanwhile += other.meanwhile;
    }
}
