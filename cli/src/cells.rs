//! `rejoin cells`: several databases, and on which of them each project lives. Directly in the databases: DATABASE_URL is the directory.
//!
//! Invariant: a move that fails before the new cell has committed the rows is undone; any other continues when it is asked for again.
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Subcommand;
use rejoin_identity::audit::Action as Act;
use rejoin_identity::cells::moving::{self, Databases, Limits, Move, MoveError, Phase};
use rejoin_identity::cells::{self, Cell, CellState, DIRECTORY, UrlSource};
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{database, exit::Exit, global::Global, keys, out::Out};

/// Place projects on several databases (cells). Talks to the databases; DATABASE_URL is the directory's.
///
/// Every cell is an ordinary PostgreSQL database, migrated like the directory. `--url-from` names where each process finds a cell's URL: an
/// environment variable or a file, which API processes and this command need to have.
///
/// Examples:
///   DATABASE_URL=postgres://rejoin@db2/rejoin rejoin migrate up
///   rejoin cells add b --url-from file:/run/secrets/cell-b
///   rejoin cells list
///   rejoin cells move acme b
///   rejoin cells move acme directory
///   rejoin cells drain b
///   rejoin cells clean
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

/// What a move waits for.
#[derive(Debug, Clone, clap::Args)]
pub struct LimitArgs {
    /// Time for all API processes to notice the hold, in milliseconds: longer than their REJOIN_CELLS_STALE_MS.
    #[arg(long, env = "REJOIN_CELLS_SETTLE_MS", default_value_t = 5_000)]
    pub settle_ms: u64,
    /// How long running jobs of the project may go on after that, in seconds.
    #[arg(long, env = "REJOIN_CELLS_WAIT_S", default_value_t = 60)]
    pub wait_s: u64,
    /// Take the leases of jobs that still run then, instead of undoing the move: their runs continue on the new cell from their last record.
    #[arg(long)]
    pub interrupt: bool,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Add a cell, or change where its URL is found. A cell that was drained takes projects again.
    Add {
        /// Name of the cell: lower-case letters, digits and hyphens.
        name: String,
        /// Where processes find the URL of its database: env:VARIABLE or file:/PATH.
        #[arg(long, value_name = "SOURCE")]
        url_from: UrlSource,
    },
    /// List the cells and the number of their projects.
    List,
    /// Move a project to a cell, or continue a move that was interrupted. Meanwhile it can be read; changes get 503, and are repeated by clients.
    Move {
        /// Project, by name or id.
        #[arg(value_name = "PROJECT")]
        project: String,
        /// Name of the cell; `directory` is the directory's database.
        #[arg(value_name = "CELL", required_unless_present = "undo")]
        cell: Option<String>,
        #[command(flatten)]
        limits: LimitArgs,
        /// Undo a move that was interrupted: the project stays where it was.
        #[arg(long, conflicts_with = "cell")]
        undo: bool,
    },
    /// Move all projects of a cell to other cells, and take no more of them.
    Drain {
        /// Name of the cell.
        #[arg(value_name = "CELL")]
        cell: String,
        /// Cell to which they move [default: for each, the one with the fewest projects]
        #[arg(long, value_name = "CELL")]
        to: Option<String>,
        #[command(flatten)]
        limits: LimitArgs,
    },
    /// Delete the rows that moved projects have left on their old cells.
    Clean {
        /// Minimum age of the moves, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
        older_than_s: u32,
    },
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        Limits {
            settle: Duration::from_millis(self.settle_ms),
            wait: Duration::from_secs(self.wait_s),
            interrupt: self.interrupt,
        }
    }
}

/// # Errors
/// A database can't be reached, or a project can't be moved.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let directory = database::connect(global).await?;
    match args.action {
        Action::Add { name, url_from } => add(&directory, &name, &url_from, out).await?,
        Action::List => list(&directory, out).await?,
        Action::Move {
            project,
            cell,
            limits,
            undo,
        } => {
            let project = database::project(&directory, Some(&project)).await?;
            if undo {
                self::undo(&directory, project, out).await?;
            } else {
                let cell = cell.context("a cell is required")?;
                move_one(&directory, project, target(&cell), &limits.limits(), out).await?;
            }
        }
        Action::Drain { cell, to, limits } => {
            return drain(&directory, &cell, to.as_deref(), &limits.limits(), out).await;
        }
        Action::Clean { older_than_s } => clean(&directory, older_than_s, out).await?,
    }
    Ok(Exit::Done)
}

/// None: the directory.
fn target(cell: &str) -> Option<&str> {
    (cell != DIRECTORY).then_some(cell)
}

async fn all(directory: &PgPool) -> Result<Vec<Cell>> {
    let mut connection = directory
        .acquire()
        .await
        .context("connecting to the directory failed")?;
    cells::list(&mut connection).await.context("reading the cells failed")
}

async fn add(directory: &PgPool, name: &str, url_from: &UrlSource, out: Out) -> Result<()> {
    anyhow::ensure!(
        cells::is_name(name),
        "{name:?} is not a name of a cell: use up to 32 lower-case letters, digits and hyphens, beginning with a letter (and not \
         {DIRECTORY:?})"
    );
    let url = url_from.read().context("reading the URL of the cell failed")?;
    let cell = database::connect_to(&url).await?;
    let is_migrated: bool = sqlx::query_scalar("select to_regclass('cells.holds') is not null")
        .fetch_one(&cell)
        .await
        .context("looking at the cell failed")?;
    anyhow::ensure!(
        is_migrated,
        "the cell is not migrated: run `rejoin migrate up` with its URL first"
    );
    let cells_there: i64 = sqlx::query_scalar("select count(*) from cells.cells")
        .fetch_one(&cell)
        .await
        .context("looking at the cell failed")?;
    anyhow::ensure!(
        cells_there == 0,
        "this database is a directory with cells; it can't become a cell"
    );
    let here = cells::database_id(directory)
        .await
        .context("looking at the directory failed")?;
    let there = cells::database_id(&cell).await.context("looking at the cell failed")?;
    anyhow::ensure!(
        here != there,
        "this is the directory's own database; a cell is another one"
    );
    let mut tx = rejoin_db::begin(directory)
        .await
        .context("beginning a transaction failed")?;
    cells::add(&mut tx, name, url_from)
        .await
        .context("adding the cell failed")?;
    cells::set_state(&mut tx, name, CellState::Open)
        .await
        .context("opening the cell failed")?;
    tx.commit().await.context("committing the cell failed")?;
    out.either(&json!({ "name": name, "urlFrom": url_from.to_string() }), || {
        format!("the cell {name} takes projects; `rejoin cells move PROJECT {name}` moves one")
    })
}

async fn list(directory: &PgPool, out: Out) -> Result<()> {
    let mut connection = directory
        .acquire()
        .await
        .context("connecting to the directory failed")?;
    let own = cells::workspaces_of(&mut connection, None).await;
    let own = own.context("reading the projects of the directory failed")?.len();
    drop(connection);
    let others = all(directory).await?;
    if out.is_json() {
        out.json(&json!({ "name": DIRECTORY, "state": CellState::Open, "projects": own }))?;
        for cell in &others {
            out.json(cell)?;
        }
        return Ok(());
    }
    let mut rows = vec![[
        DIRECTORY.to_owned(),
        "open".to_owned(),
        own.to_string(),
        "DATABASE_URL".to_owned(),
    ]];
    rows.extend(others.into_iter().map(|cell| {
        let projects = cell.workspaces.to_string();
        [cell.name, cell.state.to_string(), projects, cell.url_from]
    }));
    out.table(["CELL", "STATE", "PROJECTS", "URL FROM"], &rows)
}

/// Connects to the database of a cell. None: the directory.
async fn connect(directory: &PgPool, cell: Option<&str>) -> Result<PgPool> {
    let Some(name) = cell else {
        return Ok(directory.clone());
    };
    let known = all(directory).await?.into_iter().find(|cell| cell.name == name);
    let known = known.ok_or_else(|| Exit::NotFound.because(MoveError::NoCell(name.to_owned()).to_string()))?;
    let source: UrlSource = known
        .url_from
        .parse()
        .context("the source of the cell's URL is invalid")?;
    let url = source
        .read()
        .with_context(|| format!("reading the URL of the cell {name} failed"))?;
    database::connect_to(&url).await
}

async fn databases(directory: &PgPool, moved: &Move) -> Result<Databases> {
    Ok(Databases {
        directory: directory.clone(),
        from: connect(directory, moved.from.as_deref()).await?,
        to: connect(directory, moved.to.as_deref()).await?,
    })
}

async fn move_one(directory: &PgPool, project: Uuid, to: Option<&str>, limits: &Limits, out: Out) -> Result<Move> {
    // Before anything is held.
    connect(directory, to).await?;
    let _lock = moving::lock(directory, project).await?;
    let mut moved = moving::begin(directory, project, to).await?;
    let databases = databases(directory, &moved).await?;
    while moved.phase != Phase::Moved {
        out.note(match moved.phase {
            Phase::Holding => "waiting until nothing of the project runs",
            Phase::Copying => "copying and comparing its rows",
            _ => "sending requests to the new cell",
        });
        if let Err(error) = moving::step(&databases, limits, &mut moved).await {
            out.note(&match moving::undo(&databases, &mut moved, &error.to_string()).await {
                Ok(()) => "the move was undone: the project stays where it was".to_owned(),
                Err(MoveError::Decided) => "the new cell has the rows; run the command again to complete the move".to_owned(),
                Err(undone) => format!(
                    "undoing the move failed ({undone}); run the command again to continue it, or with --undo to undo it"
                ),
            });
            return Err(error).context("moving the project failed");
        }
    }
    let (from, name) = (moving::named(moved.from.as_deref()), moving::named(to));
    let mut tx = rejoin_db::begin(directory)
        .await
        .context("beginning a transaction failed")?;
    let target = format!("project:{project}");
    let detail = json!({ "from": from, "to": name });
    let recorded = keys::record(&mut tx, Some(project), Act::ProjectMoved, target, detail).await;
    recorded.context("writing the audit log failed")?;
    tx.commit()
        .await
        .context("committing the entry of the audit log failed")?;
    out.either(&moved, || {
        format!("the project {project} lives on {name} now; `rejoin cells clean` deletes its old rows on {from}")
    })?;
    Ok(moved)
}

async fn undo(directory: &PgPool, project: Uuid, out: Out) -> Result<()> {
    let _lock = moving::lock(directory, project).await?;
    let open = moving::open(directory, project)
        .await
        .context("reading the moves failed")?;
    let mut moved = open.ok_or_else(|| Exit::NotFound.because("no move of the project has begun"))?;
    let databases = databases(directory, &moved).await?;
    moving::undo(&databases, &mut moved, "undone by an operator").await?;
    out.either(&moved, || {
        format!("the project stays on {}", moving::named(moved.from.as_deref()))
    })
}

async fn drain(directory: &PgPool, cell: &str, to: Option<&str>, limits: &Limits, out: Out) -> Result<Exit> {
    let mut connection = directory
        .acquire()
        .await
        .context("connecting to the directory failed")?;
    let set = cells::set_state(&mut connection, cell, CellState::Draining).await;
    if !set.context("closing the cell failed")? {
        return Err(Exit::NotFound
            .because(MoveError::NoCell(cell.to_owned()).to_string())
            .into());
    }
    let projects = cells::workspaces_of(&mut connection, Some(cell)).await;
    let projects = projects.context("reading the projects of the cell failed")?;
    drop(connection);
    let mut left = 0_usize;
    for project in projects {
        let chosen = match to {
            Some(name) => name.to_owned(),
            None => emptiest(directory).await?,
        };
        if let Err(error) = move_one(directory, project, target(&chosen), limits, out).await {
            out.note(&format!("the project {project} stays on {cell}: {error:#}"));
            left += 1;
        }
    }
    if left == 0 {
        return Ok(Exit::Done);
    }
    out.note(&format!("{left} projects are still on {cell}; run the command again"));
    Ok(Exit::Failed)
}

/// The open cell with the fewest projects; without one, the directory.
async fn emptiest(directory: &PgPool) -> Result<String> {
    let open = all(directory)
        .await?
        .into_iter()
        .filter(|cell| cell.state == CellState::Open);
    let emptiest = open.min_by_key(|cell| cell.workspaces);
    Ok(emptiest.map_or_else(|| DIRECTORY.to_owned(), |cell| cell.name))
}

async fn clean(directory: &PgPool, older_than_s: u32, out: Out) -> Result<()> {
    let moves = moving::to_clean(directory, f64::from(older_than_s)).await;
    for mut moved in moves.context("reading the moves failed")? {
        let _lock = moving::lock(directory, moved.workspace_id).await?;
        let limits = Limits {
            settle: Duration::ZERO,
            wait: Duration::ZERO,
            interrupt: false,
        };
        let databases = databases(directory, &moved).await?;
        moving::step(&databases, &limits, &mut moved).await?;
        out.either(&moved, || {
            let from = moving::named(moved.from.as_deref());
            format!("deleted the old rows of the project {} on {from}", moved.workspace_id)
        })?;
    }
    Ok(())
}
