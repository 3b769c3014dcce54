//! Redis streams behind a Node server (bench/peers/redis-sse): the architecture of most resumable streams today.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::{Unpacked, folder, run};
use crate::process::{Process, Usage, wait_until_ready};

const NAME: &str = "redis-sse";
/// redis-server and what it needs beyond a base system.
const PACKAGES: [&str; 8] = [
    "redis-server",
    "redis-tools",
    "libjemalloc2",
    "liblzf1",
    "liblua5.1-0",
    "lua-bitop",
    "lua-cjson",
    "libatomic1",
];
const REDIS: &str = "usr/bin/redis-server";
const READY_LIMIT: Duration = Duration::from_secs(10);

pub const NOTE: &str = "Redis: streams with XADD (pipelined), appendonly yes, appendfsync everysec, over a unix \
    socket; a Node server reads all followed streams with one blocking XREAD and writes each event to its readers, \
    with resumption from Last-Event-ID. A crash of the machine loses up to a second of events that readers have \
    seen; Rejoin commits each event to disk before it is visible";

/// Fetches both servers.
pub fn prepare() -> Result<()> {
    Unpacked::fetch(NAME, &PACKAGES, REDIS)?;
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
    redis: Process,
    node: Process,
    pub socket: String,
    pub address: SocketAddr,
    data: PathBuf,
}

impl RedisSse {
    pub async fn start() -> Result<Self> {
        let unpacked = Unpacked::fetch(NAME, &PACKAGES, REDIS)?;
        let data = std::env::temp_dir().join(format!("rejoin-bench-redis-{}", std::process::id()));
        std::fs::create_dir_all(&data)?;
        let socket = data.join("redis.sock").display().to_string();
        let redis = Process::spawn(unpacked.command(REDIS).current_dir(&data).args([
            "--port",
            "0",
            "--unixsocket",
            &socket,
            "--appendonly",
            "yes",
            "--appendfsync",
            "everysec",
            "--save",
            "",
        ]))?;
        let mut waited = Duration::ZERO;
        while UnixStream::connect(&socket).await.is_err() {
            if waited > READY_LIMIT {
                bail!("redis-server did not start");
            }
            sleep(Duration::from_millis(10)).await;
            waited += Duration::from_millis(10);
        }
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let node = Process::spawn(
            Command::new("node")
                .arg("server.mjs")
                .current_dir(folder(NAME)?)
                .env("REDIS_SOCKET", &socket)
                .env("PORT", address.port().to_string()),
        )?;
        wait_until_ready(&format!("http://{address}/ready")).await?;
        Ok(Self {
            redis,
            node,
            socket,
            address,
            data,
        })
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
        self.redis.usage()
    }
}

impl Drop for RedisSse {
    fn drop(&mut self) {
        // Left to the system's temporary folder otherwise.
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
