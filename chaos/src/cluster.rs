//! A Patroni cluster on this machine: three PostgreSQL nodes with synchronous or asynchronous replication, an etcd, and an HAProxy that
//! forwards to the primary. Its files are in one temporary folder, its ports on 127.0.0.1, and it runs as PostgreSQL's user.
//!
//! - `config`  the configuration of all programs
//! - `parts`   locates the programs
//! - `program` a running program
//! - `node`    a Patroni with its PostgreSQL
//! - `view`    what Patroni's REST API reports
//! - `commands` the manual's commands for operators
//! - `tree`    trees of processes
//!
//! No program outlives us, by the watchdog.

mod commands;
pub mod config;
pub mod node;
mod parts;
pub mod program;
mod tree;
mod view;

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rejoin_cli::dev::process::{Signal, User};
use rejoin_egress::watchdog::Watchdog;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, sleep, timeout};

use self::config::Addresses;
pub use self::config::{Replication, SUPERUSER};
use self::node::Node;
use self::parts::Parts;
use self::program::{Program, Surroundings};
use self::view::View;
use crate::evidence::now_us;

/// The number of PostgreSQL nodes.
const NODES: usize = 3;
/// Timeout until the cluster is whole: after its start, and after a fault.
const SETTLE_LIMIT: Duration = Duration::from_secs(180);
/// Timeout of etcd's start.
const ETCD_LIMIT: Duration = Duration::from_secs(30);
/// Timeout until a standby becomes the primary.
const FAILOVER_LIMIT: Duration = Duration::from_secs(90);
/// Timeout of a request for a status.
const STATUS_LIMIT: Duration = Duration::from_secs(2);
/// Timeout of a switchover, which Patroni answers when it is done.
const SWITCHOVER_LIMIT: Duration = Duration::from_secs(60);
/// Timeout of a statement that checks the way through HAProxy.
const STATEMENT_LIMIT: Duration = Duration::from_secs(5);
/// Timeout of the servers' end, before they are killed.
const END_LIMIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub struct Cluster {
    pub nodes: Vec<Node>,
    pub etcd: Program,
    replication: Replication,
    haproxy: Program,
    /// Where HAProxy listens.
    pub address: SocketAddr,
    etcd_address: SocketAddr,
    /// PostgreSQL's major version.
    pub major: u32,
    folder: PathBuf,
    /// The folder of Patroni's programs.
    programs: PathBuf,
    /// The folder of the programs' output.
    logs: PathBuf,
    watchdog: Arc<Watchdog>,
    http: reqwest::Client,
}

impl Cluster {
    /// Starts all programs, with their output in `logs`, and waits until the cluster is whole.
    ///
    /// # Errors
    /// A program is missing or does not start; the message ends with the folder of their output.
    pub async fn start(replication: Replication, logs: &Path, watchdog: &Arc<Watchdog>) -> Result<Self> {
        let parts = Parts::find()?;
        let (addresses, folder) = (
            Addresses::of(&rejoin_free_ports::addresses(Addresses::count(NODES))?),
            folder()?,
        );
        watchdog.remove(&folder);
        give(&folder, parts.user.as_ref())?;
        if let Some(user) = &parts.user {
            ensure!(
                user.can_enter(&folder),
                "the user {} of PostgreSQL can't enter {}; set TMPDIR to a folder that all users can enter",
                user.name,
                folder.display()
            );
        }
        let around = Surroundings {
            user: parts.user.clone(),
            folder: folder.clone(),
            logs: logs.to_owned(),
            watchdog: watchdog.clone(),
        };
        let etcd = Program::new("etcd", &parts.etcd, config::etcd(&folder, &addresses), &around);
        let mut nodes = Vec::new();
        for number in 0..NODES {
            let file = folder.join(format!("{}.json", config::name(number)));
            let content = config::patroni(number, &addresses, &folder, &parts.bin_dir, replication);
            write(&file, &format!("{content:#}"), parts.user.as_ref())?;
            nodes.push(Node::new(number, &addresses, &parts.patroni, &file, &around));
        }
        let file = folder.join("haproxy.cfg");
        write(&file, &config::haproxy(&addresses), parts.user.as_ref())?;
        let arguments = vec![OsString::from("-db"), OsString::from("-f"), file.into_os_string()];
        let cluster = Self {
            nodes,
            etcd,
            replication,
            haproxy: Program::new("haproxy", &parts.haproxy, arguments, &around),
            address: addresses.haproxy,
            etcd_address: addresses.etcd,
            major: parts.major,
            folder,
            programs: parts.patroni.parent().context("a program is in a folder")?.to_owned(),
            logs: logs.to_owned(),
            watchdog: watchdog.clone(),
            http: reqwest::Client::builder().pool_max_idle_per_host(0).build()?,
        };
        cluster.start_etcd().await?;
        cluster.heal()?;
        cluster.haproxy.start()?;
        cluster.settled().await.context("starting the cluster")?;
        Ok(cluster)
    }

    /// Returns the URL of a database of the current primary: HAProxy's address.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{SUPERUSER}@{}/{database}", self.address)
    }

    /// Starts etcd if it does not run, and waits until it answers.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_etcd(&self) -> Result<()> {
        self.etcd.start()?;
        let url = format!("http://{}/health", self.etcd_address);
        let began = Instant::now();
        while self.status(&url).await != Some(200) {
            ensure!(
                began.elapsed() < ETCD_LIMIT,
                "etcd does not answer within {} s; its output is in {}",
                ETCD_LIMIT.as_secs(),
                self.logs.display()
            );
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Continues what is suspended and starts what does not run, without waiting for it.
    ///
    /// # Errors
    /// A program does not start.
    pub fn heal(&self) -> Result<()> {
        self.etcd.start()?;
        for node in &self.nodes {
            node.resume();
            node.patroni.start()?;
        }
        Ok(())
    }

    /// Waits until one node is the leader by etcd, all others stream from it (with synchronous replication, one of them synchronously), and
    /// HAProxy forwards to it.
    ///
    /// # Errors
    /// It takes too long; the message has the state of each node.
    pub async fn settled(&self) -> Result<()> {
        let (began, since_s) = (Instant::now(), now_us() / 1_000_000);
        loop {
            let views = self.views(since_s).await;
            if view::is_settled(&views, self.replication) && self.accepts_writes().await {
                break;
            }
            if began.elapsed() > SETTLE_LIMIT {
                let seen: Vec<String> = self
                    .nodes
                    .iter()
                    .zip(&views)
                    .map(|(node, view)| format!("{}: {view}", node.name))
                    .collect();
                bail!(
                    "after {} s the cluster has not one leader that {} standbys stream from{} ({}); the output of its programs is in {}",
                    SETTLE_LIMIT.as_secs(),
                    self.nodes.len() - 1,
                    match self.replication {
                        Replication::Synchronous => ", one of them synchronously",
                        Replication::Asynchronous => "",
                    },
                    seen.join("; "),
                    self.logs.display()
                );
            }
            sleep(LOOK_EVERY).await;
        }
        for node in &self.nodes {
            node.guard(&self.watchdog);
        }
        Ok(())
    }

    /// Returns the node that has the leader's lock; None: no node, or more than one.
    pub async fn leader(&self) -> Option<&Node> {
        self.only("primary").await
    }

    /// Returns the node that is the synchronous standby by etcd.
    pub async fn synchronous_standby(&self) -> Option<&Node> {
        self.only("synchronous").await
    }

    /// Waits until another node is the leader, and returns it.
    ///
    /// # Errors
    /// None becomes the leader.
    pub async fn leader_after(&self, old: &Node) -> Result<&Node> {
        let began = Instant::now();
        while began.elapsed() < FAILOVER_LIMIT {
            if let Some(leader) = self.leader().await
                && leader.name != old.name
            {
                return Ok(leader);
            }
            sleep(LOOK_EVERY).await;
        }
        bail!(
            "{} was lost, and none of its standbys took over within {} s; the output of Patroni is in {}",
            old.name,
            FAILOVER_LIMIT.as_secs(),
            self.logs.display()
        )
    }

    /// Suspends the processes of a primary that send what it commits to its standbys, and returns them.
    ///
    /// # Errors
    /// The primary can't be asked for them, or has none.
    pub async fn suspend_replication(&self, primary: &Node) -> Result<Vec<u32>> {
        let url = format!("postgres://{SUPERUSER}@{}/postgres", primary.postgres);
        let asked = async {
            let mut connection = PgConnection::connect(&url).await?;
            sqlx::query_scalar::<_, i32>("select pid from pg_stat_replication")
                .fetch_all(&mut connection)
                .await
        };
        let pids = timeout(STATEMENT_LIMIT, asked).await.context("no answer")??;
        let senders: Vec<u32> = pids.into_iter().filter_map(|pid| u32::try_from(pid).ok()).collect();
        ensure!(!senders.is_empty(), "no standby streams from {}", primary.name);
        tree::send(&senders, Signal::Stop);
        Ok(senders)
    }

    /// Asks the leader's Patroni for a switchover to its synchronous standby, and waits until it is done.
    ///
    /// # Errors
    /// It refuses.
    pub async fn switch_over(&self, leader: &Node) -> Result<()> {
        let asked = self
            .http
            .post(format!("http://{}/switchover", leader.rest))
            .timeout(SWITCHOVER_LIMIT)
            .json(&json!({ "leader": leader.name }));
        let answer = asked.send().await.context("asking for a switchover")?;
        let status = answer.status();
        let text = answer.text().await.unwrap_or_default();
        ensure!(
            status.as_u16() == 200,
            "Patroni refused a switchover ({status}): {text}"
        );
        Ok(())
    }

    /// Ends all programs, and removes their folder.
    pub async fn end(&self) {
        for node in &self.nodes {
            note(node.patroni.kill());
            node.stop_immediately();
        }
        note(self.haproxy.kill());
        note(self.etcd.kill());
        let began = Instant::now();
        while self.nodes.iter().any(Node::has_server) && began.elapsed() < END_LIMIT {
            sleep(LOOK_EVERY).await;
        }
        for node in &self.nodes {
            note(node.kill());
            node.forget(&self.watchdog);
        }
        note(fs::remove_dir_all(&self.folder).context("removing the cluster's folder"));
    }

    /// Returns the only node for which Patroni answers this health check with 200.
    async fn only(&self, check: &str) -> Option<&Node> {
        let mut found = None;
        for node in &self.nodes {
            let url = format!("http://{}/{check}", node.rest);
            if self.status(&url).await == Some(200) && found.replace(node).is_some() {
                return None;
            }
        }
        found
    }

    /// Returns the state of each node. `since_s`: since when the leader must have reached etcd [seconds since 1970].
    async fn views(&self, since_s: i64) -> Vec<View> {
        let mut views = Vec::new();
        for node in &self.nodes {
            let at = |check: &str| format!("http://{}/{check}", node.rest);
            let (primary, streaming, synchronous) = tokio::join!(
                self.get(at("primary")),
                self.get(at("replica?replication_state=streaming")),
                self.get(at("synchronous"))
            );
            views.push(View::of(primary, streaming, synchronous, since_s));
        }
        views
    }

    /// Returns the status of a response. None: there is none in time.
    async fn status(&self, url: &str) -> Option<u16> {
        self.get(url.to_owned()).await.map(|(status, _)| status)
    }

    /// Returns status and body of a response. None: there is none in time.
    async fn get(&self, url: String) -> Option<(u16, Value)> {
        let answer = self.http.get(url).timeout(STATUS_LIMIT).send().await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    /// Whether a server behind HAProxy answers that it is not a standby.
    async fn accepts_writes(&self) -> bool {
        let url = self.url("postgres");
        let asked = async {
            let mut connection = PgConnection::connect(&url).await?;
            sqlx::query_scalar::<_, bool>("select not pg_is_in_recovery()")
                .fetch_one(&mut connection)
                .await
        };
        matches!(timeout(STATEMENT_LIMIT, asked).await, Ok(Ok(true)))
    }
}

/// Creates the cluster's folder.
fn folder() -> Result<PathBuf> {
    // Short: paths of sockets are limited to 107 bytes.
    let name = format!("rejoin-ha-{}-{}", std::process::id(), now_us());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// Writes a file that the user owns.
fn write(file: &Path, content: &str, user: Option<&User>) -> Result<()> {
    fs::write(file, content).with_context(|| format!("writing {}", file.display()))?;
    give(file, user)
}

/// Makes the user the owner of a file or folder.
fn give(path: &Path, user: Option<&User>) -> Result<()> {
    let Some(user) = user else { return Ok(()) };
    chown(path, Some(user.uid), Some(user.gid))
        .with_context(|| format!("making {} the owner of {}", user.name, path.display()))
}

/// Logs what went wrong at the end, where the rest must be ended all the same.
fn note(done: Result<()>) {
    if let Err(error) = done {
        tracing::warn!(error = format!("{error:#}"), "the cluster's end is not complete");
    }
}
