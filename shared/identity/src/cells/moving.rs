//! Moves a workspace to another cell, phase by phase. Called by `rejoin cells`, which connects to the databases.
//!
//! ```text
//! holding -> copying -> copied -> moved -> cleaned
//!     \---------\-> undone
//! ```
//!
//! Each phase is recorded in the directory, and each may be repeated: a move that was interrupted goes on with [`step`], or is undone. The
//! commit of the copy decides: before it, the workspace lives on the old cell, and after it on the new one.

use std::collections::BTreeMap;
use std::time::Duration;

use rejoin_faults::Fault;
use rejoin_types::ids;
use serde::Serialize;
use serde_json::json;
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::copying::{self, CopyError, Ends};
use super::{CellState, DIRECTORY, database_id, holding};

/// Interval of checks whether the jobs of a held workspace have ended.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long transactions that began before the hold are waited for, besides the time to settle. PostgreSQL ends them when they have been idle for 10 s.
const WRITERS_LIMIT: Duration = Duration::from_secs(30);
/// "cells", in bytes: the class of the advisory locks of moves.
const LOCK_CLASS: i32 = 0x6365_6c6c;

rejoin_types::text_enum! {
    /// How far a move is.
    pub enum Phase {
        /// The workspace is held, and its jobs end.
        Holding = "holding",
        /// Nothing changes it, and its rows are copied.
        Copying = "copying",
        /// The new cell has committed the rows. The move can't be undone.
        Copied = "copied",
        /// Requests go to the new cell.
        Moved = "moved",
        /// The old rows are deleted.
        Cleaned = "cleaned",
        /// The workspace has stayed where it was.
        Undone = "undone",
    }
}

/// A move of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    pub id: Uuid,
    #[serde(rename = "projectId")]
    pub workspace_id: Uuid,
    /// None: the directory.
    pub from: Option<String>,
    pub to: Option<String>,
    pub phase: Phase,
}

/// The databases of a move.
#[derive(Debug, Clone)]
pub struct Databases {
    pub directory: PgPool,
    pub from: PgPool,
    pub to: PgPool,
}

/// What a move waits for.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long the hold must have been known to all processes of the API before rows are copied.
    pub settle: Duration,
    /// How long running jobs may go on after that.
    pub wait: Duration,
    /// Take the leases of the jobs that still run then; otherwise the move is refused.
    pub interrupt: bool,
}

/// Why a workspace can't be moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error("the project does not exist")]
    NoWorkspace,
    #[error("there is no cell {0:?}; `rejoin cells add` adds one")]
    NoCell(String),
    #[error("the cell {0:?} is draining: nothing is moved to it; `rejoin cells add` opens it again")]
    Draining(String),
    #[error("the project lives on the cell {0:?} already")]
    IsThere(String),
    #[error("a move of the project to the cell {0:?} has begun; complete it, or undo it with --undo")]
    Open(String),
    #[error("another command is moving the project")]
    Busy,
    #[error("the URLs of both cells lead to the same database")]
    SameDatabase,
    #[error(
        "{0} jobs of the project still run; move it later, wait longer (--wait-s), or take their leases (--interrupt): their runs \
         then continue on the new cell from their last record"
    )]
    Running(i64),
    #[error("a request of the project that began before the move has not ended within {} s; move it later", WRITERS_LIMIT.as_secs())]
    Writing,
    #[error("the new cell has committed the rows, so it is too late to undo the move; complete it")]
    Decided,
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error("a statement of the move failed")]
    Database(#[from] sqlx::Error),
}

/// Keeps other commands from moving the workspace, as long as the connection that it returns is open.
pub async fn lock(directory: &PgPool, workspace_id: Uuid) -> Result<PgConnection, MoveError> {
    // Detached: a connection that returns to its pool would keep the lock.
    let mut connection = PoolConnection::<Postgres>::detach(directory.acquire().await?);
    let is_ours = sqlx::query_scalar!(
        r#"select pg_try_advisory_lock($1, hashtext($2)) as "ours!""#,
        LOCK_CLASS,
        workspace_id.to_string()
    )
    .fetch_one(&mut connection)
    .await?;
    if is_ours { Ok(connection) } else { Err(MoveError::Busy) }
}

/// Begins a move, and holds the workspace; or returns the one to the same cell that was interrupted.
pub async fn begin(directory: &PgPool, workspace_id: Uuid, to: Option<&str>) -> Result<Move, MoveError> {
    if let Some(open) = open(directory, workspace_id).await? {
        if open.to.as_deref() == to {
            return Ok(open);
        }
        return Err(MoveError::Open(named(open.to.as_deref())));
    }
    let mut tx = rejoin_db::begin(directory).await?;
    let from = current(&mut tx, workspace_id).await?;
    if from.as_deref() == to {
        return Err(MoveError::IsThere(named(to)));
    }
    if let Some(name) = to {
        let state = sqlx::query_scalar!("select state from cells.cells where name = $1", name)
            .fetch_optional(&mut *tx)
            .await?
            .ok_or_else(|| MoveError::NoCell(name.to_owned()))?;
        if state != CellState::Open.as_str() {
            return Err(MoveError::Draining(name.to_owned()));
        }
    }
    let id = ids::new();
    sqlx::query!(
        "insert into cells.moves (id, project_id, from_cell, to_cell) values ($1, $2, $3, $4)",
        id,
        workspace_id,
        from.as_deref(),
        to
    )
    .execute(&mut *tx)
    .await?;
    place(&mut tx, workspace_id, from.as_deref(), "held").await?;
    tx.commit().await?;
    Ok(Move {
        id,
        workspace_id,
        from,
        to: to.map(str::to_owned),
        phase: Phase::Holding,
    })
}

/// Returns the move of a workspace that has begun and not ended.
pub async fn open(directory: &PgPool, workspace_id: Uuid) -> Result<Option<Move>, sqlx::Error> {
    let row = sqlx::query!(
        "select id, from_cell, to_cell, phase from cells.moves
         where project_id = $1 and phase in ('holding', 'copying', 'copied')",
        workspace_id
    )
    .fetch_optional(directory)
    .await?;
    Ok(row.map(|row| Move {
        id: row.id,
        workspace_id,
        from: row.from_cell,
        to: row.to_cell,
        phase: row.phase.parse().unwrap_or(Phase::Holding),
    }))
}

/// Returns completed moves whose old rows are still there, older than these many seconds, oldest first. Not those of workspaces that have
/// come back or are coming back.
pub async fn to_clean(directory: &PgPool, age_s: f64) -> Result<Vec<Move>, sqlx::Error> {
    let rows = sqlx::query!(
        "select m.id, m.project_id, m.from_cell, m.to_cell from cells.moves m
         join cells.placements p on p.project_id = m.project_id
         where m.phase = 'moved' and m.updated_at <= now() - make_interval(secs => $1)
           and p.state = 'placed' and p.cell is distinct from m.from_cell
         order by m.updated_at, m.id",
        age_s
    )
    .fetch_all(directory)
    .await?;
    let moves = rows.into_iter().map(|row| Move {
        id: row.id,
        workspace_id: row.project_id,
        from: row.from_cell,
        to: row.to_cell,
        phase: Phase::Moved,
    });
    Ok(moves.collect())
}

/// Takes a move to its next phase.
pub async fn step(databases: &Databases, limits: &Limits, moved: &mut Move) -> Result<(), MoveError> {
    let next = match moved.phase {
        Phase::Holding => {
            stop(databases, limits, moved).await?;
            record(&databases.directory, moved.id, Phase::Copying, None).await?;
            Phase::Copying
        }
        Phase::Copying => {
            let ends = Ends {
                directory: &databases.directory,
                from: &databases.from,
                to: &databases.to,
                to_directory: moved.to.is_none(),
            };
            // A command that was killed may have committed it.
            let counts = if copying::has_arrived(&databases.to, moved.workspace_id, moved.id).await? {
                None
            } else {
                Some(copying::copy(ends, moved.workspace_id, moved.id).await?)
            };
            record(&databases.directory, moved.id, Phase::Copied, counts.as_ref()).await?;
            Phase::Copied
        }
        Phase::Copied => {
            // First: nothing reads the old rows once others can change the new ones.
            holding::leave(&databases.from, moved.workspace_id).await?;
            let mut tx = rejoin_db::begin(&databases.directory).await?;
            place(&mut tx, moved.workspace_id, moved.to.as_deref(), "placed").await?;
            set_phase(&mut tx, moved.id, Phase::Moved).await?;
            tx.commit().await?;
            Phase::Moved
        }
        Phase::Moved => {
            copying::remove(&databases.from, moved.workspace_id, moved.from.is_none()).await?;
            record(&databases.directory, moved.id, Phase::Cleaned, None).await?;
            Phase::Cleaned
        }
        end @ (Phase::Cleaned | Phase::Undone) => end,
    };
    moved.phase = next;
    Ok(())
}

/// Undoes a move whose rows the new cell has not committed: the workspace goes on where it is.
pub async fn undo(databases: &Databases, moved: &mut Move, why: &str) -> Result<(), MoveError> {
    let may_be = matches!(moved.phase, Phase::Holding | Phase::Copying);
    if !may_be || copying::has_arrived(&databases.to, moved.workspace_id, moved.id).await? {
        return Err(MoveError::Decided);
    }
    holding::release(&databases.from, moved.workspace_id).await?;
    let mut tx = rejoin_db::begin(&databases.directory).await?;
    place(&mut tx, moved.workspace_id, moved.from.as_deref(), "placed").await?;
    set_phase(&mut tx, moved.id, Phase::Undone).await?;
    sqlx::query!("update cells.moves set error = $2 where id = $1", moved.id, why)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    moved.phase = Phase::Undone;
    Ok(())
}

/// The name of a cell.
pub fn named(cell: Option<&str>) -> String {
    cell.unwrap_or(DIRECTORY).to_owned()
}

/// Where a workspace lives.
async fn current(db: &mut PgConnection, workspace_id: Uuid) -> Result<Option<String>, MoveError> {
    let row = sqlx::query!(
        "select p.cell from kb.projects w left join cells.placements p on p.project_id = w.id where w.id = $1",
        workspace_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.ok_or(MoveError::NoWorkspace)?.cell)
}

/// Changes a placement: processes of the API read it within their interval.
async fn place(db: &mut PgConnection, workspace_id: Uuid, cell: Option<&str>, state: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into cells.placements as p (project_id, cell, state) values ($1, $2, $3)
         on conflict (project_id) do update
         set cell = excluded.cell, state = excluded.state, epoch = p.epoch + 1, version = excluded.version,
             changed_at = excluded.changed_at",
        workspace_id,
        cell,
        state
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Holds the workspace in its database, and waits until nothing runs.
async fn stop(databases: &Databases, limits: &Limits, moved: &Move) -> Result<(), MoveError> {
    // Cleaning up would delete the only rows.
    if database_id(&databases.from).await? == database_id(&databases.to).await? {
        return Err(MoveError::SameDatabase);
    }
    holding::hold(&databases.from, moved.workspace_id).await?;
    let held_at = Instant::now();
    let mut are_writers_gone = false;
    loop {
        are_writers_gone = are_writers_gone
            || rejoin_faults::enabled(Fault::HoldWithoutWaiting)
            || holding::writers_are_gone(&databases.from, moved.workspace_id).await?;
        let running = holding::park(&databases.from, moved.workspace_id).await?;
        let waited = held_at.elapsed();
        if waited >= limits.settle && running == 0 && are_writers_gone {
            return Ok(());
        }
        if waited >= limits.settle + WRITERS_LIMIT && !are_writers_gone {
            return Err(MoveError::Writing);
        }
        if waited >= limits.settle + limits.wait && running > 0 {
            if !limits.interrupt {
                return Err(MoveError::Running(running));
            }
            holding::take_leases(&databases.from, moved.workspace_id).await?;
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn record(
    directory: &PgPool,
    id: Uuid,
    phase: Phase,
    counts: Option<&BTreeMap<&'static str, i64>>,
) -> Result<(), sqlx::Error> {
    let mut tx = rejoin_db::begin(directory).await?;
    set_phase(&mut tx, id, phase).await?;
    if let Some(counts) = counts {
        sqlx::query!("update cells.moves set copied = $2 where id = $1", id, json!(counts))
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await
}

async fn set_phase(db: &mut PgConnection, id: Uuid, phase: Phase) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update cells.moves set phase = $2, updated_at = now() where id = $1",
        id,
        phase.as_str()
    )
    .execute(db)
    .await?;
    Ok(())
}
