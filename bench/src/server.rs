//! The private PostgreSQL of a scenario, durable as in production, and fresh migrated databases on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use rejoin_cli::dev::postgres::{PostgresOptions, PrivatePostgres};
use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_identity::auth;
use rejoin_identity::workspaces;
use rejoin_types::access::Scope;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;

/// Differences from PostgreSQL's defaults: memory of a small server, and room for a long run between checkpoints.
/// Durability (fsync, synchronous_commit, full_page_writes) is PostgreSQL's default.
const SETTINGS: [(&str, &str); 4] = [
    ("shared_buffers", "1GB"),
    ("max_wal_size", "8GB"),
    ("max_connections", "300"),
    ("checkpoint_timeout", "15min"),
];
const TEMPLATE: &str = "bench_template";

/// Cheap to clone. Stopped by [`Server::stop`], or with its last clone.
#[derive(Clone)]
pub struct Server {
    postgres: Arc<PrivatePostgres>,
    next: Arc<AtomicU32>,
}

/// A migrated database with a project, a user and a key.
#[derive(Clone)]
pub struct Database {
    pub name: String,
    pub url: String,
    pub db: Db,
    pub workspace_id: Uuid,
    pub user_id: Uuid,
    pub api_key: String,
}

impl Server {
    pub async fn start() -> Result<Self> {
        Self::with(&[]).await
    }

    /// One that has pg_stat_statements, which other scenarios would pay for.
    pub async fn counting_statements() -> Result<Self> {
        let settings = &[
            ("shared_preload_libraries", "pg_stat_statements"),
            ("pg_stat_statements.track_planning", "on"),
        ];
        Self::with(settings)
            .await
            .context("this PostgreSQL may be without pg_stat_statements (Debian: postgresql, its contrib modules)")
    }

    async fn with(more: &'static [(&'static str, &'static str)]) -> Result<Self> {
        let options = PostgresOptions {
            durable: true,
            extra_settings: SETTINGS
                .iter()
                .chain(more)
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            ..PostgresOptions::ephemeral()
        };
        let postgres = PrivatePostgres::start(options)
            .await
            .context("starting a private PostgreSQL")?;
        let server = Self {
            postgres: Arc::new(postgres),
            next: Arc::new(AtomicU32::new(1)),
        };
        server.admin(&format!("create database {TEMPLATE}")).await?;
        rejoin_cli::migrate::up(&server.postgres.admin_url(TEMPLATE))
            .await
            .context("migrating")?;
        Ok(server)
    }

    /// A fresh database.
    pub async fn database(&self) -> Result<Database> {
        let name = format!("bench_{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.admin(&format!(
            "create database {name} template {TEMPLATE} strategy file_copy"
        ))
        .await?;
        let url = self.postgres.admin_url(&name);
        let arguments = DatabaseArgs::new(&url);
        let db = Db::connect_lazy(&arguments, "rejoin-bench", Role::Login)?;
        let mut connection = db.pool_sqlx.acquire().await?;
        let workspace_id = workspaces::create(&mut connection, "bench").await?;
        let user_id = workspaces::ensure_user(&mut connection, "bench@example.org").await?;
        workspaces::add_member(&mut connection, workspace_id, user_id, workspaces::Role::Owner).await?;
        let (_, api_key) =
            auth::create_key(&mut connection, user_id, Some(workspace_id), "bench", &Scope::ALL, None).await?;
        drop(connection);
        Ok(Database {
            name,
            url,
            db,
            workspace_id,
            user_id,
            api_key,
        })
    }

    /// The URL of a database with this name, for a superuser.
    pub fn url(&self, name: &str) -> String {
        self.postgres.admin_url(name)
    }

    /// Drops a database with its content, so that it is not vacuumed during the next measurement.
    pub async fn drop(&self, database: Database) -> Result<()> {
        database.db.pool_sqlx.close().await;
        database.db.pool_pg.close();
        self.admin(&format!("drop database {} with (force)", database.name))
            .await
    }

    /// The server's own process; its children are the backends.
    pub fn pid(&self) -> Option<u32> {
        self.postgres.pid()
    }

    /// Flushes everything to disk: a checkpoint during a measurement would distort it.
    pub async fn settle(&self) -> Result<()> {
        self.admin("checkpoint").await
    }

    pub async fn stop(&self) -> Result<()> {
        self.postgres.stop().await
    }

    /// Runs one statement, outside of all measured databases.
    pub async fn admin(&self, sql: &str) -> Result<()> {
        let mut connection = PgConnection::connect(&self.postgres.url()).await?;
        sqlx::query(AssertSqlSafe(sql))
            .execute(&mut connection)
            .await
            .with_context(|| sql.to_owned())?;
        connection.close().await?;
        Ok(())
    }
}
