//! Publishes events to nginx with nchan: POST over a few persistent connections, pipelined. A channel stays on its
//! connection, which preserves its order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::Due;

const CONNECTIONS: usize = 4;
const FINISH_LIMIT: Duration = Duration::from_secs(20);

pub(super) struct Sink {
    channels: usize,
    run: Uuid,
    connections: Vec<(OwnedWriteHalf, Vec<u8>)>,
    sent: u64,
    answered: Arc<AtomicU64>,
}

impl Sink {
    pub(super) async fn open(address: SocketAddr, channels: usize) -> Result<Self> {
        let answered = Arc::new(AtomicU64::new(0));
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(address).await.context("connecting to nginx")?;
            stream.set_nodelay(true)?;
            let (reader, writer) = stream.into_split();
            tokio::spawn(count_answers(reader, answered.clone()));
            connections.push((writer, Vec::new()));
        }
        Ok(Self {
            channels,
            run: Uuid::now_v7(),
            connections,
            sent: 0,
            answered,
        })
    }

    pub(super) fn channels(&self) -> usize {
        self.channels
    }

    pub(super) async fn put(&mut self, due: &[Due]) -> Result<()> {
        use std::io::Write as _;
        for due in due {
            let data = due.event(self.run).to_json();
            let (log, length) = (due.log, data.len());
            write!(
                self.connections[log % CONNECTIONS].1,
                "POST /pub?id=log-{log} HTTP/1.1\r\nHost: nchan\r\nContent-Length: {length}\r\n\r\n{data}"
            )?;
        }
        self.sent += due.len() as u64;
        for (writer, out) in &mut self.connections {
            if !out.is_empty() {
                writer.write_all(out).await?;
                out.clear();
            }
        }
        Ok(())
    }

    pub(super) async fn finish(&mut self) -> Result<()> {
        let all = async {
            while self.answered.load(Ordering::Relaxed) < self.sent {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(FINISH_LIMIT, all)
            .await
            .context("nginx did not answer everything")
    }
}

async fn count_answers(mut reader: OwnedReadHalf, answered: Arc<AtomicU64>) {
    const STATUS: &[u8] = b"HTTP/1.1 20";
    let mut text = Vec::new();
    let mut buffer = [0_u8; 16 * 1024];
    while let Ok(n @ 1..) = reader.read(&mut buffer).await {
        text.extend_from_slice(&buffer[..n]);
        let mut counted = 0;
        for at in memmem::find_iter(&text, STATUS) {
            answered.fetch_add(1, Ordering::Relaxed);
            counted = at + STATUS.len();
        }
        // A possible prefix of another status line is kept.
        text.drain(..counted.max(text.len().saturating_sub(STATUS.len() - 1)));
    }
}
