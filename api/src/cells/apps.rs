//! The application of each cell in this process: with its own connections, bus, streams and routes. Reads again and again where workspaces
//! live, whether the cells answer, and what they have to mirror.
//!
//! Invariant: each cell is looked after by a separate future: one that is down delays no other, and not the reading of placements.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::Router;
use rejoin_db::config::{DatabaseArgs, Pooler};
use rejoin_db::failure_log::{ErrorChain, FailureLog};
use rejoin_db::{Db, Role};
use rejoin_event_log::wakeup;
use rejoin_identity::cells::{self, UrlSource, mirror};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use uuid::Uuid;

use super::placements::Placements;
use crate::cell_status::CellStatus;
use crate::routes;
use crate::state::{AppState, Means};

/// Interval of looks at each cell.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Timeout of such a look, and of reading placements.
const QUERY_LIMIT: Duration = Duration::from_secs(2);
/// Maximum number of workspaces whose identity is mirrored per look.
const MIRRORED: usize = 100;

/// The application of a cell.
pub struct App {
    pub state: AppState,
    router: Router,
    is_up: AtomicBool,
}

/// The applications of all cells.
pub struct Apps {
    pub directory: AppState,
    directory_router: Router,
    pub placements: Placements,
    status: Arc<CellStatus>,
    running: RwLock<HashMap<Arc<str>, Arc<App>>>,
    stop: CancellationToken,
}

impl Apps {
    /// Starts to read where workspaces live. The directory's own application is there already.
    pub fn start(directory: AppState, directory_router: Router, status: Arc<CellStatus>) -> Arc<Self> {
        let args = &directory.config.cells;
        let every = Duration::from_millis(args.cells_refresh_ms);
        let apps = Arc::new(Self {
            placements: Placements::new(Duration::from_millis(args.cells_stale_ms)),
            directory,
            directory_router,
            status,
            running: RwLock::default(),
            stop: CancellationToken::new(),
        });
        let reading = apps.clone();
        tokio::spawn(async move {
            let stop = reading.stop.clone();
            stop.run_until_cancelled(reading.keep_reading(every)).await;
        });
        apps
    }

    /// The directory's application.
    pub fn directory(&self) -> Router {
        self.directory_router.clone()
    }

    /// The application of a cell. None: it is down, or this process does not know it.
    pub fn cell(&self, name: &str) -> Option<Router> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        let app = running.get(name)?;
        app.is_up.load(Ordering::Acquire).then(|| app.router.clone())
    }

    /// The databases of all cells that are up, by name.
    pub fn databases(&self) -> Vec<Db> {
        let up = self.all().into_iter().filter(|app| app.is_up.load(Ordering::Acquire));
        up.map(|app| app.state.db.clone()).collect()
    }

    /// Removes what is old from memory.
    pub fn tidy(&self) {
        for app in self.all() {
            app.state.rates.tidy();
        }
    }

    /// Stops the streams of all cells, and ends the reading.
    pub fn stop(&self) {
        self.stop.cancel();
        for app in self.all() {
            app.state.streams.hub.stop();
        }
    }

    fn all(&self) -> Vec<Arc<App>> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        running.values().cloned().collect()
    }

    async fn keep_reading(self: &Arc<Self>, every: Duration) {
        let mut tick = interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut outage = FailureLog::of("reading where projects live");
        loop {
            tick.tick().await;
            let asked_at = Instant::now();
            let pool = &self.directory.db.pool_sqlx;
            match timeout(QUERY_LIMIT, cells::changes(pool, self.placements.version())).await {
                Ok(Ok(changes)) => {
                    outage.over();
                    for (name, url_from) in &changes.cells {
                        self.open(name, url_from).await;
                    }
                    for (workspace, cell) in self.placements.apply(changes.placements, asked_at) {
                        self.send_away(workspace, cell.as_deref());
                    }
                    self.status.counted(&self.placements.counts());
                }
                Ok(Err(error)) => outage.failed(ErrorChain(&error)),
                Err(_) => outage.failed(format!("no response within {} s", QUERY_LIMIT.as_secs())),
            }
        }
    }

    /// Asks the readers of a workspace that has left a cell to reconnect.
    fn send_away(&self, workspace: Uuid, cell: Option<&str>) {
        let Some(name) = cell else {
            return self.directory.streams.hub.send_away(workspace);
        };
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(app) = running.get(name) {
            app.state.streams.hub.send_away(workspace);
        }
    }

    /// Starts the application of a cell that has none yet.
    async fn open(self: &Arc<Self>, name: &str, url_from: &str) {
        let is_open = {
            let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
            running.contains_key(name)
        };
        if is_open {
            return;
        }
        let args = match self.args(url_from) {
            Ok(args) => args,
            Err(why) => return self.status.saw(name, Some(why)),
        };
        let app = match self.app(&args).await {
            Ok(app) => Arc::new(app),
            Err(why) => return self.status.saw(name, Some(why)),
        };
        self.status.saw(name, Some("it was not reached yet".to_owned()));
        info!(cell = name, "serving the projects of a cell");
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        running.insert(Arc::from(name), app.clone());
        drop(running);
        let (apps, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            let stop = apps.stop.clone();
            stop.run_until_cancelled(apps.look_after(&name, &app, &args)).await;
        });
    }

    /// The settings of a cell's database: those of the directory, with the cell's URL.
    fn args(&self, url_from: &str) -> Result<DatabaseArgs, String> {
        let source = url_from.parse::<UrlSource>();
        let source = source.map_err(|error| ErrorChain(&error).to_string())?;
        let database_url = source.read().map_err(|error| ErrorChain(&error).to_string())?;
        Ok(DatabaseArgs {
            database_url,
            listen_url: None,
            db_hot_url: None,
            db_pooler: Pooler::None,
            db_password_file: None,
            db_password_command: None,
            ..self.directory.config.database.clone()
        })
    }

    async fn app(&self, args: &DatabaseArgs) -> Result<App, String> {
        let db = Db::connect_lazy(args, "rejoin-api", Role::App).map_err(|error| ErrorChain(&error).to_string())?;
        let bus = wakeup::start(args, &db).await;
        let bus = bus.map_err(|error| ErrorChain(&error).to_string())?;
        let directory = &self.directory;
        let means = Means {
            // Identity is the directory's.
            oidc: None,
            commands: directory.commands.clone(),
            sources: directory.sources.clone(),
            webhooks: directory.webhooks.clone(),
            extensions: directory.extensions.clone(),
            files: directory.files.clone(),
            archive: directory.streams.archive.clone(),
            telemetry: directory.telemetry.clone(),
        };
        let state = AppState::of_cell(directory, args.clone(), means, db, bus);
        Ok(App {
            router: routes::router(state.clone()),
            state,
            is_up: AtomicBool::new(false),
        })
    }

    /// Looks at a cell again and again, and mirrors there what is new of the identity of its workspaces.
    async fn look_after(&self, name: &str, app: &App, args: &DatabaseArgs) {
        let mut tick = interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Of workspaces: which version the cell has. None: it was not asked yet.
        let mut mirrored: Option<HashMap<Uuid, i64>> = None;
        let mut outage = FailureLog::of("mirroring identity to a cell");
        let mut was_up: Option<bool> = None;
        loop {
            tick.tick().await;
            let problem = look(app, args, &mut mirrored).await;
            let is_up = problem.is_none();
            if was_up.replace(is_up) != Some(is_up) {
                match &problem {
                    Some(why) => warn!(cell = name, error = why, "a cell is down; its projects get 503"),
                    None => info!(cell = name, "a cell is up"),
                }
            }
            app.is_up.store(is_up, Ordering::Release);
            self.status.saw(name, problem);
            let Some(versions) = mirrored.as_mut().filter(|_| is_up) else {
                continue;
            };
            let there = self.placements.on(name);
            let is_newer = |(id, version): &(Uuid, i64)| versions.get(id).is_none_or(|known| known < version);
            let newer: Vec<(Uuid, i64)> = there.into_iter().filter(is_newer).take(MIRRORED).collect();
            for (workspace, version) in newer {
                let (directory, cell) = (&self.directory.db.pool_sqlx, &app.state.db.pool_sqlx);
                match timeout(QUERY_LIMIT, mirror::refresh(directory, cell, workspace, version)).await {
                    Ok(Ok(())) => {
                        versions.insert(workspace, version);
                        outage.over();
                    }
                    Ok(Err(error)) => outage.failed(ErrorChain(&error)),
                    Err(_) => outage.failed(format!("no response within {} s", QUERY_LIMIT.as_secs())),
                }
            }
        }
    }
}

/// Returns why a cell can't be used. The first time, it must have all that a database of an API needs.
async fn look(app: &App, args: &DatabaseArgs, mirrored: &mut Option<HashMap<Uuid, i64>>) -> Option<String> {
    let late = || format!("no response within {} s", QUERY_LIMIT.as_secs());
    let pool = &app.state.db.pool_sqlx;
    if mirrored.is_some() {
        let asked = timeout(QUERY_LIMIT, sqlx::query("select 1").execute(pool)).await;
        return match asked {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(ErrorChain(&error).to_string()),
            Err(_) => Some(late()),
        };
    }
    match timeout(QUERY_LIMIT, Db::inspect(args, "rejoin-api", Role::App)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Some(ErrorChain(&error).to_string()),
        Err(_) => return Some(late()),
    }
    match timeout(QUERY_LIMIT, mirror::versions(pool)).await {
        Ok(Ok(versions)) => {
            *mirrored = Some(versions.into_iter().collect());
            None
        }
        Ok(Err(error)) => Some(ErrorChain(&error).to_string()),
        Err(_) => Some(late()),
    }
}
