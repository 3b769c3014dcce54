//! All components of a chaos run: PostgreSQL, the fleet, the model, the users, and the evidence directory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rejoin_egress::watchdog::Watchdog;
use rejoin_identity::auth;
use rejoin_identity::workspaces;
use rejoin_integrations::mcp;
use rejoin_runs::agents;
use rejoin_tests::model_server::ModelServer;
use rejoin_types::access::Scope;
use serde_json::json;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::cell::{Cell, environment_of_api};
use crate::evidence::Evidence;
use crate::fleet::{Member, Role, Settings};
use crate::plan::{AGENT, ASK, PLAN, SPAWN, TASKS};
use crate::proxy::Proxy;
use crate::servers::{Kind, Servers};
use crate::{mcp_server, model, tools, witness};

/// Timeout of the fleet's start.
const READY_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The usual number of projects.
pub const PROJECTS: usize = 2;
const USERS_OF_PROJECT: usize = 2;

/// The size of a run.
#[derive(Debug, Clone)]
pub struct Shape {
    pub apis: usize,
    pub workers: usize,
    pub lease: Duration,
    /// Each has two users.
    pub projects: usize,
    /// Created if missing.
    pub directory: PathBuf,
    /// Additional environment of every process.
    pub environment: Vec<(String, String)>,
    pub servers: Kind,
    /// Another build of this program, with which processes begin.
    pub other_build: Option<PathBuf>,
}

/// A user who posts and reads.
#[derive(Debug, Clone)]
pub struct User {
    pub workspace_id: Uuid,
    pub user_id: Uuid,
    pub key: String,
    /// An agent of the project, with the run's tools.
    pub agent_id: Uuid,
    /// The agent that users' programs execute.
    pub program_agent_id: Uuid,
}

pub struct World {
    pub servers: Servers,
    pub postgres_major: u32,
    /// Bypasses all faults, on the current primary.
    pub db: PgPool,
    /// Keeps `db` on the current primary, always without faults.
    pub calm: Proxy,
    /// The other database, to which projects move from `db`; None: there are no cells.
    pub cell: Option<Cell>,
    pub members: Vec<Member>,
    pub apis: Vec<SocketAddr>,
    pub users: Vec<User>,
    pub model: ModelServer,
    pub evidence: Evidence,
    /// The folder of processes' output.
    pub logs: PathBuf,
    /// Ends processes that we leave behind.
    pub watchdog: Arc<Watchdog>,
    pub lease: Duration,
    /// Whether commits that were acknowledged may be gone after a fault.
    pub may_lose_commits: bool,
    /// Incremented when all readers must disconnect and reconnect at once.
    pub storm: watch::Sender<u64>,
    /// Stops new turns.
    pub load_ends: CancellationToken,
    /// Everything has ended: readers stop once they have read everything.
    pub readers_end: CancellationToken,
    pub http: reqwest::Client,
}

impl World {
    pub async fn start(shape: &Shape) -> Result<Arc<Self>> {
        let evidence = Evidence::create(&shape.directory)?;
        let logs = shape.directory.join("logs");
        std::fs::create_dir_all(&logs)?;
        let watchdog = Arc::new(Watchdog::start()?);
        let servers = Servers::start(shape.servers, &logs, &watchdog).await?;
        let place = servers.place(&watchdog).await?;
        let calm = Proxy::start(place.upstream.clone()).await?;
        let db = PgPoolOptions::new()
            .max_connections(8)
            .acquire_timeout(READY_LIMIT)
            .connect(&place.url(&calm))
            .await?;
        witness::install(&db).await?;
        let users = users(&db, shape.projects).await?;
        let cell = match shape.servers {
            Kind::WithCell => Some(Cell::start(&watchdog, &shape.environment).await?),
            Kind::Single | Kind::WithStandby | Kind::Patroni(_) => None,
        };
        let model = model::start().await?;
        let mut environment = outside(&evidence)?;
        environment.push((
            "REJOIN_REMOTE_LEASE_S".to_owned(),
            shape.lease.as_secs().max(1).to_string(),
        ));
        environment.extend(shape.environment.iter().cloned());
        let settings = Settings {
            lease: shape.lease,
            logs,
            model_url: model.base_url().to_owned(),
            environment,
            other_build: shape.other_build.clone(),
        };
        let mut members = Vec::new();
        let mut apis = Vec::new();
        for (number, listen) in rejoin_free_ports::addresses(shape.apis)?.into_iter().enumerate() {
            apis.push(listen);
            let mut member = Member::new(format!("api-{number}"), Role::Api { listen }, &place, &db, &settings).await?;
            if let Some(cell) = &cell {
                member = member.with_cell(&cell.place, environment_of_api).await?;
            }
            members.push(member);
        }
        for number in 0..shape.workers {
            let role = Role::Worker {
                ledger: evidence.ledger(),
            };
            members.push(Member::new(format!("worker-{number}"), role.clone(), &place, &db, &settings).await?);
            // A worker serves one cell.
            if let Some(cell) = &cell {
                let name = format!("worker-{number}-of-cell");
                members.push(Member::new(name, role, &cell.place, &cell.db, &settings).await?);
            }
        }
        if let Some(cell) = &cell {
            cell.join(&place.url(&calm)).await?;
        }
        for member in &members {
            member.start(&mut *member.process.lock().await)?;
        }
        let world = Arc::new(Self {
            postgres_major: servers.major().await,
            servers,
            db,
            calm,
            cell,
            members,
            apis,
            users,
            model,
            evidence,
            logs: shape.directory.join("logs"),
            watchdog,
            lease: shape.lease,
            may_lose_commits: shape.servers.may_lose_commits(),
            storm: watch::Sender::new(0),
            load_ends: CancellationToken::new(),
            readers_end: CancellationToken::new(),
            http: reqwest::Client::builder().pool_max_idle_per_host(0).build()?,
        });
        world.wait_until_ready().await?;
        Ok(world)
    }

    pub fn workers(&self) -> Vec<&Member> {
        self.members.iter().filter(|member| member.is_worker()).collect()
    }

    pub fn api_members(&self) -> Vec<&Member> {
        self.members.iter().filter(|member| !member.is_worker()).collect()
    }

    /// Waits until all APIs are ready, and all workers are known.
    pub async fn wait_until_ready(&self) -> Result<()> {
        let waiting = async {
            for api in &self.apis {
                loop {
                    let answer = self.http.get(format!("http://{api}/readyz")).send().await;
                    if answer.is_ok_and(|answer| answer.status().is_success()) {
                        break;
                    }
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
            let wanted = i64::try_from(self.workers().len()).unwrap_or(i64::MAX);
            loop {
                let there = self
                    .sum("select count(*) from public.witness_workers")
                    .await
                    .unwrap_or_default();
                if there >= wanted {
                    break;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let ready = tokio::time::timeout(READY_LIMIT, waiting).await;
        ensure!(
            ready.is_ok(),
            "the fleet was not ready within {} s; its output is in {}",
            READY_LIMIT.as_secs(),
            self.logs().display()
        );
        Ok(())
    }

    pub fn logs(&self) -> PathBuf {
        self.evidence.directory.join("logs")
    }

    /// Opens a separate connection, which ends with its user.
    pub async fn connect(&self) -> Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.db.connect_options()).await?)
    }

    /// Counts runs without `done`, and jobs of runs.
    pub async fn open_work(&self) -> Result<i64> {
        self.sum(
            "select (select count(*) from kb.agent_runs where done_seq is null) + (select count(*) from queue.jobs)",
        )
        .await
    }

    /// All databases: the first is the directory, if there are cells.
    pub fn databases(&self) -> Vec<PgPool> {
        std::iter::once(&self.db)
            .chain(self.cell.iter().map(|cell| &cell.db))
            .cloned()
            .collect()
    }

    /// The sum of a number over all databases.
    async fn sum(&self, query: &'static str) -> Result<i64> {
        let mut sum = 0;
        for db in self.databases() {
            sum += sqlx::query_scalar::<_, i64>(query).fetch_one(&db).await?;
        }
        Ok(sum)
    }

    /// Whether readers send the epoch of their events, as our clients do.
    pub fn sends_epochs(&self) -> bool {
        self.may_lose_commits || self.cell.is_some()
    }
}

/// Lets workers start the MCP server, and retry soon after its failures.
fn outside(evidence: &Evidence) -> Result<Vec<(String, String)>> {
    let file = evidence.directory.join("mcp-commands.json");
    let me = std::env::current_exe().context("our own path")?;
    let server = json!({"command": me, "args": ["mcp-server", "--ledger", evidence.outside()]});
    std::fs::write(
        &file,
        json!({"mcpServers": {(mcp_server::COMMAND): server}}).to_string(),
    )?;
    std::fs::write(evidence.outside(), "")?;
    Ok(vec![
        ("REJOIN_MCP_COMMANDS_FILE".to_owned(), file.display().to_string()),
        ("REJOIN_MCP_PAUSE_S".to_owned(), "1".to_owned()),
        ("REJOIN_MCP_CONNECT_S".to_owned(), "3".to_owned()),
    ])
}

/// Users of these many projects, each project with its agent.
async fn users(db: &PgPool, projects: usize) -> Result<Vec<User>> {
    let mut connection = db.acquire().await?;
    let mut places = Vec::new();
    for number in 0..projects {
        let workspace_id = workspaces::create(&mut connection, &format!("project {number}")).await?;
        let mut content = agents::defaults().into_iter().next().context("a default agent")?;
        content.name = AGENT.to_owned();
        content.tools = vec![
            tools::PAY.to_owned(),
            tools::LOOK.to_owned(),
            mcp_server::PAY.to_owned(),
            "program_*".to_owned(),
            "python_*".to_owned(),
            "node_*".to_owned(),
            SPAWN.to_owned(),
            TASKS.to_owned(),
            ASK.to_owned(),
            PLAN.to_owned(),
        ];
        // It executes its own plans.
        content.config = json!({ "planning": { "executor": AGENT } });
        let agent = agents::insert(&mut connection, workspace_id, &content)
            .await?
            .context("the agent's name is free")?;
        let outside = mcp::Settings {
            command: Some(mcp_server::COMMAND.to_owned()),
            timeout_s: Some(2),
            ..mcp::Settings::new(mcp_server::NAME, mcp::Transport::Stdio)
        };
        mcp::create(&mut connection, workspace_id, &outside, None).await?;
        tools::PROGRAM_AGENT.clone_into(&mut content.name);
        agents::FUNCTION.clone_into(&mut content.flow_type);
        content.tools = Vec::new();
        content.config = json!({ "flow": { "tool": tools::PROGRAM_ANSWER } });
        let of_programs = agents::insert(&mut connection, workspace_id, &content)
            .await?
            .context("the agent's name is free")?;
        places.push((workspace_id, agent.id, of_programs.id));
    }
    let mut users = Vec::new();
    for number in 0..projects * USERS_OF_PROJECT {
        let (workspace_id, agent_id, program_agent_id) = places[number % places.len()];
        let user_id = workspaces::ensure_user(&mut connection, &format!("user-{number}@example.org")).await?;
        workspaces::add_member(&mut connection, workspace_id, user_id, workspaces::Role::Owner).await?;
        let (_, key) =
            auth::create_key(&mut connection, user_id, Some(workspace_id), "chaos", &Scope::ALL, None).await?;
        users.push(User {
            workspace_id,
            user_id,
            key,
            agent_id,
            program_agent_id,
        });
    }
    Ok(users)
}

/// Returns a unique evidence directory, below the temporary one.
pub fn directory(label: &str) -> PathBuf {
    let name = format!("rejoin-chaos-{label}-{}", Uuid::now_v7().simple());
    Path::new(&std::env::temp_dir()).join(name)
}
