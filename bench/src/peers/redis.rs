//! A Redis server, for peers that keep their streams there.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::Unpacked;
use crate::process::Process;

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
const PROGRAM: &str = "usr/bin/redis-server";
const READY_LIMIT: Duration = Duration::from_secs(10);

/// A running server, which listens on a Unix socket.
pub struct Redis {
    process: Process,
    socket: String,
    data: PathBuf,
}

impl Redis {
    pub fn fetch() -> Result<Unpacked> {
        Unpacked::fetch(NAME, &PACKAGES, PROGRAM)
    }

    pub async fn start() -> Result<Self> {
        let unpacked = Self::fetch()?;
        let data = std::env::temp_dir().join(format!("rejoin-bench-redis-{}", std::process::id()));
        std::fs::create_dir_all(&data)?;
        let socket = data.join("redis.sock").display().to_string();
        let process = Process::spawn(unpacked.command(PROGRAM).current_dir(&data).args([
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
        Ok(Self { process, socket, data })
    }

    pub fn socket(&self) -> &str {
        &self.socket
    }

    pub fn process(&self) -> &Process {
        &self.process
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Left to the system's temporary folder otherwise.
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
