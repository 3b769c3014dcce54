//! `cells`: what a turn costs if two projects are in one cell, and if each is in its own: with the same load in all, and with the same for each
//! cell. Two cells have two workers, so one cell is measured with one and with two, as is a database without cells.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use rejoin_identity::{auth, workspaces};
use rejoin_types::access::Scope;
use uuid::Uuid;

use crate::chat::Chat;
use crate::load::now_us;
use crate::model::{self, Script};
use crate::process::{self, Process};
use crate::product::ONE_USER_PLAYS_ALL;
use crate::results::{Better, Claim, Column, Of, Table};
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::{Database, Server};

pub struct Cells;

const COST: &str = "cost";
const ALONE: &str = "one database without cells, one worker";
const WITHOUT: &str = "one database without cells, two workers";
const ONE_ALONE: &str = "one cell, one worker";
const ONE: &str = "one cell, two workers";
const TWO: &str = "two cells";
const EACH: &str = "two cells, 20 turns at once in each";
const CELL: &str = "b";
/// The environment variable with the cell's URL.
const URL_VARIABLE: &str = "BENCH_CELL_URL";
/// Tokens of an answer.
const TOKENS: usize = 5;
/// The ways take turns: what else the machine does then concerns all.
const ROUNDS: usize = 6;
/// How long idle processes are measured, to be subtracted.
const IDLE: Duration = Duration::from_secs(5);
const READY_LIMIT: Duration = Duration::from_secs(30);

#[async_trait]
impl Scenario for Cells {
    fn name(&self) -> &'static str {
        "cells"
    }

    fn about(&self) -> &'static str {
        "two projects in one cell, and in two: CPU of a turn"
    }

    fn tables(&self) -> Vec<Table> {
        let cost = |key: &str, title: &str| Column::new(key, title, "ms", Better::Lower, Of::Rejoin);
        let columns = vec![
            cost("api", "CPU of the API"),
            cost("workers", "of the workers"),
            cost("postgres", "of PostgreSQL"),
            cost("cpu", "of all"),
            Column::new("rate", "turns", "1/s", Better::Higher, Of::Rejoin),
        ];
        vec![Table::new(COST, "Costs of a turn, 20 at once", "projects in", columns)]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let other = another_server().await?;
        let ways = [
            Way::start(context, Placed::WithoutCells, 1).await?,
            Way::start(context, Placed::WithoutCells, 2).await?,
            Way::start(context, Placed::InOneCell, 1).await?,
            Way::start(context, Placed::InOneCell, 2).await?,
            Way::start(context, Placed::InTwo(&other), 1).await?,
        ];
        let usages = || ways.iter().map(|way| way.usage(context)).collect::<Result<Vec<_>>>();
        let (before, span) = (usages()?, context.sized(IDLE, Duration::from_millis(300)));
        tokio::time::sleep(span).await;
        let in_span = usages()?
            .into_iter()
            .zip(&before)
            .map(|(now, before)| now.since(before));
        let idle: Vec<Usage> = in_span.map(|used| used.times(1.0 / span.as_secs_f64())).collect();
        let (together, each) = (context.sized(20, 2), context.sized(10, 2));
        // By row: the way, and how many times as many at once.
        let rows = [
            (ALONE, 0, 1),
            (WITHOUT, 1, 1),
            (ONE_ALONE, 2, 1),
            (ONE, 3, 1),
            (TWO, 4, 1),
            (EACH, 4, 2),
        ];
        for way in &ways {
            way.turns(together, each).await?;
        }
        let mut sums = [(Usage::default(), 0.0); 6];
        for _ in 0..context.sized(ROUNDS, 1) {
            for ((_, nth, times), sum) in rows.iter().zip(&mut sums) {
                let (way, idle) = (&ways[*nth], &idle[*nth]);
                let before = way.usage(context)?;
                let took_s = way.turns(together * times, each / times).await?;
                let used = way.usage(context)?.since(&before);
                sum.0 = sum.0.plus(&used.since(&idle.times(took_s)));
                sum.1 += took_s;
            }
        }
        let turns = (context.sized(ROUNDS, 1) * together * each) as f64;
        for ((row, ..), (used, took_s)) in rows.into_iter().zip(sums) {
            let each = used.times(1.0 / turns / 1_000.0);
            for (column, value) in [
                ("api", each.api_us),
                ("workers", each.workers_us),
                ("postgres", each.postgres_us),
                ("cpu", each.api_us + each.workers_us + each.postgres_us),
                ("rate", turns / took_s),
            ] {
                out.record(COST, row, column, value);
            }
        }
        for way in ways {
            way.stop(context, &other).await?;
        }
        out.note(format!(
            "Plain turns of {TOKENS} tokens in new conversations, half of them in each project, in {ROUNDS} rounds in which all ways take turns. One API; \
             a worker for each cell. What idle processes do in the same time is subtracted. The load's own client and the model share the machine \
             and are not counted."
        ));
        other.stop().await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let cost = found.table(COST);
        let claim = |what: &str, row: &str, base: &str, reason: &str| {
            let (values, of_base) = (cost.values(row, "cpu"), cost.values(base, "cpu"));
            let claim = Claim {
                what: what.to_owned(),
                unit: "times".to_owned(),
                bound: 1.05,
                better: Better::Lower,
                values: values.iter().zip(of_base).map(|(value, base)| value / base).collect(),
                why_not: None,
            };
            let parts = [("API", "api"), ("workers", "workers"), ("PostgreSQL", "postgres")];
            let parts = parts.map(|(part, column)| {
                let (before, after) = (cost.cell_text(base, column), cost.cell_text(row, column));
                format!("{part} {before} and {after}")
            });
            claim.unless(format!("{reason} By part, in ms: {}.", parts.join(", ")))
        };
        vec![
            claim(
                "CPU of a turn with two cells, relative to one cell with as many workers",
                TWO,
                ONE,
                "With half of the load each, the two servers have fewer turns at once that share commits and wake-ups.",
            ),
            claim(
                "CPU of a turn with two cells that each have the load of the one cell, relative to it with one worker",
                EACH,
                ONE_ALONE,
                "Twice as many turns at once, and twice as many processes, share the same processors. What exactly costs more was not analysed.",
            ),
            claim(
                "CPU of a turn with one cell, relative to one database without cells",
                ONE,
                WITHOUT,
                "Each transaction of a user asks first whether its project is being moved.",
            ),
        ]
    }
}

/// On a separate thread, because the future of migrations is not `Send`.
async fn another_server() -> Result<Server> {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(Server::start())).await?
}

/// CPU time, in µs.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    api_us: f64,
    workers_us: f64,
    postgres_us: f64,
}

impl Usage {
    fn plus(&self, other: &Self) -> Self {
        Self {
            api_us: self.api_us + other.api_us,
            workers_us: self.workers_us + other.workers_us,
            postgres_us: self.postgres_us + other.postgres_us,
        }
    }

    fn times(&self, factor: f64) -> Self {
        Self {
            api_us: self.api_us * factor,
            workers_us: self.workers_us * factor,
            postgres_us: self.postgres_us * factor,
        }
    }

    fn since(&self, before: &Self) -> Self {
        self.plus(&before.times(-1.0))
    }
}

/// Where two projects are.
#[derive(Clone, Copy)]
enum Placed<'a> {
    WithoutCells,
    InOneCell,
    /// The second one in a cell on this server.
    InTwo(&'a Server),
}

/// A deployment with two projects.
struct Way {
    directory: Database,
    /// Of the second project; None: it is in the directory.
    cell: Option<(Database, Server)>,
    /// By project.
    keys: [String; 2],
    url: String,
    api: Process,
    workers: Vec<Process>,
    _model: Process,
}

impl Way {
    /// `workers`: for each database.
    async fn start(context: &Context, placed: Placed<'_>, workers: usize) -> Result<Self> {
        let directory = context.server.database().await?;
        let (second, second_key) = project(&directory).await?;
        let cell = match placed {
            Placed::InTwo(server) => Some((server.database().await?, server.clone())),
            Placed::WithoutCells | Placed::InOneCell => None,
        };
        let mut environment = vec![("RUST_LOG", "warn")];
        environment.extend(ONE_USER_PLAYS_ALL);
        if !matches!(placed, Placed::WithoutCells) {
            environment.push(("REJOIN_CELLS", "true"));
        }
        if let Some((database, _)) = &cell {
            environment.push((URL_VARIABLE, database.url.as_str()));
            let source = format!("env:{URL_VARIABLE}");
            operate(&directory, &database.url, &["add", CELL, "--url-from", &source])?;
            // No API is there that would have to notice.
            operate(
                &directory,
                &database.url,
                &["move", &second.to_string(), CELL, "--settle-ms", "0"],
            )?;
        }
        let (model, base_url) = model::start().await?;
        let of_workers = [
            ("OPENAI_BASE_URL", base_url.as_str()),
            ("OPENAI_API_KEY", "scripted"),
            ("REJOIN_CHAT_MODEL", "openai:scripted"),
            ("RUST_LOG", "warn"),
            ("REJOIN_SLOTS", "200"),
        ];
        let urls = std::iter::once(&directory.url).chain(cell.iter().map(|(database, _)| &database.url));
        let started = urls.flat_map(|url| std::iter::repeat_n(url, workers));
        let workers = started
            .map(|url| Process::worker(url, &of_workers))
            .collect::<Result<Vec<_>>>()?;
        let (api, url) = Process::api(&directory.url, &environment).await?;
        wait_for_project(&url, &second_key).await?;
        Ok(Self {
            keys: [directory.api_key.clone(), second_key],
            directory,
            cell,
            url,
            api,
            workers,
            _model: model,
        })
    }

    fn usage(&self, context: &Context) -> Result<Usage> {
        let servers = std::iter::once(&context.server).chain(self.cell.iter().map(|(_, server)| server));
        let mut used = Usage {
            api_us: self.api.usage()?.cpu_us as f64,
            ..Usage::default()
        };
        for worker in &self.workers {
            used.workers_us += worker.usage()?.cpu_us as f64;
        }
        for server in servers {
            let pid = server.pid().context("PostgreSQL runs")?;
            used.postgres_us += process::tree_usage(pid)?.cpu_us as f64;
        }
        Ok(used)
    }

    /// `together` chats, half of them in each project, take `each` turns, one after the other. Returns how long it took, in seconds.
    async fn turns(&self, together: usize, each: usize) -> Result<f64> {
        let script = Script {
            tokens: TOKENS,
            ..Script::default()
        };
        let mut chats = Vec::new();
        for nth in 0..together {
            chats.push(Chat::connect(&self.url, &self.keys[nth % self.keys.len()]).await?);
        }
        let began = now_us();
        let running: Vec<_> = chats
            .into_iter()
            .map(|mut chat| {
                tokio::spawn(async move {
                    for _ in 0..each {
                        chat.turn(None, script).await?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for chat in running {
            chat.await??;
        }
        Ok((now_us() - began) as f64 / 1e6)
    }

    async fn stop(self, context: &Context, other: &Server) -> Result<()> {
        for process in self.workers.into_iter().chain([self.api]) {
            process.stop().await?;
        }
        if let Some((database, _)) = self.cell {
            other.drop(database).await?;
        }
        context.server.drop(self.directory).await
    }
}

/// Creates another project of the database's user, with a key.
async fn project(directory: &Database) -> Result<(Uuid, String)> {
    let mut connection = directory.db.pool_sqlx.acquire().await?;
    let id = workspaces::create(&mut connection, "bench 2").await?;
    workspaces::add_member(&mut connection, id, directory.user_id, workspaces::Role::Owner).await?;
    let (_, key) = auth::create_key(&mut connection, directory.user_id, Some(id), "bench", &Scope::ALL, None).await?;
    Ok((id, key))
}

/// Executes `rejoin cells`.
fn operate(directory: &Database, cell_url: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(process::rejoin()?)
        .arg("cells")
        .args(arguments)
        .env("DATABASE_URL", &directory.url)
        .env(URL_VARIABLE, cell_url)
        .output()?;
    if !output.status.success() {
        bail!(
            "rejoin cells {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// Waits until the API serves the project of this key.
async fn wait_for_project(url: &str, key: &str) -> Result<()> {
    let client = reqwest::Client::new();
    let asking = async {
        loop {
            let asked = client
                .get(format!("{url}/api/conversations"))
                .bearer_auth(key)
                .send()
                .await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(READY_LIMIT, asking).await;
    waited.with_context(|| {
        format!(
            "the API did not serve the second project within {} s",
            READY_LIMIT.as_secs()
        )
    })
}
