//! A TCP proxy between two parts of the server under test, with network faults. Called by `target`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const PIECE_BYTES: usize = 16 * 1024;

/// The state of all connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// Nothing passes, and nothing is closed: a partition.
    pub is_silent: bool,
    /// What the server answers is dropped; the connection is closed when this ends.
    pub loses_answers: bool,
    /// Delay of each piece.
    pub delay: Duration,
}

/// A proxy; closed when dropped.
pub struct Proxy {
    pub name: String,
    pub port: u16,
    weather: Arc<watch::Sender<Weather>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on this port of 127.0.0.1, and forwards to an address.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn start(name: &str, port: u16, to: String) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))
            .await
            .with_context(|| format!("no port for the proxy {name}"))?;
        let port = listener.local_addr()?.port();
        let weather = Arc::new(watch::Sender::new(Weather::default()));
        let accepting = tokio::spawn(accept(listener, to, weather.clone()));
        Ok(Self {
            name: name.to_owned(),
            port,
            weather,
            accepting,
        })
    }

    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, to: String, weather: Arc<watch::Sender<Weather>>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(forward(client, to.clone(), weather.subscribe()));
    }
}

async fn forward(client: TcpStream, to: String, mut weather: watch::Receiver<Weather>) {
    calm(&mut weather).await;
    let Ok(server) = TcpStream::connect(to).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // When one direction has ended, so has the connection.
    tokio::select! {
        () = pump(from_client, to_server, weather.clone(), false) => {}
        () = pump(from_server, to_client, weather, true) => {}
    }
}

/// Waits until something passes.
async fn calm(weather: &mut watch::Receiver<Weather>) {
    // An error: the proxy is gone.
    let _ = weather.wait_for(|weather| !weather.is_silent).await;
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut weather: watch::Receiver<Weather>, is_answer: bool) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let Ok(count @ 1..) = from.read(&mut piece).await else {
            return;
        };
        calm(&mut weather).await;
        let now = *weather.borrow();
        if is_answer && now.loses_answers {
            let _ = weather.wait_for(|weather| !weather.loses_answers).await;
            return;
        }
        if !now.delay.is_zero() {
            tokio::time::sleep(now.delay).await;
        }
        if to.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    /// An echo server behind a proxy.
    async fn echo() -> (Proxy, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        let proxy = Proxy::start("echo", 0, to).await.unwrap();
        let client = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        (proxy, client)
    }

    async fn echoed(client: &mut TcpStream) -> std::io::Result<u8> {
        client.write_u8(7).await?;
        client.read_u8().await
    }

    #[tokio::test]
    async fn a_partition_ends() {
        let (proxy, mut client) = echo().await;
        assert_eq!(echoed(&mut client).await.unwrap(), 7);
        proxy.set(Weather {
            is_silent: true,
            ..Weather::default()
        });
        let waits = tokio::time::timeout(Duration::from_millis(50), echoed(&mut client)).await;
        assert!(waits.is_err(), "nothing passes");
        proxy.set(Weather::default());
        let answer = tokio::time::timeout(LIMIT, client.read_u8()).await.unwrap();
        assert_eq!(answer.unwrap(), 7, "what was sent arrives");
    }

    #[tokio::test]
    async fn lost_answers_close_the_connection() {
        let (proxy, mut client) = echo().await;
        assert_eq!(echoed(&mut client).await.unwrap(), 7);
        proxy.set(Weather {
            loses_answers: true,
            ..Weather::default()
        });
        let waits = tokio::time::timeout(Duration::from_millis(50), echoed(&mut client)).await;
        assert!(waits.is_err(), "the answer is lost");
        proxy.set(Weather::default());
        let answer = tokio::time::timeout(LIMIT, client.read_u8()).await.unwrap();
        assert!(answer.is_err(), "and the connection closed");
    }
}
