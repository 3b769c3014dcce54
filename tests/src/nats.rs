//! A real NATS server for tests of the wake-up bus. `scripts/setup-test.sh` installs it; without it a test fails in CI and is skipped
//! elsewhere.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::ports::free_address;
use crate::{needs, support};

/// Another process may take a port between its choice and its use.
const TRIES: u32 = 3;
const CONNECT_LIMIT: Duration = Duration::from_millis(200);

/// A server; killed when dropped.
pub struct NatsServer {
    address: SocketAddr,
    program: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl NatsServer {
    /// Starts one that asks for no password. None: it is not installed.
    pub async fn start() -> Option<Self> {
        Self::start_with(&[]).await
    }

    /// The same with further arguments.
    pub async fn start_with(arguments: &[&str]) -> Option<Self> {
        let Some(program) = program() else {
            needs::skip("nats-server is not installed: scripts/setup-test.sh installs it");
            return None;
        };
        for _ in 0..TRIES {
            let mut server = Self {
                address: free_address(),
                program: program.clone(),
                arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
                child: None,
            };
            if server.run().await {
                return Some(server);
            }
        }
        panic!("nats-server does not start");
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a killed one at the same address.
    pub async fn restart(&mut self) {
        assert!(self.child.is_none(), "it is running");
        assert!(self.run().await, "nats-server does not start again");
    }

    /// Any signal.
    pub fn signal(&self, signal: i32) {
        let id = self.child.as_ref().expect("a running server").id();
        let status = Command::new("kill")
            .args([format!("-{signal}"), id.to_string()])
            .status()
            .expect("kill(1)");
        assert!(status.success());
    }

    /// Returns whether it listens.
    async fn run(&mut self) -> bool {
        let child = Command::new(&self.program)
            .args(["--addr", "127.0.0.1", "--port", &self.address.port().to_string()])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server runs");
        let child = self.child.insert(child);
        let address = self.address;
        support::wait_for("nats-server to listen", async || {
            let lives = child.try_wait().expect("a child of ours").is_none();
            let listens = TcpStream::connect_timeout(&address, CONNECT_LIMIT).is_ok();
            (!lives || listens).then_some(lives)
        })
        .await
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/bin"), PathBuf::from("/usr/sbin")]);
    folders
        .map(|folder| folder.join("nats-server"))
        .find(|file| file.is_file())
}
