//! Publishes events into Redis streams: due events are sent in one write, and responses are read concurrently.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::Due;

const FINISH_LIMIT: Duration = Duration::from_secs(20);

pub(super) struct Sink {
    keys: usize,
    run: Uuid,
    writer: OwnedWriteHalf,
    out: Vec<u8>,
    sent: u64,
    answered: Arc<AtomicU64>,
}

impl Sink {
    pub(super) async fn open(socket: &str, keys: usize) -> Result<Self> {
        let stream = UnixStream::connect(socket).await.context("connecting to Redis")?;
        let (reader, writer) = stream.into_split();
        let answered = Arc::new(AtomicU64::new(0));
        tokio::spawn(count_answers(reader, answered.clone()));
        Ok(Self {
            keys,
            run: Uuid::now_v7(),
            writer,
            out: Vec::new(),
            sent: 0,
            answered,
        })
    }

    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    pub(super) async fn put(&mut self, due: &[Due]) -> Result<()> {
        use std::io::Write as _;
        self.out.clear();
        for due in due {
            let key = format!("log:{}", due.log);
            let data = due.event(self.run).to_json();
            let (key_bytes, data_bytes) = (key.len(), data.len());
            write!(
                self.out,
                "*5\r\n$4\r\nXADD\r\n${key_bytes}\r\n{key}\r\n$1\r\n*\r\n$1\r\nd\r\n${data_bytes}\r\n{data}\r\n"
            )?;
        }
        self.sent += due.len() as u64;
        Ok(self.writer.write_all(&self.out).await?)
    }

    pub(super) async fn finish(&mut self) -> Result<()> {
        let all = async {
            while self.answered.load(Ordering::Relaxed) < self.sent {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(FINISH_LIMIT, all)
            .await
            .context("Redis did not answer everything")
    }
}

/// A response to XADD is a bulk string: two lines.
async fn count_answers(reader: OwnedReadHalf, answered: Arc<AtomicU64>) {
    let mut lines = BufReader::new(reader).lines();
    // An error line begins with `-`: then `finish` never reaches its number, and reports it.
    while let Ok(Some(line)) = lines.next_line().await {
        if line.starts_with('$') {
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}
