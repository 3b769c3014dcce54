//! Redis streams behind a Node server (bench/peers/redis-sse): the architecture of most resumable streams today.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::redis::Redis;
use super::{folder, run};
use crate::process::{Process, Usage, wait_until_ready};

const NAME: &str = "redis-sse";
pub const NOTE: &str = "Redis: streams with XADD (pipelined), appendonly yes, appendfsync everysec, over a unix \
    socket; a Node server reads all followed streams with one blocking XREAD and writes each event to its readers, \
    with resumption from Last-Event-ID. A crash of the machine loses up to a second of events that readers have \
    seen; Rejoin commits each event to disk before it is visible";

/// Fetches both servers.
pub fn prepare() -> Result<()> {
    Redis::fetch()?;
    let folder = folder(NAME)?;
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("peers/redis-sse");
    for file in ["package.json", "package-lock.json", "server.mjs"] {
        std::fs::copy(sources.join(file), folder.join(file)).with_context(|| format!("copying {file}"))?;
    }
    run(Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund"])
        .current_dir(&folder))
}

/// Both servers, running.
pub struct RedisSse {
    redis: Redis,
    node: Process,
    pub address: SocketAddr,
}

impl RedisSse {
    pub async fn start() -> Result<Self> {
        let redis = Redis::start().await?;
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let node = Process::spawn(
            Command::new("node")
                .arg("server.mjs")
                .current_dir(folder(NAME)?)
                .env("REDIS_SOCKET", redis.socket())
                .env("PORT", address.port().to_string()),
        )?;
        wait_until_ready(&format!("http://{address}/ready")).await?;
        Ok(Self { redis, node, address })
    }

    pub fn socket(&self) -> &str {
        self.redis.socket()
    }

    /// The head of a request for a log's events from now on.
    pub fn request(log: usize) -> String {
        format!("GET /streams/log:{log}?after=now HTTP/1.1\r\nHost: peer\r\nAccept: text/event-stream\r\n\r\n")
    }

    /// Of the server that streams.
    pub fn server_usage(&self) -> Result<Usage> {
        self.node.usage()
    }

    pub fn store_usage(&self) -> Result<Usage> {
        self.redis.process().usage()
    }
}
