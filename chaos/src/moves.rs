//! Projects that move from one database to the other and back while users work with them. The commands are killed at times, and then
//! repeated, or undone; and requests wait at times in the middle of their transactions.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::future::try_join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rejoin_identity::cells::DIRECTORY;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::cell::{CELL, Cell, Ended};
use crate::evidence::{Injected, now_us};
use crate::held_writers::HeldWriters;
use crate::world::World;

/// The name of moves in the evidence.
const MOVE: &str = "move-project";
/// How long a project stays where it is, in milliseconds.
const STAY_MS: std::ops::Range<u64> = 500..4_000;
/// When a command is killed, in milliseconds after its start: a whole move takes about as long.
const KILL_AFTER_MS: std::ops::Range<u64> = 0..4_000;
/// How often a command is killed, and how often a move is then undone instead of continued.
const KILLED: f64 = 0.3;
const UNDONE: f64 = 0.25;
/// How often requests wait in the middle of their transactions meanwhile.
const WRITERS_HELD: f64 = 0.5;
/// Limit of commands for one move.
const TRIES: usize = 60;
const RETRY: Duration = Duration::from_millis(300);
/// The minimum age of rows that a move has left behind, in seconds, and how often old ones are deleted.
const CLEAN_AFTER_S: &str = "4";
const CLEAN_EVERY: Duration = Duration::from_secs(5);
/// An error by which a repeated command says that its move is complete.
const IS_THERE: &str = "lives on the cell";

/// What happened.
#[derive(Debug, Default)]
pub struct Moves {
    /// How long each move took, in milliseconds, with its killed commands.
    pub took_ms: Vec<f64>,
    /// Commands that were killed.
    pub killed: usize,
    pub undone: usize,
    /// Errors of commands, with their number.
    pub failed: BTreeMap<String, usize>,
}

impl Moves {
    fn add(&mut self, other: Self) {
        self.took_ms.extend(other.took_ms);
        self.killed += other.killed;
        self.undone += other.undone;
        for (error, times) in other.failed {
            *self.failed.entry(error).or_default() += times;
        }
    }
}

/// All projects, in order.
fn projects(world: &World) -> Vec<Uuid> {
    let mut projects: Vec<Uuid> = Vec::new();
    for user in &world.users {
        if !projects.contains(&user.workspace_id) {
            projects.push(user.workspace_id);
        }
    }
    projects
}

/// Moves every second project to the cell, before anything happens.
pub async fn spread(world: &World, cell: &Cell) -> Result<()> {
    let moving = projects(world).into_iter().skip(1).step_by(2);
    try_join_all(moving.map(|project| async move {
        match cell.move_project(&project.to_string(), CELL, None).await? {
            Ended::Well => Ok(()),
            ended => bail!("the project {project} was not moved: {ended:?}"),
        }
    }))
    .await?;
    Ok(())
}

/// Moves this number of projects back and forth until `until`, each by itself, and deletes what they leave behind.
///
/// # Errors
/// A project can't be moved at all.
pub async fn rage(world: &World, cell: &Cell, moving: usize, seed: u64, until: Instant) -> Result<Moves> {
    let movers = projects(world)
        .into_iter()
        .take(moving)
        .enumerate()
        .map(|(nth, project)| {
            let dice = StdRng::seed_from_u64(seed.wrapping_mul(15_485_863).wrapping_add(nth as u64));
            let mover = Mover {
                world,
                cell,
                project,
                is_on_cell: nth % 2 == 1,
                dice,
                moves: Moves::default(),
            };
            mover.go(until)
        });
    let cleaning = async {
        let mut failed = BTreeMap::new();
        while Instant::now() < until {
            sleep(CLEAN_EVERY).await;
            // A project that is just being moved is left for the next time.
            if let Ended::Failed(why) = cell.command(&["clean", "--older-than-s", CLEAN_AFTER_S], None).await? {
                *failed.entry(why).or_default() += 1;
            }
        }
        anyhow::Ok(Moves {
            failed,
            ..Moves::default()
        })
    };
    let (moved, cleaned) = tokio::try_join!(try_join_all(movers), cleaning)?;
    let mut all = cleaned;
    for moves in moved {
        all.add(moves);
    }
    // What is left behind would look like work that never ends.
    for _ in 0..TRIES {
        if cell.command(&["clean", "--older-than-s", "0"], None).await? == Ended::Well {
            return Ok(all);
        }
        sleep(RETRY).await;
    }
    bail!("the rows that moved projects have left behind can't be deleted");
}

struct Mover<'a> {
    world: &'a World,
    cell: &'a Cell,
    project: Uuid,
    is_on_cell: bool,
    dice: StdRng,
    moves: Moves,
}

impl Mover<'_> {
    async fn go(mut self, until: Instant) -> Result<Moves> {
        while Instant::now() < until {
            sleep(Duration::from_millis(self.dice.random_range(STAY_MS))).await;
            let (from_us, began) = (now_us(), Instant::now());
            let to = if self.is_on_cell { DIRECTORY } else { CELL };
            let (has_moved, commands) = self
                .move_to(to)
                .await
                .with_context(|| format!("moving the project {} to {to}", self.project))?;
            if has_moved {
                self.is_on_cell = !self.is_on_cell;
                self.moves.took_ms.push(began.elapsed().as_secs_f64() * 1_000.0);
            }
            let how = if has_moved { "" } else { ", undone" };
            self.world.evidence.fault(&Injected {
                fault: MOVE.to_owned(),
                number: "F27".to_owned(),
                from_us,
                until_us: now_us(),
                detail: format!("to {to} by {commands} commands{how}"),
                worker: None,
                workspace_id: Some(self.project),
            });
        }
        Ok(self.moves)
    }

    /// Returns whether the project has moved, unless the move was undone, and the number of commands.
    async fn move_to(&mut self, to: &str) -> Result<(bool, usize)> {
        let project = self.project.to_string();
        for commands in 1..=TRIES {
            let kill_after = self
                .dice
                .random_bool(KILLED)
                .then(|| Duration::from_millis(self.dice.random_range(KILL_AFTER_MS)));
            let moving = self.cell.move_project(&project, to, kill_after);
            // One move at a time: copies write to the table that is locked for another, if that goes the other way.
            let turn = self
                .dice
                .random_bool(WRITERS_HELD)
                .then(|| self.cell.writers.try_lock());
            let ended = if let Some(Ok(_turn)) = turn {
                let from = if self.is_on_cell { &self.cell.db } else { &self.world.db };
                HeldWriters::hold(from)
                    .await?
                    .during(moving, &self.world.evidence)
                    .await?
            } else {
                moving.await
            };
            match ended? {
                Ended::Well => return Ok((true, commands)),
                Ended::Failed(why) if why.contains(IS_THERE) => return Ok((true, commands)),
                Ended::Failed(why) => {
                    *self.moves.failed.entry(why).or_default() += 1;
                    sleep(RETRY).await;
                }
                Ended::Killed => {
                    self.moves.killed += 1;
                    // It may be too late for that, or too early.
                    if self.dice.random_bool(UNDONE)
                        && self.cell.command(&["move", &project, "--undo"], None).await? == Ended::Well
                    {
                        self.moves.undone += 1;
                        return Ok((false, commands));
                    }
                }
            }
        }
        bail!("{TRIES} commands have failed: {:?}", self.moves.failed)
    }
}
