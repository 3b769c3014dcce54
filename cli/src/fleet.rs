//! Shared by `rejoin api` and `rejoin worker`: shutdown signals and the schema check.
//!
//! Invariants: the first SIGTERM or SIGINT drains, the second ends immediately; no process works on a schema that lacks
//! something of its release.
use std::time::Duration;

use anyhow::{Context, Result};
use rejoin_db::config::DatabaseArgs;
use rejoin_db::telemetry;
use rejoin_db::{Db, Role, Unfit};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{
    exit::{Exit, Failure},
    migrate::{self, State},
};

/// Interval of checks while a database does not respond.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Number of checks between messages about it.
const TELL_EVERY: u32 = 20;

/// What every process of a fleet understands.
#[derive(Debug, Clone, clap::Args)]
pub struct FleetArgs {
    /// Write logs as JSON, one object per line.
    #[arg(long, env = "REJOIN_LOG_JSON")]
    pub log_json: bool,
    /// Migrate the database schema first. In a fleet, run `rejoin migrate up` once instead.
    #[arg(long, env = "REJOIN_MIGRATE")]
    pub migrate: bool,
}

/// The signals that stop a process.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches the signals from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen() -> Result<Self> {
        let on = |kind| signal(kind).context("listening for signals failed");
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The shutdown of a process.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// The first signal: finish what can be finished, release the rest.
    pub drain: CancellationToken,
    /// The second signal: exit.
    pub now: CancellationToken,
}

impl Ending {
    /// Runs the process's work, until it completes or must be aborted.
    ///
    /// # Errors
    /// The work's.
    pub async fn work(&self, work: impl Future<Output = Result<()>>) -> Result<Exit> {
        tokio::select! {
            done = work => done.map(|()| Exit::Done),
            () = self.now.cancelled() => {
                tracing::warn!("stopped before the drain was complete");
                Ok(Exit::Interrupted)
            }
        }
    }
}

/// Begins logging and handling signals.
///
/// # Errors
/// Signals are unavailable.
pub fn begin(args: &FleetArgs) -> Result<Ending> {
    telemetry::init(args.log_json);
    let mut signals = Signals::listen()?;
    let ending = Ending::default();
    let ended = ending.clone();
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!("draining; a second signal stops it at once");
        ended.drain.cancel();
        signals.next().await;
        ended.now.cancel();
    });
    Ok(ending)
}

/// Waits until the database responds and meets the requirements of this role. `false`: asked to stop meanwhile.
///
/// # Errors
/// Migrations are missing, the database is from before the first release, or row-level security would not be enforced.
pub async fn schema_is_ready(
    database: &DatabaseArgs,
    role: Role,
    args: &FleetArgs,
    drain: &CancellationToken,
) -> Result<bool> {
    let url = &database.database_url;
    let mut looks = 0_u32;
    loop {
        let look = async {
            if args.migrate {
                migrate::up(url).await?;
            }
            let lines = migrate::status(url).await?;
            if lines.iter().any(|line| line.state == State::BeforeRelease) {
                return Err(Exit::Failed.because(migrate::UNRELEASED).into());
            }
            if lines.iter().all(|line| line.state != State::Pending) {
                Db::inspect(database, "rejoin-start", role).await.map_err(refused)?;
            }
            Ok::<_, anyhow::Error>(lines)
        };
        let looked = tokio::select! {
            looked = look => looked,
            () = drain.cancelled() => return Ok(false),
        };
        match looked {
            Ok(lines) => {
                let count = |state: State| lines.iter().filter(|line| line.state == state).count();
                let (pending, changed) = (count(State::Pending), count(State::Changed));
                if changed > 0 {
                    tracing::warn!(
                        changed,
                        "applied migrations differ from those of this binary; `rejoin migrate status` shows them"
                    );
                }
                if pending == 0 {
                    return Ok(true);
                }
                let message = format!(
                    "the database lacks {pending} of {} migrations; run `rejoin migrate up` (or start with --migrate)",
                    lines.len()
                );
                return Err(Exit::Failed.because(message).into());
            }
            // Down or starting: temporary.
            Err(error) if Exit::may_pass(&error) => {
                if looks.is_multiple_of(TELL_EVERY) {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "the database does not respond yet; retrying"
                    );
                }
                looks += 1;
            }
            Err(error) if error.is::<Failure>() => return Err(error),
            Err(error) => return Err(error).context("reading the database's schema version failed"),
        }
        tokio::select! {
            () = sleep(LOOK_EVERY) => {}
            () = drain.cancelled() => return Ok(false),
        }
    }
}

/// An unreachable database is waited for; one without row-level security is refused.
fn refused(unfit: Unfit) -> anyhow::Error {
    match unfit {
        Unfit::Connect(error) => anyhow::Error::new(error).context("connecting to the database failed"),
        Unfit::Url(_)
        | Unfit::Settings(_)
        | Unfit::Listen(_)
        | Unfit::Session(_)
        | Unfit::Role { .. }
        | Unfit::RowSecurity(_) => Exit::Failed.because(unfit.to_string()).into(),
    }
}
