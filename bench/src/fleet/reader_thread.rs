//! One thread's readers: every n-th of the fleet's.

use std::io::{ErrorKind, Read as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::connection::{Connection, Seen};
use super::{Began, Settings, Stuck, Window};
use crate::load::{Latencies, now_us};

/// Maximum number of connections waiting for their stream to begin, without a connect schedule.
const CONNECTING: usize = 200;
/// Size of a read.
const READ_BYTES: usize = 64 * 1024;
/// Maximum interval between checks of the clock.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Number of simultaneously ready sockets after which the thread pauses briefly: real readers are on other machines,
/// and waking this thread repeatedly would be charged to the server.
const BUSY: usize = 32;
const REST: Duration = Duration::from_millis(1);

/// A thread's message to the fleet.
pub(super) enum ThreadMessage {
    Tally(Box<Tally>),
    Failed(anyhow::Error),
}

/// The readers' results so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) live: usize,
    pub(super) failed: usize,
    /// Why the first of them failed.
    pub(super) failure: Option<String>,
    pub(super) until_live: Latencies,
    pub(super) bytes: u64,
    pub(super) lost: usize,
    pub(super) gaps: u64,
    pub(super) numbers: u64,
    /// Of the events in the window.
    pub(super) latencies: Latencies,
    pub(super) meanwhile: u64,
}

/// The state of the loop.
enum Phase {
    Connecting,
    Idle,
    /// Until this many of the window's events were read.
    Measuring(Window, u64),
}

pub(super) struct ReaderThread {
    settings: Arc<Settings>,
    began: Began,
    /// The thread's number, and the total.
    number: usize,
    reader_threads: usize,
    poll: Poll,
    readers: usize,
    connections: Vec<Connection>,
    phase: Phase,
    tally: Tally,
}

impl ReaderThread {
    pub(super) fn new(settings: Arc<Settings>, began: Began, number: usize, reader_threads: usize) -> Result<Self> {
        let readers = (number..settings.readers).step_by(reader_threads).count();
        Ok(Self {
            settings,
            began,
            number,
            reader_threads,
            poll: Poll::new()?,
            readers,
            connections: Vec::with_capacity(readers),
            phase: Phase::Connecting,
            tally: Tally::default(),
        })
    }

    pub(super) fn run(mut self, orders: &Receiver<Window>, answers: &SyncSender<ThreadMessage>) -> Result<()> {
        let mut events = Events::with_capacity(1_024);
        let mut buffer = vec![0_u8; READ_BYTES];
        loop {
            match orders.try_recv() {
                Ok(window) => {
                    self.tally.latencies = Latencies::default();
                    self.tally.meanwhile = 0;
                    // All readers read the same.
                    let reading = self.connections.iter().filter(|connection| !connection.is_stuck);
                    let expected = window.expected * reading.count() as u64 / self.settings.reading() as u64;
                    self.phase = Phase::Measuring(window, expected);
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
            if matches!(self.phase, Phase::Connecting) {
                self.connect_due()?;
            }
            if let Err(error) = self.poll.poll(&mut events, Some(self.patience()))
                && error.kind() != ErrorKind::Interrupted
            {
                return Err(error.into());
            }
            let mut seen = 0;
            for event in &events {
                seen += 1;
                self.serve(event.token().0, event.is_read_closed() || event.is_error(), &mut buffer);
            }
            if self.is_done() {
                self.phase = Phase::Idle;
                answers.send(ThreadMessage::Tally(Box::new(self.tally.clone())))?;
            }
            if seen >= BUSY {
                rest();
            }
        }
    }

    fn patience(&self) -> Duration {
        if matches!(self.phase, Phase::Connecting) && self.settings.connects_per_s.is_some() {
            Duration::from_millis(1)
        } else {
            LOOK_EVERY
        }
    }

    fn is_done(&self) -> bool {
        match &self.phase {
            Phase::Connecting => self.tally.live + self.tally.failed == self.readers,
            Phase::Idle => false,
            Phase::Measuring(window, expected) => {
                self.tally.latencies.count() >= *expected || now_us() > window.deadline_us
            }
        }
    }

    fn connect_due(&mut self) -> Result<()> {
        let due = match self.settings.connects_per_s {
            Some(per_s) => (self.began.at.elapsed().as_secs_f64() * per_s) as usize / self.reader_threads,
            None => self.tally.live + self.tally.failed + CONNECTING / self.reader_threads,
        };
        while self.connections.len() < due.min(self.readers) {
            let token = Token(self.connections.len());
            let index = self.connections.len() * self.reader_threads + self.number;
            let stuck = self.settings.stuck.as_ref();
            let stuck = stuck.filter(|stuck| index.is_multiple_of(stuck.every));
            let scheduled_us = match self.settings.connects_per_s {
                Some(per_s) => self.began.at_us + (index as f64 / per_s * 1e6) as u64,
                None => now_us(),
            };
            let mut socket = connect(self.settings.address, stuck)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut socket, token, interest)?;
            self.connections.push(Connection::new(
                socket,
                index,
                scheduled_us,
                stuck.is_some(),
                self.settings.cursor,
            ));
        }
        Ok(())
    }

    /// Serves a ready connection.
    fn serve(&mut self, index: usize, closed: bool, buffer: &mut [u8]) {
        let requests = &self.settings.requests;
        let connection = &mut self.connections[index];
        if connection.is_over {
            return;
        }
        if !connection.has_asked {
            let stuck = self.settings.stuck.as_ref().filter(|_| connection.is_stuck);
            let request = stuck.map_or_else(|| &requests[connection.index % requests.len()], |stuck| &stuck.request);
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
                    self.tally.bytes += n as u64;
                    let at_us = now_us();
                    let (latencies, meanwhile, phase) =
                        (&mut self.tally.latencies, &mut self.tally.meanwhile, &self.phase);
                    let was_live = connection.is_live;
                    let mark = self.settings.live_mark.as_bytes();
                    let told = connection.feed(&buffer[..n], mark, self.settings.gapless, &mut |seen| match seen {
                        Seen::Event { scheduled_us } => {
                            if let Phase::Measuring(window, _) = phase {
                                *meanwhile += u64::from((window.from_us..window.to_us).contains(&at_us));
                                if (window.from_us..window.to_us).contains(&scheduled_us) {
                                    latencies.record(at_us.saturating_sub(scheduled_us));
                                }
                            }
                        }
                        Seen::Number { follows } => {
                            self.tally.numbers += 1;
                            self.tally.gaps += u64::from(!follows);
                        }
                    });
                    if connection.is_live && !was_live {
                        self.tally.live += 1;
                        self.tally
                            .until_live
                            .record(at_us.saturating_sub(connection.scheduled_us));
                    }
                    if let Err(why) = told {
                        over = Some(why);
                        break;
                    }
                    // Edge-triggered: a short read has emptied the socket, and later data are signalled.
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

    /// Handles the end of a connection.
    fn over(&mut self, index: usize, why: &str) {
        let connection = &mut self.connections[index];
        connection.is_over = true;
        // Irrelevant: the process ends soon.
        let _ = self.poll.registry().deregister(&mut connection.socket);
        if connection.is_live {
            self.tally.lost += 1;
        } else {
            self.tally.failed += 1;
            self.tally.failure.get_or_insert_with(|| why.to_owned());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own, without a runtime")]
fn rest() {
    std::thread::sleep(REST);
}

fn connect(address: SocketAddr, stuck: Option<&Stuck>) -> Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    // Thousands in TIME_WAIT would take the next fleet's ports.
    socket.set_linger(Some(Duration::ZERO))?;
    if let Some(stuck) = stuck {
        socket.set_recv_buffer_size(stuck.receive_buffer_bytes)?;
    }
    match socket.connect(&address.into()) {
        Ok(()) => {}
        // The writable event reports the result.
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error).context("connecting"),
    }
    Ok(TcpStream::from_std(socket.into()))
}
