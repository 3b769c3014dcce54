//! Writes events on an open-loop schedule: stands for the worker, or for a peer's publisher. Run as a part (see
//! `part`).
//!
//! - `rejoin`  the product's own event writer, fenced by real jobs
//! - `redis`   XADD, pipelined
//! - `nchan`   POST, pipelined over a few persistent connections

mod nchan;
mod redis;
mod rejoin;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rejoin_db::config::{BusKind, DatabaseArgs, Secret};
use rejoin_types::events::{Event, Kind};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::sleep;
use uuid::Uuid;

use crate::load::{Latencies, now_us};
use crate::part::{self, Part, Role};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The text after the time in an event, which gives it the usual length of a model's piece of a few words.
const TEXT: &str = " and then, as far as one can tell,";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Settings {
    Rejoin {
        database_url: String,
        runs: Vec<(Uuid, Uuid)>,
    },
    /// With hints over this bus.
    RejoinOver {
        database_url: String,
        runs: Vec<(Uuid, Uuid)>,
        hints: Hints,
    },
    Redis {
        socket: String,
        keys: usize,
    },
    Nchan {
        address: SocketAddr,
        channels: usize,
    },
}

/// A bus of wake-ups, as processes are set up for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Hints {
    Postgres,
    Nats { url: String },
    Poll,
}

impl Hints {
    /// The value of `REJOIN_BUS`.
    pub fn name(&self) -> &'static str {
        match self {
            Hints::Postgres => "postgres",
            Hints::Nats { .. } => "nats",
            Hints::Poll => "poll",
        }
    }

    /// The variables of a process.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("REJOIN_BUS", self.name().to_owned())];
        if let Hints::Nats { url } = self {
            variables.push(("REJOIN_NATS_URL", url.clone()));
        }
        variables
    }

    /// The settings of a process in this program.
    fn args(&self, database_url: &str) -> DatabaseArgs {
        let mut args = DatabaseArgs::new(database_url);
        args.bus = match self {
            Hints::Postgres => BusKind::Postgres,
            Hints::Nats { url } => {
                args.nats.nats_url = Some(Secret::new(url));
                BusKind::Nats
            }
            Hints::Poll => BusKind::Poll,
        };
        args
    }
}

/// The events to write: `n` per second to each log, round-robin.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Schedule {
    /// In µs of the monotonic clock.
    pub begin_us: u64,
    pub per_log_per_s: f64,
    /// Total number of events.
    pub events: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Produced {
    /// Delay of handing over events after their schedule.
    pub late_p99_ms: f64,
    pub late_max_ms: f64,
    /// Time until everything was accepted (Rejoin: committed; Redis and nchan: answered).
    pub took_ms: f64,
}

/// A due event.
pub(crate) struct Due {
    pub(crate) log: usize,
    pub(crate) scheduled_us: u64,
}

impl Due {
    pub(crate) fn event(&self, run: Uuid) -> Event {
        let token = format!("@{}{TEXT}", self.scheduled_us);
        Event::of(run, Kind::Token { token })
    }
}

enum Sink {
    Rejoin(rejoin::Sink),
    Redis(redis::Sink),
    Nchan(nchan::Sink),
}

impl Sink {
    async fn open(settings: Settings) -> Result<Self> {
        Ok(match settings {
            Settings::Rejoin { database_url, runs } => {
                let args = Hints::Postgres.args(&database_url);
                Sink::Rejoin(rejoin::Sink::open(&args, &runs).await?)
            }
            Settings::RejoinOver {
                database_url,
                runs,
                hints,
            } => Sink::Rejoin(rejoin::Sink::open(&hints.args(&database_url), &runs).await?),
            Settings::Redis { socket, keys } => Sink::Redis(redis::Sink::open(&socket, keys).await?),
            Settings::Nchan { address, channels } => Sink::Nchan(nchan::Sink::open(address, channels).await?),
        })
    }

    fn logs(&self) -> usize {
        match self {
            Sink::Rejoin(sink) => sink.logs(),
            Sink::Redis(sink) => sink.keys(),
            Sink::Nchan(sink) => sink.channels(),
        }
    }

    async fn put(&mut self, due: &[Due]) -> Result<()> {
        match self {
            Sink::Rejoin(sink) => sink.put(due).await,
            Sink::Redis(sink) => sink.put(due).await,
            Sink::Nchan(sink) => sink.put(due).await,
        }
    }

    /// Waits until everything was accepted.
    async fn finish(&mut self) -> Result<()> {
        match self {
            Sink::Rejoin(sink) => sink.finish().await,
            Sink::Redis(sink) => sink.finish().await,
            Sink::Nchan(sink) => sink.finish().await,
        }
    }
}

/// Starts a connected producer.
pub async fn start(settings: &Settings) -> Result<Part> {
    let mut producer = Part::start(Role::Producer, settings).await?;
    producer.hear::<bool>(CONNECT_LIMIT).await?;
    Ok(producer)
}

pub async fn run() -> Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let settings = lines.next_line().await?.context("no settings")?;
    let mut sink = Sink::open(serde_json::from_str(&settings)?).await?;
    part::say(&true)?;
    while let Some(line) = lines.next_line().await? {
        let schedule: Schedule = serde_json::from_str(&line)?;
        part::say(&produce(&mut sink, schedule).await?)?;
    }
    Ok(())
}

async fn produce(sink: &mut Sink, schedule: Schedule) -> Result<Produced> {
    let logs = sink.logs();
    let every_us = 1e6 / (schedule.per_log_per_s * logs as f64);
    let mut late = Latencies::default();
    let mut due: Vec<Due> = Vec::new();
    let mut next = 0;
    while next < schedule.events {
        let next_us = schedule.begin_us + (next as f64 * every_us) as u64;
        let now = now_us();
        if next_us > now {
            sleep(Duration::from_micros(next_us - now)).await;
        }
        let now = now_us();
        while next < schedule.events {
            let scheduled_us = schedule.begin_us + (next as f64 * every_us) as u64;
            if scheduled_us > now {
                break;
            }
            late.record(now - scheduled_us);
            due.push(Due {
                log: (next % logs as u64) as usize,
                scheduled_us,
            });
            next += 1;
        }
        sink.put(&due).await?;
        due.clear();
    }
    sink.finish().await?;
    Ok(Produced {
        late_p99_ms: late.quantile_ms(0.99),
        late_max_ms: late.max_ms(),
        took_ms: now_us().saturating_sub(schedule.begin_us) as f64 / 1_000.0,
    })
}
