//! A TCP proxy between one process and PostgreSQL, or the API, that injects network faults.
//!
//! Two pumps forward data, one per direction. They check the proxy's weather before each piece, so that a fault applies
//! to existing and new connections.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::requests::Requests;

mod requests;

/// Size of a read.
const PIECE_BYTES: usize = 16 * 1024;
/// How much of a piece is sent byte by byte while connections are sliced; the rest follows at once.
const SLICED_BYTES: usize = 2 * 1024;
/// The server's message after a COMMIT.
const COMMITTED: &[u8] = b"COMMIT\0";
/// The server's message when it is ready for another request and no transaction is open: a single statement has committed.
const READY: &[u8] = b"Z\0\0\0\x05I";
/// The statement of a connection that listens for wake-ups.
const LISTENS: &[u8] = b"listen ";

/// The state of all connections of a process.
#[derive(Debug, Clone, Default)]
pub struct Weather {
    /// Delay of every piece.
    pub delay: Duration,
    /// Data arrive byte by byte.
    pub sliced: bool,
    /// Connections with a smaller number are frozen: half open, they look alive.
    pub frozen_below: u64,
    /// Data from the server to listening connections are dropped.
    pub deaf: bool,
    /// New connections are closed immediately.
    pub refused: bool,
}

/// The handling of the next response to a commit: of a COMMIT, or of a worker's command, which is one statement.
enum Trap {
    /// It is dropped, and the connection cut: the client can't know the outcome.
    Lose,
    /// It is held, with a notification; then the connection is cut.
    Hold(oneshot::Sender<()>),
}

/// Where a proxy forwards to.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// PostgreSQL.
    Socket(PathBuf),
    /// An API.
    Address(SocketAddr),
}

impl From<PathBuf> for Upstream {
    fn from(socket: PathBuf) -> Self {
        Self::Socket(socket)
    }
}

impl From<SocketAddr> for Upstream {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

/// A connection to a server.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Upstream {
    async fn connect(self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Socket(socket) => Box::new(UnixStream::connect(socket).await?),
            Self::Address(address) => Box::new(TcpStream::connect(address).await?),
        })
    }
}

struct Shared {
    /// The current server.
    upstream: Mutex<Upstream>,
    weather: watch::Sender<Weather>,
    next: AtomicU64,
    connections: Mutex<HashMap<u64, CancellationToken>>,
    trap: Mutex<Option<Trap>>,
}

pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on 127.0.0.1 and forwards to a server.
    pub async fn start(upstream: impl Into<Upstream>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for a proxy")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream.into()),
            weather: watch::Sender::default(),
            next: AtomicU64::new(0),
            connections: Mutex::default(),
            trap: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// The URL of a database behind it.
    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@{}/{database}", self.address)
    }

    pub fn change(&self, change: impl FnOnce(&mut Weather)) {
        self.shared.weather.send_modify(change);
    }

    /// Ends all faults. Frozen connections are cut, as a kernel eventually does.
    pub fn clear(&self) {
        let below = self.shared.weather.borrow().frozen_below;
        for (_, cut) in self.lock().extract_if(|number, _| *number < below) {
            cut.cancel();
        }
        self.shared.weather.send_replace(Weather::default());
    }

    /// Freezes existing connections; new ones work.
    pub fn freeze(&self) {
        let below = self.shared.next.load(Ordering::Relaxed);
        self.change(|weather| weather.frozen_below = below);
    }

    /// Forwards to another server from now on; resets connections to the old one.
    pub fn lead_to(&self, socket: PathBuf) {
        *self.shared.upstream.lock().expect("no panic while it is held") = socket.into();
        self.cut();
    }

    /// Resets all connections. Returns their number.
    pub fn cut(&self) -> usize {
        let cut: Vec<_> = self.lock().drain().collect();
        for (_, connection) in &cut {
            connection.cancel();
        }
        cut.len()
    }

    /// Loses the response to the next commit.
    pub fn lose_commit(&self) {
        *self.shared.trap.lock().expect("no panic while it is held") = Some(Trap::Lose);
    }

    /// Holds the response to the next commit forever, with a notification.
    pub fn hold_commit(&self) -> oneshot::Receiver<()> {
        let (told, held) = oneshot::channel();
        *self.shared.trap.lock().expect("no panic while it is held") = Some(Trap::Hold(told));
        held
    }

    /// Returns whether nothing was committed since the trap was set.
    pub fn is_armed(&self) -> bool {
        self.shared.trap.lock().expect("no panic while it is held").is_some()
    }

    /// Removes an unused trap.
    pub fn disarm(&self) {
        *self.shared.trap.lock().expect("no panic while it is held") = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, CancellationToken>> {
        self.shared.connections.lock().expect("no panic while it is held")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        if shared.weather.borrow().refused {
            continue;
        }
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let cut = CancellationToken::new();
        shared
            .connections
            .lock()
            .expect("no panic while it is held")
            .insert(number, cut.clone());
        tokio::spawn(serve(client, number, cut, shared.clone()));
    }
}

async fn serve(mut client: TcpStream, number: u64, cut: CancellationToken, shared: Arc<Shared>) {
    // Single bytes must be sent one at a time.
    let _ = client.set_nodelay(true);
    let upstream = shared.upstream.lock().expect("no panic while it is held").clone();
    if let Ok(server) = upstream.connect().await {
        let (listens, commands) = (AtomicBool::new(false), AtomicBool::new(false));
        let link = Link {
            number,
            shared: &shared,
            cut: &cut,
            listens: &listens,
            commands: &commands,
        };
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = tokio::io::split(server);
        tokio::select! {
            () = link.pump(Direction::ToServer, from_client, to_server) => {}
            () = link.pump(Direction::ToClient, from_server, to_client) => {}
            () = cut.cancelled() => {}
        }
    }
    if cut.is_cancelled() {
        // A reset, not an orderly close.
        let _ = client.set_zero_linger();
    }
    shared
        .connections
        .lock()
        .expect("no panic while it is held")
        .remove(&number);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// A connection's state for its pumps.
struct Link<'a> {
    number: u64,
    shared: &'a Shared,
    cut: &'a CancellationToken,
    listens: &'a AtomicBool,
    /// Whether the server was sent a worker's command that it has not answered.
    commands: &'a AtomicBool,
}

impl Link<'_> {
    /// Forwards data until one end closes.
    async fn pump(&self, direction: Direction, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        let mut weather = self.shared.weather.subscribe();
        let mut piece = vec![0; PIECE_BYTES];
        let mut requests = Requests::default();
        loop {
            let read = match from.read(&mut piece).await {
                Ok(0) | Err(_) => return,
                Ok(read) => &piece[..read],
            };
            if direction == Direction::ToServer {
                if holds(read, LISTENS) {
                    self.listens.store(true, Ordering::Relaxed);
                }
                if requests.read(read) {
                    self.commands.store(true, Ordering::Relaxed);
                }
            }
            let frozen = |weather: &Weather| self.number < weather.frozen_below;
            if weather.wait_for(|weather| !frozen(weather)).await.is_err() {
                return;
            }
            let now = weather.borrow().clone();
            if !now.delay.is_zero() {
                tokio::time::sleep(now.delay).await;
            }
            if direction == Direction::ToClient {
                if now.deaf && self.listens.load(Ordering::Relaxed) {
                    continue;
                }
                let command = holds(read, READY) && self.commands.swap(false, Ordering::Relaxed);
                if command || holds(read, COMMITTED) {
                    self.trap().await;
                }
            }
            let written = async {
                let slow = if now.sliced { read.len().min(SLICED_BYTES) } else { 0 };
                for byte in &read[..slow] {
                    to.write_all(std::slice::from_ref(byte)).await?;
                }
                to.write_all(&read[slow..]).await
            };
            if written.await.is_err() {
                return;
            }
        }
    }

    /// Does not return if the response is to be lost.
    async fn trap(&self) {
        let trap = self.shared.trap.lock().expect("no panic while it is held").take();
        match trap {
            None => return,
            Some(Trap::Lose) => self.cut.cancel(),
            // The notified fault cuts the connection by its action.
            Some(Trap::Hold(told)) => drop(told.send(())),
        }
        std::future::pending::<()>().await;
    }
}

fn holds(piece: &[u8], words: &[u8]) -> bool {
    piece
        .windows(words.len())
        .any(|window| window.eq_ignore_ascii_case(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case() {
        assert!(holds(b"Q\0\0\0\x12LISTEN rejoin\0", LISTENS));
        assert!(holds(b"C\0\0\0\x0bCOMMIT\0Z", COMMITTED));
        assert!(!holds(b"com", COMMITTED));
    }
}
