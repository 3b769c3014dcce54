//! `rejoin dev`: everything on one machine, with one command.
//!
//! - `demo`       project, user, key, agents, graph
//! - `secret_keys`   the master key of secrets
//! - `supervise`  the API and the workers, as child processes
//! - `programs`   users' programs beside them
//! - `ready`      the message when all is ready
//!
//! Its PostgreSQL is started by `rejoin-local-postgres`, as that of the integration tests.
//!
//! Invariants: with `--json`, stdout holds one line, and only once the API answers; no process started here outlives
//! this one.
use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
pub use rejoin_local_postgres as postgres;
pub use rejoin_local_postgres::process;
use rejoin_local_postgres::{PostgresOptions, PrivatePostgres};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};

use self::{
    demo::Demo,
    ready::{Pids, Ready},
    supervise::{Role, Supervisor},
};
use crate::{
    database,
    dev_instance::{self, Access, DevInstance},
    exit::Exit,
    fleet::Signals,
    global::Global,
    migrate,
    out::Out,
    sign_in,
};

pub mod demo;
pub mod programs;
pub mod ready;
pub mod secret_keys;
pub mod supervise;

/// Timeout of the API's start.
const READY_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Interval between attempts to restart a crashed PostgreSQL.
const REVIVE_EVERY: Duration = Duration::from_secs(1);

/// Run everything on this machine: a private PostgreSQL, the API, workers and a demo project.
///
/// PostgreSQL is found or downloaded (see `rejoin doctor`), unless DATABASE_URL is set. The API and the workers are
/// child processes: kill a worker and watch its runs continue. With --json, ONE line on stdout reports that everything
/// is ready: {"url","apiKey","projectId","userId","databaseUrl","signInUrl","pids":{"api","workers","postgres"}}.
/// Ctrl-C drains and stops everything; a second Ctrl-C does not wait.
///
/// The demo project has a graph of Debian's packages and an agent that answers questions about it. `rejoin chat`,
/// `tail`, `runs`, `queue`, `keys` and `graph` find it automatically (with another --data-dir, set REJOIN_DATA_DIR for
/// them). Without an API key of a model provider, a rule-based stand-in answers.
///
/// Examples:
///   rejoin dev
///   rejoin dev --port 8000 --workers 4
///   rejoin dev --database-url postgres://postgres@localhost/rejoin
///   rejoin dev --program "python tools.py"
///   rejoin dev --json --data-dir "$(mktemp -d)" --port 0
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Port of the API on 127.0.0.1; 0 picks a free port.
    #[arg(long, env = "REJOIN_PORT", default_value_t = 7420, value_name = "PORT")]
    pub port: u16,
    /// Number of worker processes.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub workers: u16,
    /// Directory for the private PostgreSQL and the keys. Delete it to start from scratch.
    #[arg(long, env = "REJOIN_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Also runs this command, a program that serves tools, and starts it again when it ends, or when a file of code
    /// in this folder changes. It gets REJOIN_URL, REJOIN_API_KEY and REJOIN_PROJECT_ID. May be repeated.
    #[arg(long, value_name = "COMMAND")]
    pub program: Vec<String>,
}

/// # Errors
/// The port is in use, no PostgreSQL was found, or a component does not start.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let mut signals = Signals::listen()?;
    let started = tokio::select! {
        started = start(global, &args, out) => started?,
        // Components started so far stop when dropped.
        () = signals.next() => {
            out.note("stopped before it was ready");
            return Ok(Exit::Done);
        }
    };
    let Started { supervisor, postgres } = started;
    tokio::select! {
        () = signals.next() => {}
        () = revive(postgres.as_deref(), out) => {}
    }
    out.note("draining; press Ctrl-C again to stop at once");
    supervisor.stop(signals.next()).await;
    if let Some(postgres) = postgres {
        postgres.stop().await.context("stopping PostgreSQL failed")?;
    }
    out.note("stopped");
    Ok(Exit::Done)
}

struct Started {
    // Dropped first: the children, then their database.
    supervisor: Supervisor,
    postgres: Option<Arc<PrivatePostgres>>,
}

async fn start(global: &Global, args: &Args, out: Out) -> Result<Started> {
    // Checks that fail early come first.
    let listener = take_port(args.port).await?;
    let address = listener.local_addr().context("reading the port failed")?;
    let data_dir = make_data_dir(args.data_dir.as_deref())?;

    let (database_url, postgres) = match global.database_url() {
        Some(url) => (url.to_owned(), None),
        None => {
            let options = PostgresOptions::durable(data_dir.join("postgres"));
            let postgres = PrivatePostgres::start(options)
                .await
                .context("starting a private PostgreSQL failed")?;
            (postgres.url(), Some(Arc::new(postgres)))
        }
    };
    let applied = migrate::up(&database_url).await?;
    if !applied.is_empty() {
        out.note(&format!("{} migrations applied", applied.len()));
    }
    let pool = database::connect_to(&database_url).await?;
    let demo = demo::ensure_there(&pool, &database_url, &data_dir, out).await?;
    pool.close().await;

    // Held until now, so that no other process takes it.
    drop(listener);
    let mut supervisor = Supervisor::new()?;
    let env = child_env(&database_url, secret_keys::ensure_there(&data_dir)?.as_deref());
    let listen = address.to_string();
    let api = supervisor.spawn(Role::Api, ["api", "--listen", &listen], env.clone())?;
    let mut workers = Vec::new();
    for number in 1..=usize::from(args.workers) {
        workers.push(supervisor.spawn(Role::Worker(number), ["worker"], env.clone())?);
    }
    let url = format!("http://{address}");
    wait_until_ready(&url, &supervisor, api).await?;

    let mut programs = Vec::new();
    if !args.program.is_empty() {
        let folder = std::env::current_dir().context("reading the current folder failed")?;
        let changed = programs::watch_code(folder);
        for (number, command) in (1..).zip(&args.program) {
            let env = [
                ("REJOIN_URL", url.clone()),
                ("REJOIN_API_KEY", demo.api_key.clone()),
                ("REJOIN_PROJECT_ID", demo.workspace_id.to_string()),
            ];
            programs.push(supervisor.spawn_program(Role::Program(number), command, env, changed.clone())?);
        }
    }

    let pids = Pids {
        api,
        workers,
        postgres: postgres.as_ref().and_then(|postgres| postgres.pid()),
        programs,
    };
    announce(url, database_url, demo, pids, &data_dir, out).await?;
    Ok(Started { supervisor, postgres })
}

async fn announce(url: String, database_url: String, demo: Demo, pids: Pids, data_dir: &Path, out: Out) -> Result<()> {
    let current = DevInstance {
        url: url.clone(),
        api_key: demo.api_key.clone(),
        workspace_id: demo.workspace_id,
        database_url: Some(database_url.clone()),
    };
    current.write(data_dir)?;
    let access = Access {
        url: url.clone(),
        api_key: demo.api_key.clone(),
        workspace_id: Some(demo.workspace_id),
    };
    let sign_in_url = sign_in::address(access)
        .await
        .context("creating a sign-in code failed")?;
    // `--data-dir` is not parsed yet: the default location of other commands.
    let found = dev_instance::default_data_dir()
        .ok()
        .and_then(|dir| dir.canonicalize().ok());
    let told_dir = (found.as_deref() != Some(data_dir)).then_some(data_dir);
    let ready = Ready {
        url,
        api_key: demo.api_key,
        workspace_id: demo.workspace_id,
        user_id: demo.user_id,
        database_url,
        sign_in_url,
        pids,
    };
    ready.say(told_dir, has_real_model(), out)
}

async fn take_port(port: u16) -> Result<TcpListener> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => bail!(
            "port {port} is in use, perhaps by another `rejoin dev`; pass another one with --port, or --port 0 for a \
            free one"
        ),
        Err(error) => Err(error).with_context(|| format!("listening on {address} failed")),
    }
}

/// Creates the directory with access for its owner only: it holds a key. An existing one keeps its permissions.
fn make_data_dir(asked: Option<&Path>) -> Result<PathBuf> {
    let dir = match asked {
        Some(dir) => dir.to_owned(),
        None => dev_instance::default_data_dir()?,
    };
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.with_context(|| format!("creating the data directory {} failed", dir.display()))?;
    dir.canonicalize()
        .with_context(|| format!("the data directory {} cannot be used", dir.display()))
}

/// Additional environment of children; ours contains the keys of model providers.
fn child_env(database_url: &str, secret_keys: Option<&Path>) -> Vec<(&'static str, String)> {
    let mut env = vec![
        ("DATABASE_URL", database_url.to_owned()),
        ("REJOIN_DEMO_FALLBACK", "1".to_owned()),
    ];
    if std::env::var_os("REJOIN_MCP_PRIVATE_HOSTS").is_none() {
        // Users who run everything on one machine have MCP servers there, too.
        env.push(("REJOIN_MCP_PRIVATE_HOSTS", "localhost,127.0.0.1,::1".to_owned()));
    }
    if std::env::var_os("REJOIN_SOURCE_HOSTS").is_none() {
        // And databases.
        env.push(("REJOIN_SOURCE_HOSTS", "localhost,127.0.0.1,::1".to_owned()));
    }
    if std::env::var_os("REJOIN_WEBHOOK_HOSTS").is_none() {
        // And receivers of webhooks.
        env.push(("REJOIN_WEBHOOK_HOSTS", "localhost,127.0.0.1,::1".to_owned()));
    }
    if let Some(file) = secret_keys {
        env.push(("REJOIN_SECRET_KEYS_FILE", file.display().to_string()));
    }
    if std::env::var_os("RUST_LOG").is_none() {
        env.push(("RUST_LOG", "warn".to_owned()));
    }
    env
}

fn has_real_model() -> bool {
    [
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "VERTEX_API_KEY",
        "OLLAMA_HOST",
        "REJOIN_MODEL",
    ]
    .iter()
    .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Polls until the API is ready; fails immediately if its process dies, and after a timeout.
async fn wait_until_ready(url: &str, supervisor: &Supervisor, api: u32) -> Result<()> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(READY_LIMIT)
        .build()
        .context("creating the HTTP client failed")?;
    let began = Instant::now();
    loop {
        let answer = client.get(format!("{url}/readyz")).send().await;
        let why = match answer {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            Ok(answer) => format!("/readyz responds with status {}", answer.status()),
            Err(error) => crate::client::root_cause(&error),
        };
        let alive = supervisor
            .pids()
            .iter()
            .any(|(role, pid)| *role == Role::Api && *pid == api);
        if !alive {
            bail!("the API ended during startup; see its output above");
        }
        if began.elapsed() > READY_LIMIT {
            bail!("the API at {url} is not ready after {READY_LIMIT:?}: {why}");
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Restarts the private PostgreSQL whenever it dies. Never returns.
async fn revive(postgres: Option<&PrivatePostgres>, out: Out) {
    let Some(postgres) = postgres else {
        return std::future::pending().await;
    };
    loop {
        let status = postgres.exited().await;
        let how = status.map_or_else(String::new, |status| format!(" ({status})"));
        match postgres.restart().await {
            Ok(()) => out.note(&format!(
                "PostgreSQL died{how}; restarted with pid {}",
                postgres.pid().unwrap_or_default()
            )),
            Err(error) => {
                out.note(&format!("PostgreSQL died{how} and cannot be restarted yet: {error:#}"));
                sleep(REVIVE_EVERY).await;
            }
        }
    }
}
