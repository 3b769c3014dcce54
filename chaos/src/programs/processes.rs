//! Users' programs that use the packages for Python and TypeScript: processes, each behind its proxy. Until the load ends, they are killed,
//! suspended for longer than their lease, cut off from the API, and asked to stop; then they may work in peace.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rejoin_cli::dev::process::{self, Signal};
use reqwest::{Method, StatusCode};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::RETRY;
use crate::client::{Client, answer_of};
use crate::proxy::Proxy;
use crate::tools::{NODE_PAY, PYTHON_PAY};

/// The programs' folder, in the checkout.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");
/// The package for Python, as its sources are. (That for TypeScript is imported by its path.)
const PYTHON_PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/python/src");
/// How long nothing happens to a process, in milliseconds.
const PEACE_MS: std::ops::Range<u64> = 2_000..9_000;
/// Timeout of a process that is asked to stop.
const LEAVE_LIMIT: Duration = Duration::from_secs(40);
/// Timeout of the first registration.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// A language of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Python,
    Node,
}

/// Returns the languages whose packages are set up: those with an interpreter in the environment.
pub fn languages() -> Vec<Language> {
    let all = [Language::Python, Language::Node];
    all.into_iter()
        .filter(|language| language.interpreter().is_some())
        .collect()
}

impl Language {
    fn interpreter(self) -> Option<String> {
        let variable = match self {
            Self::Python => "CHAOS_PYTHON",
            Self::Node => "CHAOS_NODE",
        };
        std::env::var(variable).ok().filter(|path| !path.is_empty())
    }

    fn file(self) -> &'static str {
        match self {
            Self::Python => "program.py",
            Self::Node => "program.mjs",
        }
    }

    /// A tool that its program serves.
    fn tool(self) -> &'static str {
        match self {
            Self::Python => PYTHON_PAY,
            Self::Node => NODE_PAY,
        }
    }
}

/// What happens to a process.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Killed,
    Suspended,
    CutOff,
    Stopped,
}

impl Fate {
    fn any(dice: &mut StdRng) -> Self {
        match dice.random_range(0..10) {
            0..4 => Self::Killed,
            4..6 => Self::Suspended,
            6..8 => Self::CutOff,
            _ => Self::Stopped,
        }
    }
}

/// A program of one project, and its successors.
pub struct Program {
    client: Client,
    language: Language,
    interpreter: String,
    proxy: Proxy,
}

impl Program {
    /// `number`: it speaks with one of the APIs.
    pub async fn new(client: Client, language: Language, number: usize) -> Result<Self> {
        let apis = &client.world.apis;
        let proxy = Proxy::start(apis[number % apis.len()]).await?;
        let interpreter = language.interpreter();
        Ok(Self {
            interpreter: interpreter.context("the language has an interpreter")?,
            client,
            language,
            proxy,
        })
    }

    fn start(&self) -> Result<Child> {
        let world = &self.client.world;
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(world.logs.join(format!("{}.log", self.language.file())))?;
        let child = Command::new(&self.interpreter)
            .arg(format!("{FOLDER}/{}", self.language.file()))
            .arg(world.evidence.ledger())
            .env("REJOIN_URL", format!("http://{}", self.proxy.address))
            .env("REJOIN_API_KEY", &world.users[self.client.user].key)
            .env("PYTHONPATH", PYTHON_PACKAGE)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("can't start {}", self.interpreter))?;
        let pid = child.id().context("a process has an id")?;
        world.watchdog.guard(pid, Signal::Kill.name(), Signal::Kill.name());
        Ok(child)
    }

    /// Waits until the program is registered.
    pub async fn ready(&self) -> Result<()> {
        let tool = format!("{}@1", self.language.tool());
        let registered = async {
            loop {
                let answer = answer_of(self.client.request(Method::GET, "/api/workers")).await;
                let is_there = answer.is_some_and(|(status, workers)| {
                    let items = workers["items"].as_array().into_iter().flatten();
                    let mut tools = items.flat_map(|worker| worker["tools"].as_array().into_iter().flatten());
                    status == StatusCode::OK && tools.any(|served| *served == tool.as_str())
                });
                if is_there {
                    return;
                }
                sleep(RETRY).await;
            }
        };
        if timeout(READY_LIMIT, registered).await.is_err() {
            bail!("the program {} does not register; see its log", self.language.file());
        }
        Ok(())
    }

    /// Lets it live until the end.
    pub async fn live(self: Arc<Self>, mut dice: StdRng) {
        let world = self.client.world.clone();
        while !world.readers_end.is_cancelled() {
            let lived = match self.start() {
                Ok(child) => self.lives(child, &mut dice).await,
                Err(error) => Err(error),
            };
            if let Err(error) = lived {
                warn!(error = format!("{error:#}"), "a program of a package failed");
                sleep(RETRY).await;
            }
        }
    }

    /// One process, to its end.
    async fn lives(&self, mut child: Child, dice: &mut StdRng) -> Result<()> {
        let world = &self.client.world;
        let pid = child.id().context("a process has an id")?;
        let long = world.lease + world.lease / 2;
        loop {
            let peace = Duration::from_millis(dice.random_range(PEACE_MS));
            let is_disturbed = tokio::select! {
                ended = child.wait() => {
                    world.watchdog.forget(pid);
                    bail!("{} ended by itself: {}", self.language.file(), ended?);
                }
                () = world.readers_end.cancelled() => false,
                () = sleep(peace) => true,
            };
            if !is_disturbed {
                return self.end(child, pid, Signal::Kill).await;
            }
            if world.load_ends.is_cancelled() {
                continue;
            }
            match Fate::any(dice) {
                Fate::Killed => return self.end(child, pid, Signal::Kill).await,
                Fate::Stopped => return self.end(child, pid, Signal::Terminate).await,
                Fate::Suspended => {
                    process::send(pid, Signal::Stop)?;
                    sleep(long).await;
                    process::send(pid, Signal::Continue)?;
                }
                Fate::CutOff => {
                    self.proxy.freeze();
                    self.proxy.change(|weather| weather.refused = true);
                    sleep(long).await;
                    self.proxy.clear();
                }
            }
        }
    }

    async fn end(&self, mut child: Child, pid: u32, signal: Signal) -> Result<()> {
        let began = Instant::now();
        process::send(pid, signal)?;
        if timeout(LEAVE_LIMIT, child.wait()).await.is_err() {
            warn!(
                seconds = began.elapsed().as_secs(),
                "{} did not stop in time, and is killed",
                self.language.file()
            );
            child.kill().await?;
        }
        self.client.world.watchdog.forget(pid);
        Ok(())
    }
}
