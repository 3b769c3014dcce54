//! Databases used by tests as data sources: PostgreSQL with a read-only role, SQLite, MariaDB, and MongoDB's protocol,
//! as children of the test. `scripts/setup-test.sh` installs them; without its program a test fails in CI and is
//! skipped elsewhere.

use std::path::PathBuf;
use std::process::Stdio;

use rejoin_data_sources::SourceArgs;
use rejoin_integrations::data_sources::{Content, Kind, Limits, Settings};
use rejoin_worker::WorkerConfig;
use serde_json::json;
use sqlx::AssertSqlSafe;
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::app;
use crate::needs;
use crate::support::{self, TestDatabase, wait_for};

/// The settings of test processes: everything on this machine is allowed.
pub fn args() -> SourceArgs {
    SourceArgs {
        source_hosts: vec!["*".to_owned()],
        source_folders: vec![std::env::temp_dir()],
        source_duckdb: duckdb(),
        source_sqlite_program: Some(app::binary()),
        ..SourceArgs::default()
    }
}

/// DuckDB's program. None: it is not installed.
pub fn duckdb() -> Option<PathBuf> {
    let program = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../.cache/duckdb/duckdb_cli/duckdb"
    ));
    program.is_file().then_some(program)
}

/// Allows a worker to query them, and to decrypt secrets like the tests' API.
pub fn allow(config: &mut WorkerConfig) {
    config.sources = args();
    config.mcp.keys.secret_keys_file = Some(secret_keys_file().into());
}

/// Returns a file with the master key of tests' source secrets.
pub fn secret_keys_file() -> PathBuf {
    let path = std::env::temp_dir().join(format!("rejoin-source-keys-{}", std::process::id()));
    std::fs::write(&path, crate::mcp::SECRET_KEYS).expect("a file with a key");
    path
}

/// Returns a read-only source with these settings.
pub fn content(kind: Kind, settings: Settings) -> Content {
    Content {
        name: "shop".to_owned(),
        kind,
        settings,
        limits: Limits::default(),
        read_only: true,
    }
}

/// The test's own database with a table `orders`, and a role that may only read it.
pub async fn postgresql(db: &TestDatabase) -> Settings {
    let reader = format!("reader_{}", Uuid::now_v7().simple());
    let setup = format!(
        "create schema shop; create table shop.orders (id int primary key, item text, at timestamptz default now());
         insert into shop.orders select n, 'thing ' || n from generate_series(1, 500) n;
         create sequence shop.numbers;
         create role {reader} login; grant usage on schema shop to {reader}; grant select on shop.orders to {reader};
         alter role {reader} set search_path = shop, public"
    );
    sqlx::raw_sql(AssertSqlSafe(setup))
        .execute(&db.pool)
        .await
        .expect("a table and a reader");
    let name: String = sqlx::query_scalar("select current_database()::text")
        .fetch_one(&db.pool)
        .await
        .expect("the database's name");
    Settings {
        host: Some(support::server().await.socket_dir().display().to_string()),
        database: Some(name),
        user: Some(reader),
        ..Settings::default()
    }
}

/// The folder of a project's files, removed when dropped.
pub struct Folder(pub PathBuf, pub Uuid);

impl Folder {
    /// For a new project.
    pub fn new() -> Self {
        Self::of(Uuid::now_v7())
    }

    pub fn of(workspace_id: Uuid) -> Self {
        let path = std::env::temp_dir().join(workspace_id.to_string());
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path, workspace_id)
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Remains are removed with the machine's temporary files.
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

fn installed(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .chain([PathBuf::from("/usr/sbin")])
        .any(|folder| folder.join(program).is_file());
    if !found {
        needs::skip(&format!(
            "{program} is not installed: scripts/setup-test.sh installs it"
        ));
    }
    found
}

/// A private MariaDB on a socket. `orders` is in its database `shop`; `reader` may only read that.
pub struct MariaDb {
    folder: Folder,
    // Killed when it is dropped.
    _server: Child,
}

impl MariaDb {
    /// None: it is not installed.
    pub async fn start() -> Option<Self> {
        if !installed("mariadbd") || !installed("mariadb-install-db") {
            return None;
        }
        let folder = Folder::new();
        let data = folder.0.join("data");
        let is_root = is_root();
        let user: &[&str] = if is_root { &["--user=mysql"] } else { &[] };
        if is_root {
            let chown = Command::new("chown")
                .arg("mysql")
                .arg(&folder.0)
                .status()
                .await
                .expect("chown");
            assert!(chown.success());
        }
        let made = Command::new("mariadb-install-db")
            .args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ])
            .args(user)
            .arg(format!("--datadir={}", data.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await
            .expect("mariadb-install-db");
        assert!(made.success(), "mariadb-install-db failed");
        let path = std::env::join_paths(
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).chain([PathBuf::from("/usr/sbin")]),
        )
        .expect("a path");
        let server = Command::new("mariadbd")
            .env("PATH", path)
            .args([
                "--no-defaults",
                "--skip-networking",
                "--innodb-buffer-pool-size=16M",
                "--innodb-flush-log-at-trx-commit=0",
            ])
            .args(user)
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", folder.0.join("socket").display()))
            .arg(format!("--pid-file={}", folder.0.join("pid").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("mariadbd");
        let this = Self {
            folder,
            _server: server,
        };
        let setup = "create database shop; create table shop.orders (id int primary key, item varchar(50), price decimal(10, 2), at datetime);
             insert into shop.orders select seq, concat('thing ', seq), seq / 4, '2026-01-02 03:04:05' from shop.seq_1_to_500;
             create user reader@localhost; grant select on shop.orders to reader@localhost;";
        wait_for("MariaDB to answer", async || this.sql(setup).await.then_some(())).await;
        Some(this)
    }

    /// Runs as its root, with its own client.
    pub async fn sql(&self, sql: &str) -> bool {
        self.output(sql).await.is_some()
    }

    /// Returns its output; None: it failed.
    pub async fn output(&self, sql: &str) -> Option<String> {
        let ran = Command::new("mariadb")
            .args([
                "--no-defaults",
                "--user=root",
                "--batch",
                "--skip-column-names",
                "--execute",
                sql,
            ])
            .arg(format!("--socket={}", self.folder.0.join("socket").display()))
            .output()
            .await
            .expect("the program mariadb");
        ran.status
            .success()
            .then(|| String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    pub fn settings(&self) -> Settings {
        Settings {
            host: Some(self.folder.0.join("socket").display().to_string()),
            database: Some("shop".to_owned()),
            user: Some("reader".to_owned()),
            ..Settings::default()
        }
    }
}

/// Database servers refuse to run as root.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|itself| std::os::unix::fs::MetadataExt::uid(&itself) == 0)
}

/// A fake of another kind of database, on a local port.
pub struct StandIn {
    pub port: u16,
    _folder: Folder,
    // Killed when it is dropped.
    _server: Child,
}

impl StandIn {
    /// A fake MongoDB. None: it is not installed.
    pub async fn mongodb() -> Option<Self> {
        Self::start("bin/nx-27017", |port, folder| {
            let file = |name: &str| folder.join(name).display().to_string();
            vec![
                "--db".to_owned(),
                "memory".to_owned(),
                "-p".to_owned(),
                port.to_string(),
                "--log-file".to_owned(),
                file("log"),
                "--pid-file".to_owned(),
                file("pid"),
            ]
        })
        .await
    }

    /// A fake BigQuery. None: it is not installed.
    pub async fn bigquery() -> Option<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/source-servers/bigquery.py");
        Self::start("bin/python", |port, _| vec![script.to_owned(), port.to_string()]).await
    }

    /// Orders in BigQuery's `shop.orders`: customer, total.
    pub async fn bigquery_orders(&self, orders: &[(i64, i64)]) {
        let api = format!("http://127.0.0.1:{}/bigquery/v2/projects/acme/datasets", self.port);
        let http = reqwest::Client::new();
        let rows = orders
            .iter()
            .map(|(customer, total)| json!({"json": {"customer": customer, "total": total}}));
        for (path, body) in [
            (
                "",
                json!({"datasetReference": {"projectId": "acme", "datasetId": "shop"}}),
            ),
            (
                "/shop/tables",
                json!({"tableReference": {"projectId": "acme", "datasetId": "shop", "tableId": "orders"},
                    "schema": {"fields": [{"name": "customer", "type": "INTEGER"}, {"name": "total", "type": "INTEGER"}]}}),
            ),
            (
                "/shop/tables/orders/insertAll",
                json!({"rows": rows.collect::<Vec<_>>()}),
            ),
        ] {
            let made = http
                .post(format!("{api}{path}"))
                .json(&body)
                .send()
                .await
                .expect("an answer");
            assert!(
                made.status().is_success(),
                "{path}: {}",
                made.text().await.unwrap_or_default()
            );
        }
    }

    async fn start(program: &str, arguments: impl Fn(u16, &std::path::Path) -> Vec<String>) -> Option<Self> {
        let venv = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/source-servers/venv"));
        // The list of packages is written after all are installed.
        if !venv.with_file_name("requirements.txt").is_file() {
            needs::skip(
                "the stand-ins for MongoDB and BigQuery are not installed: scripts/setup-sources.sh installs them",
            );
            return None;
        }
        // A free port: the fakes don't report which port they use.
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))
            .and_then(|free| free.local_addr())
            .expect("a port")
            .port();
        let folder = Folder::new();
        let server = Command::new(venv.join(program))
            .args(arguments(port, &folder.0))
            .current_dir(&folder.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("a stand-in");
        wait_for("the stand-in to listen", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .ok()
                .map(|_| ())
        })
        .await;
        Some(Self {
            port,
            _folder: folder,
            _server: server,
        })
    }
}
