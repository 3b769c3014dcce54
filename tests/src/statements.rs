//! What a process sends to its database: a TCP proxy that reads the frontend's messages of PostgreSQL's protocol, and forwards everything.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinHandle;

/// Size of a read.
const PIECE_BYTES: usize = 16 * 1024;
/// The protocol's version 3, in a startup message.
const VERSION_3: u32 = 3 << 16;

/// Where a proxy forwards to.
#[derive(Debug, Clone)]
pub enum Server {
    /// The socket of PostgreSQL.
    Socket(PathBuf),
    /// A pooler.
    Address(SocketAddr),
}

/// A connection of the process.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// The parameters of its startup message.
    pub startup: HashMap<String, String>,
    /// The texts of its statements, simple or prepared.
    pub statements: Vec<String>,
}

impl Connection {
    /// The name in `pg_stat_activity`.
    pub fn application(&self) -> &str {
        self.startup.get("application_name").map_or("", String::as_str)
    }
}

/// A proxy; it ends with its handle.
pub struct Statements {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<Connection>>>,
    accepting: JoinHandle<()>,
}

impl Statements {
    /// Listens on 127.0.0.1.
    pub async fn watch(server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its number");
        let connections = Arc::<Mutex<Vec<Connection>>>::default();
        let seen = connections.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, server.clone(), seen.clone()));
            }
        });
        Self {
            address,
            connections,
            accepting,
        }
    }

    /// The URL of a database behind it.
    pub fn url(&self, user: &str) -> String {
        format!("postgres://{user}@{}/rejoin", self.address)
    }

    /// The connections so far, and what each has sent.
    pub fn connections(&self) -> Vec<Connection> {
        lock(&self.connections).clone()
    }
}

impl Drop for Statements {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock(connections: &Mutex<Vec<Connection>>) -> MutexGuard<'_, Vec<Connection>> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(client: TcpStream, server: Server, seen: Arc<Mutex<Vec<Connection>>>) {
    let number = {
        let mut seen = lock(&seen);
        seen.push(Connection::default());
        seen.len() - 1
    };
    // A server that is gone closes the client's connection, too.
    match server {
        Server::Socket(path) => {
            if let Ok(server) = UnixStream::connect(path).await {
                forward(client, server, number, &seen).await;
            }
        }
        Server::Address(address) => {
            if let Ok(server) = TcpStream::connect(address).await {
                forward(client, server, number, &seen).await;
            }
        }
    }
}

async fn forward(
    mut client: TcpStream,
    server: impl AsyncRead + AsyncWrite,
    number: usize,
    seen: &Mutex<Vec<Connection>>,
) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let to_server = async {
        let mut frontend = Frontend::default();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = match from_client.read(&mut piece).await {
                Ok(0) | Err(_) => return,
                Ok(read) => &piece[..read],
            };
            frontend.read(read, &mut lock(seen)[number]);
            if to_server.write_all(read).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = to_server => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}

/// Reads the messages of one connection.
#[derive(Default)]
struct Frontend {
    unread: Vec<u8>,
    has_started: bool,
}

impl Frontend {
    fn read(&mut self, piece: &[u8], connection: &mut Connection) {
        self.unread.extend_from_slice(piece);
        loop {
            // Messages before the session have no type.
            let type_bytes = usize::from(self.has_started);
            let Some(length) = number(&self.unread, type_bytes) else {
                return;
            };
            let end = type_bytes + length as usize;
            if self.unread.len() < end {
                return;
            }
            let message: Vec<u8> = self.unread.drain(..end).collect();
            let body = &message[type_bytes + 4..];
            if self.has_started {
                connection.statements.extend(statement(message[0], body));
            } else if number(body, 0) == Some(VERSION_3) {
                self.has_started = true;
                let words: Vec<String> = strings(&body[4..]).collect();
                let pairs = words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                connection.startup = pairs.collect();
            }
        }
    }
}

/// The text of Query and Parse.
fn statement(kind: u8, body: &[u8]) -> Option<String> {
    match kind {
        b'Q' => strings(body).next(),
        // After its name.
        b'P' => strings(body).nth(1),
        _ => None,
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

fn strings(bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    bytes
        .split(|byte| *byte == 0)
        .map(|text| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        message.extend(body);
        message
    }

    #[test]
    fn statements_are_read_in_pieces_of_any_size() {
        let mut startup = VERSION_3.to_be_bytes().to_vec();
        startup.extend(b"user\0u\0application_name\0rejoin-api\0\0");
        let sent = [
            // A request for TLS.
            message(None, &80_877_103_u32.to_be_bytes()),
            message(None, &startup),
            message(Some(b'Q'), b"begin\0"),
            message(Some(b'P'), b"name\0select 1\0\0\0"),
            message(Some(b'd'), b"copied data"),
            message(Some(b'P'), b"\0select 2\0\0\0"),
        ]
        .concat();
        for size in [1, 7, sent.len()] {
            let (mut frontend, mut connection) = (Frontend::default(), Connection::default());
            for piece in sent.chunks(size) {
                frontend.read(piece, &mut connection);
            }
            assert_eq!(connection.application(), "rejoin-api");
            assert_eq!(connection.statements, ["begin", "select 1", "select 2"], "{size}");
        }
    }
}
