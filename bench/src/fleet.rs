//! Readers of streams, thousands in one thread: one epoll loop over bare sockets, since they share the machine with what is
//! measured. Run as a part (see `part`).
//!
//! - `connection`  one reader: its socket, and what it makes of the bytes
//!
//! A reader counts an event when its bytes have been read, and its latency from the scheduled moment that stands in its data after
//! an `@` [µs of the monotonic clock].

mod connection;

use std::io::{BufRead as _, ErrorKind, Read as _};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};

use crate::load::{Latencies, now_us};
use crate::part;
use connection::{Connection, Seen};

/// Connections that may wait for the beginning of their stream, where connects follow no schedule.
const CONNECTING: usize = 200;
/// What one read takes at most.
const READ_BYTES: usize = 64 * 1024;
/// Nothing waits longer for a look at the clock.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    pub address: SocketAddr,
    /// Heads of requests, each with its blank line. Reader i sends the (i modulo their number)th.
    pub requests: Vec<String>,
    pub readers: usize,
    /// A reader is live once its stream has said this; empty: once it has begun.
    pub live_mark: String,
    /// The streams' ids are numbers without a gap.
    pub gapless: bool,
    /// Connects follow this schedule; None: a few at a time, as fast as they are answered.
    pub connects_per_s: Option<f64>,
    pub stuck: Option<Stuck>,
}

impl Settings {
    /// One reader a request, live once its stream has begun.
    pub fn of(address: SocketAddr, requests: Vec<String>) -> Self {
        Self {
            address,
            readers: requests.len(),
            requests,
            live_mark: String::new(),
            gapless: false,
            connects_per_s: None,
            stuck: None,
        }
    }
}

/// Readers that read nothing once their stream has begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stuck {
    /// Every how manieth reader is one.
    pub every: usize,
    pub request: String,
    /// What their kernel takes for them.
    pub receive_buffer_bytes: usize,
}

/// All readers are live, or have failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Live {
    pub live: usize,
    pub failed: usize,
    pub failure: Option<String>,
    /// From the first scheduled connect to the last reader's being live.
    pub took_ms: f64,
    /// From a reader's scheduled connect to its being live.
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Bytes that were read until then.
    pub bytes: u64,
}

/// Which events count.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Window {
    /// Scheduled moments [µs of the monotonic clock].
    pub from_us: u64,
    pub to_us: u64,
    /// How many deliveries that makes, in all readers.
    pub expected: u64,
    /// What was not read by then is missing.
    pub deadline_us: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    pub delivered: u64,
    /// Deliveries of any event while the window's time lasted.
    pub meanwhile: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
    /// Numbers that did not follow the one before.
    pub gaps: u64,
    /// Readers whose connection ended.
    pub lost: usize,
}

/// What the loop does now.
enum Phase {
    Connecting,
    Idle,
    Measuring(Window),
}

pub fn run() -> Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let settings: Settings = serde_json::from_str(&lines.next().context("no settings")??)?;
    drop(lines);
    let (commands, inbox) = sync_channel(4);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if commands.send(line).is_err() {
                return;
            }
        }
    });
    Fleet::new(settings)?.run(&inbox)
}

struct Fleet {
    settings: Settings,
    poll: Poll,
    connections: Vec<Connection>,
    phase: Phase,
    began: Instant,
    began_us: u64,
    live: usize,
    failed: usize,
    failure: Option<String>,
    until_live: Latencies,
    bytes: u64,
    lost: usize,
    gaps: u64,
    latencies: Latencies,
    meanwhile: u64,
}

impl Fleet {
    fn new(settings: Settings) -> Result<Self> {
        Ok(Self {
            connections: Vec::with_capacity(settings.readers),
            settings,
            poll: Poll::new()?,
            phase: Phase::Connecting,
            began: Instant::now(),
            began_us: now_us(),
            live: 0,
            failed: 0,
            failure: None,
            until_live: Latencies::default(),
            bytes: 0,
            lost: 0,
            gaps: 0,
            latencies: Latencies::default(),
            meanwhile: 0,
        })
    }

    fn run(mut self, inbox: &Receiver<String>) -> Result<()> {
        let mut events = Events::with_capacity(1_024);
        let mut buffer = vec![0_u8; READ_BYTES];
        loop {
            match inbox.try_recv() {
                Ok(line) => {
                    self.latencies = Latencies::default();
                    self.meanwhile = 0;
                    self.phase = Phase::Measuring(serde_json::from_str(&line)?);
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(()),
            }
            if matches!(self.phase, Phase::Connecting) {
                self.connect_due()?;
            }
            if let Err(error) = self.poll.poll(&mut events, Some(self.patience()))
                && error.kind() != ErrorKind::Interrupted
            {
                return Err(error.into());
            }
            for event in &events {
                self.serve(event.token().0, event.is_read_closed() || event.is_error(), &mut buffer);
            }
            self.go_on()?;
        }
    }

    fn patience(&self) -> Duration {
        if matches!(self.phase, Phase::Connecting) && self.settings.connects_per_s.is_some() {
            Duration::from_millis(1)
        } else {
            LOOK_EVERY
        }
    }

    /// Tells what is to be told, and goes on to the next phase.
    fn go_on(&mut self) -> Result<()> {
        match &self.phase {
            Phase::Connecting => {
                if self.live + self.failed == self.settings.readers {
                    self.phase = Phase::Idle;
                    part::say(&Live {
                        live: self.live,
                        failed: self.failed,
                        failure: self.failure.clone(),
                        took_ms: self.began.elapsed().as_secs_f64() * 1_000.0,
                        p50_ms: self.until_live.quantile_ms(0.5),
                        p99_ms: self.until_live.quantile_ms(0.99),
                        bytes: self.bytes,
                    })?;
                }
            }
            Phase::Idle => {}
            Phase::Measuring(window) => {
                if self.latencies.len() >= window.expected || now_us() > window.deadline_us {
                    part::say(&Report {
                        delivered: self.latencies.len(),
                        meanwhile: self.meanwhile,
                        p50_ms: self.latencies.quantile_ms(0.5),
                        p99_ms: self.latencies.quantile_ms(0.99),
                        p999_ms: self.latencies.quantile_ms(0.999),
                        max_ms: self.latencies.max_ms(),
                        gaps: self.gaps,
                        lost: self.lost,
                    })?;
                    self.phase = Phase::Idle;
                }
            }
        }
        Ok(())
    }

    fn connect_due(&mut self) -> Result<()> {
        let due = match self.settings.connects_per_s {
            Some(per_s) => (self.began.elapsed().as_secs_f64() * per_s) as usize,
            None => self.live + self.failed + CONNECTING,
        };
        while self.connections.len() < due.min(self.settings.readers) {
            let index = self.connections.len();
            let stuck = self
                .settings
                .stuck
                .as_ref()
                .filter(|stuck| index.is_multiple_of(stuck.every));
            let scheduled_us = match self.settings.connects_per_s {
                Some(per_s) => self.began_us + (index as f64 / per_s * 1e6) as u64,
                None => now_us(),
            };
            let mut socket = connect(self.settings.address, stuck)?;
            self.poll
                .registry()
                .register(&mut socket, Token(index), Interest::READABLE | Interest::WRITABLE)?;
            self.connections
                .push(Connection::new(socket, scheduled_us, stuck.is_some()));
        }
        Ok(())
    }

    /// A connection has something to say.
    fn serve(&mut self, index: usize, closed: bool, buffer: &mut [u8]) {
        let requests = &self.settings.requests;
        let connection = &mut self.connections[index];
        if connection.is_over {
            return;
        }
        if !connection.has_asked {
            let stuck = self.settings.stuck.as_ref().filter(|_| connection.is_stuck);
            let request = stuck.map_or_else(|| &requests[index % requests.len()], |stuck| &stuck.request);
            match connection.ask(request.as_bytes(), self.poll.registry(), Token(index)) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.over(index, &error.to_string()),
            }
        }
        let connection = &mut self.connections[index];
        if connection.is_stuck && connection.is_live {
            return;
        }
        let mut over = None;
        loop {
            match (&connection.socket).read(buffer) {
                Ok(0) => {
                    over = Some("the stream ended".to_owned());
                    break;
                }
                Ok(n) => {
                    self.bytes += n as u64;
                    let at_us = now_us();
                    let (latencies, meanwhile, window) = (&mut self.latencies, &mut self.meanwhile, &self.phase);
                    let was_live = connection.is_live;
                    let mark = self.settings.live_mark.as_bytes();
                    let told = connection.feed(&buffer[..n], mark, self.settings.gapless, &mut |seen| match seen {
                        Seen::Event { scheduled_us } => {
                            if let Phase::Measuring(window) = window {
                                *meanwhile += u64::from((window.from_us..window.to_us).contains(&at_us));
                                if (window.from_us..window.to_us).contains(&scheduled_us) {
                                    latencies.record(at_us.saturating_sub(scheduled_us));
                                }
                            }
                        }
                        Seen::Gap => self.gaps += 1,
                    });
                    if connection.is_live && !was_live {
                        self.live += 1;
                        self.until_live.record(at_us.saturating_sub(connection.scheduled_us));
                    }
                    if let Err(why) = told {
                        over = Some(why);
                        break;
                    }
                    // Edge-triggered: a short read has emptied the socket, and what comes later is told.
                    if n < buffer.len() && !closed {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    over = Some(error.to_string());
                    break;
                }
            }
        }
        if let Some(why) = over {
            self.over(index, &why);
        }
    }

    /// A connection has ended.
    fn over(&mut self, index: usize, why: &str) {
        let connection = &mut self.connections[index];
        connection.is_over = true;
        // Nothing depends on it: the process ends soon.
        let _ = self.poll.registry().deregister(&mut connection.socket);
        if connection.is_live {
            self.lost += 1;
        } else {
            self.failed += 1;
            self.failure.get_or_insert_with(|| why.to_owned());
        }
    }
}

fn connect(address: SocketAddr, stuck: Option<&Stuck>) -> Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    // Thousands of them in TIME_WAIT would take the next fleet's ports.
    socket.set_linger(Some(Duration::ZERO))?;
    if let Some(stuck) = stuck {
        socket.set_recv_buffer_size(stuck.receive_buffer_bytes)?;
    }
    match socket.connect(&address.into()) {
        Ok(()) => {}
        // The writable event tells how it went.
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error).context("connecting"),
    }
    Ok(TcpStream::from_std(socket.into()))
}
