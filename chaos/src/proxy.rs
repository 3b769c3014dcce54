//! A TCP proxy between one process and PostgreSQL that injects network faults.
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

/// Read at once.
const PIECE_BYTES: usize = 16 * 1024;
/// So much of a piece is sent byte by byte while connections are sliced; the rest follows whole.
const SLICED_BYTES: usize = 2 * 1024;
/// What the server sends once a transaction is committed.
const COMMITTED: &[u8] = b"COMMIT\0";
/// What a connection says that wants to be woken.
const LISTENS: &[u8] = b"listen ";

/// What holds for all connections of a process.
#[derive(Debug, Clone, Default)]
pub struct Weather {
    /// Every piece is late by this.
    pub delay: Duration,
    /// Pieces come byte by byte.
    pub sliced: bool,
    /// Nothing passes, for connections with a smaller number than this: half open, they look alive.
    pub frozen_below: u64,
    /// What the server sends to connections that listen for wake-ups is swallowed.
    pub deaf: bool,
    /// New connections are closed at once.
    pub refused: bool,
}

/// What happens with the next answer to a COMMIT.
enum Trap {
    /// It is swallowed, and the connection cut: the client can't know.
    Lose,
    /// It waits, while somebody is told; then the connection is cut.
    Hold(oneshot::Sender<()>),
}

struct Shared {
    /// Of the server that answers.
    socket: Mutex<PathBuf>,
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
    /// Listens on 127.0.0.1 and passes everything on to PostgreSQL's socket.
    pub async fn start(socket: PathBuf) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for a proxy")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            socket: Mutex::new(socket),
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

    /// Fine weather again. Frozen connections are cut, as a kernel gives up on them in the end.
    pub fn clear(&self) {
        let below = self.shared.weather.borrow().frozen_below;
        for (_, cut) in self.lock().extract_if(|number, _| *number < below) {
            cut.cancel();
        }
        self.shared.weather.send_replace(Weather::default());
    }

    /// Connections that are there pass nothing any more; new ones do.
    pub fn freeze(&self) {
        let below = self.shared.next.load(Ordering::Relaxed);
        self.change(|weather| weather.frozen_below = below);
    }

    /// From now on another server answers; connections to the old one are reset.
    pub fn lead_to(&self, socket: PathBuf) {
        *self.shared.socket.lock().expect("no panic while it is held") = socket;
        self.cut();
    }

    /// Resets all connections. Returns how many.
    pub fn cut(&self) -> usize {
        let cut: Vec<_> = self.lock().drain().collect();
        for (_, connection) in &cut {
            connection.cancel();
        }
        cut.len()
    }

    /// The answer to the next COMMIT is lost.
    pub fn lose_commit(&self) {
        *self.shared.trap.lock().expect("no panic while it is held") = Some(Trap::Lose);
    }

    /// The answer to the next COMMIT waits for ever; told when it does.
    pub fn hold_commit(&self) -> oneshot::Receiver<()> {
        let (told, held) = oneshot::channel();
        *self.shared.trap.lock().expect("no panic while it is held") = Some(Trap::Hold(told));
        held
    }

    /// Whether no COMMIT has come yet since a trap was set.
    pub fn is_armed(&self) -> bool {
        self.shared.trap.lock().expect("no panic while it is held").is_some()
    }

    /// Removes a trap that caught nothing.
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
    // A byte at a time must leave one at a time.
    let _ = client.set_nodelay(true);
    let socket = shared.socket.lock().expect("no panic while it is held").clone();
    if let Ok(mut server) = UnixStream::connect(socket).await {
        let listens = AtomicBool::new(false);
        let link = Link {
            number,
            shared: &shared,
            cut: &cut,
            listens: &listens,
        };
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::select! {
            () = link.pump(Direction::ToServer, from_client, to_server) => {}
            () = link.pump(Direction::ToClient, from_server, to_client) => {}
            () = cut.cancelled() => {}
        }
    }
    if cut.is_cancelled() {
        // A reset, not a farewell.
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

/// A connection, as its pumps see it.
struct Link<'a> {
    number: u64,
    shared: &'a Shared,
    cut: &'a CancellationToken,
    listens: &'a AtomicBool,
}

impl Link<'_> {
    /// Passes on what comes, until one end closes.
    async fn pump(&self, direction: Direction, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        let mut weather = self.shared.weather.subscribe();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = match from.read(&mut piece).await {
                Ok(0) | Err(_) => return,
                Ok(read) => &piece[..read],
            };
            if direction == Direction::ToServer && holds(read, LISTENS) {
                self.listens.store(true, Ordering::Relaxed);
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
                if holds(read, COMMITTED) {
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

    /// Does not return if the answer to a COMMIT is not to arrive.
    async fn trap(&self) {
        let trap = self.shared.trap.lock().expect("no panic while it is held").take();
        match trap {
            None => return,
            Some(Trap::Lose) => self.cut.cancel(),
            // Whoever is told cuts the connection, by whatever it does.
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
