//! Projects on several databases: an API in front of two, a worker on each, and moves between them. (In this program, since no test of it counts
//! the statements of a transaction: an API with cells adds one to those of its process.)

mod catalogue;
mod commands;
mod identity;
mod load;
mod moves;
mod outages;
mod statements;

use std::path::PathBuf;
use std::time::Duration;

use rejoin_api::ApiConfig;
use rejoin_embeddings::EmbeddingsArgs;
use rejoin_identity::cells::moving::{self, Databases, Limits, Move, Phase};
use rejoin_identity::cells::{self, UrlSource};
use rejoin_model_client::name::ModelSettings;
use rejoin_runs::builtin;
use rejoin_tests::app::{AppOptions, LEASE, TestApp, Worker};
use rejoin_tests::support::{self, TestDatabase};
use rejoin_worker::WorkerConfig;
use uuid::Uuid;

/// The name of the second database.
const CELL: &str = "b";

/// A file with the URL of a cell; removed with its handle.
struct UrlFile(PathBuf);

impl UrlFile {
    fn new(url: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rejoin-cell-{}", Uuid::now_v7()));
        std::fs::write(&path, url).expect("a file");
        Self(path)
    }

    fn source(&self) -> UrlSource {
        UrlSource::File(self.0.clone())
    }
}

impl Drop for UrlFile {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An API with cells, its directory with a worker, and a cell with a worker.
struct Fleet {
    app: TestApp,
    cell: TestDatabase,
    url: UrlFile,
    _worker: Worker,
}

fn with_cells(config: &mut ApiConfig) {
    config.cells.cells = true;
    config.cells.cells_refresh_ms = 50;
    config.cells.cells_stale_ms = 2_000;
}

/// A worker that serves a cell.
fn worker(app: &TestApp, cell: &TestDatabase) -> Worker {
    let mut config = WorkerConfig {
        slots: 20,
        ..WorkerConfig::new(&cell.url)
    };
    config.database = cell.args();
    config.lease_ms = LEASE.as_millis() as u64;
    config.heartbeat_ms = config.lease_ms / 3;
    config.embeddings = EmbeddingsArgs::off();
    let models = ModelSettings::openai_compatible(app.model.base_url());
    Worker::start(config, models, builtin::tools(), None, None)
}

/// Makes a database a cell of the directory.
async fn add(directory: &TestDatabase, url: &UrlFile) {
    let mut connection = directory.pool.acquire().await.expect("a connection");
    cells::add(&mut connection, CELL, &url.source()).await.expect("a cell");
}

fn limits() -> Limits {
    Limits {
        // Longer than the interval in which the API reads.
        settle: Duration::from_millis(400),
        wait: Duration::from_secs(20),
        interrupt: false,
    }
}

impl Fleet {
    async fn start() -> Self {
        Self::with(support::database().await).await
    }

    /// Starts one with this cell.
    async fn with(cell: TestDatabase) -> Self {
        let options = AppOptions {
            api: with_cells,
            ..AppOptions::default()
        };
        let app = TestApp::with(options).await;
        let url = UrlFile::new(&cell.url);
        add(&app.db, &url).await;
        let worker = worker(&app, &cell);
        let fleet = Self {
            app,
            cell,
            url,
            _worker: worker,
        };
        fleet.wait_for_cell("ok").await;
        fleet
    }

    /// Waits until the API reports this status of the cell.
    async fn wait_for_cell(&self, status: &str) {
        wait_for_cell(&self.app, status).await;
    }

    fn databases(&self, moved: &Move) -> Databases {
        let of = |cell: &Option<String>| match cell {
            Some(_) => self.cell.pool.clone(),
            None => self.app.db.pool.clone(),
        };
        Databases {
            directory: self.app.db.pool.clone(),
            from: of(&moved.from),
            to: of(&moved.to),
        }
    }

    /// Moves the test's project to the cell, or back to the directory.
    async fn move_to(&self, cell: Option<&str>) -> Move {
        let directory = &self.app.db.pool;
        let mut moved = moving::begin(directory, self.app.db.workspace_id, cell)
            .await
            .expect("a move");
        let databases = self.databases(&moved);
        while moved.phase != Phase::Moved {
            moving::step(&databases, &limits(), &mut moved).await.expect("a step");
        }
        self.wait_until_asked().await;
        moved
    }

    /// Waits until the API asks the database to which the project was moved. The old one refuses requests until then.
    async fn wait_until_asked(&self) {
        let client = self.app.client();
        support::wait_for("the API to ask the other database", async || {
            (client.get("/api/conversations").await.0 == 200).then_some(())
        })
        .await;
    }
}

async fn wait_for_cell(app: &TestApp, status: &str) {
    support::wait_for("the state of the cell", async || {
        let (code, health) = app.client().get("/readyz").await;
        assert_eq!(code, 200, "one cell does not decide: {health}");
        (health["cells"][0]["status"] == status).then_some(())
    })
    .await;
}

/// The number of a project's rows in a table.
async fn rows(db: &TestDatabase, table: &'static str, workspace_id: Uuid) -> i64 {
    let statement = format!("select count(*) from {table} where project_id = $1");
    sqlx::query_scalar(sqlx::AssertSqlSafe(statement))
        .bind(workspace_id)
        .fetch_one(&db.pool)
        .await
        .expect("a count")
}
