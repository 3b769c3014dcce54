//! The databases of a queue: a template after its `setup`, templates with many rows, and a fresh copy of one of them
//! for each phase.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::driver::Driver;
use super::peers::{Fill, Way};
use crate::server::Server;

/// The content of a fresh database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    Empty,
    /// Many waiting jobs.
    Queued,
    /// Many finished jobs.
    Finished,
}

/// Timeout of reading a table while it is drained, in PostgreSQL's notation.
const LOOK_LIMIT: &str = "3s";
/// Timeout of a worker that creates finished rows.
const WORKED_LIMIT: std::time::Duration = std::time::Duration::from_secs(120);

/// A queue in its database.
pub struct Place<'a> {
    pub server: &'a Server,
    pub driver: Driver,
    /// Number of rows in filled templates.
    pub rows: u64,
}

impl Place<'_> {
    fn name(&self) -> String {
        self.driver.spec.database()
    }

    fn template_name(&self, template: Template) -> String {
        let suffix = match template {
            Template::Empty => "t",
            Template::Queued => "t_queued",
            Template::Finished => "t_finished",
        };
        format!("{}_{suffix}", self.name())
    }

    fn fill(&self, template: Template) -> Option<&Fill> {
        match template {
            Template::Empty => None,
            Template::Queued => self.driver.spec.queued.as_ref(),
            Template::Finished => self.driver.spec.finished.as_ref(),
        }
    }

    /// Creates the template unless it exists.
    pub async fn prepare(&self, template: Template) -> Result<()> {
        if self.there(&self.template_name(template)).await? {
            return Ok(());
        }
        let name = self.name();
        match self.fill(template) {
            None if template == Template::Empty => {
                self.drop().await?;
                self.server.admin(&format!("create database {name}")).await?;
                self.driver.setup().await?;
            }
            None => bail!("{} has no such rows", self.driver.spec.name),
            Some(fill) => {
                self.fresh(Template::Empty).await?;
                self.fill_by(fill).await.with_context(|| format!("filling {name}"))?;
            }
        }
        self.settle().await?;
        let template = self.template_name(template);
        self.server
            .admin(&format!("alter database {name} rename to {template}"))
            .await
    }

    /// Replaces the database by a new copy of the template.
    pub async fn fresh(&self, template: Template) -> Result<()> {
        self.drop().await?;
        let (name, template) = (self.name(), self.template_name(template));
        // Copied as files, with a checkpoint before and after: no writes are pending during a measurement.
        self.server
            .admin(&format!(
                "create database {name} template {template} strategy file_copy"
            ))
            .await
    }

    pub async fn drop(&self) -> Result<()> {
        self.server
            .admin(&format!("drop database if exists {} with (force)", self.name()))
            .await
    }

    /// Updates statistics, and flushes everything to disk.
    pub async fn settle(&self) -> Result<()> {
        self.connect()
            .await?
            .execute("vacuum analyze")
            .await
            .context("vacuum")?;
        self.server.settle().await
    }

    pub async fn connect(&self) -> Result<PgConnection> {
        PgConnection::connect(&self.driver.url)
            .await
            .context("connecting to what is measured")
    }

    /// A connection for looking at the table.
    pub async fn observer(&self) -> Result<Observer> {
        let mut connection = self.connect().await?;
        connection
            .execute(AssertSqlSafe(format!("set statement_timeout = '{LOOK_LIMIT}'")))
            .await?;
        let done = self.driver.spec.done.clone();
        Ok(Observer { connection, done })
    }

    async fn there(&self, name: &str) -> Result<bool> {
        let mut connection = PgConnection::connect(&self.server.url("postgres")).await?;
        let there = sqlx::query_scalar("select exists (select from pg_database where datname = $1)");
        Ok(there.bind(name).fetch_one(&mut connection).await?)
    }

    async fn fill_by(&self, fill: &Fill) -> Result<()> {
        match fill {
            Fill::By(way) => {
                self.driver.bulk(self.rows).await?;
                if *way == Way::Worked {
                    // As vacuum would leave it after such a burst.
                    self.settle().await?;
                    let mut worker = self.driver.worker("work", &[])?;
                    worker.reaches(self.rows, WORKED_LIMIT).await;
                    worker.stop().await;
                    let left = self.observer().await?.remaining().await?;
                    if left > 0 {
                        bail!("{left} jobs were not finished by the worker");
                    }
                }
            }
            Fill::Copies(tables) => {
                // Leaves one or a few jobs to copy.
                self.driver.single(0.001, 1).await?;
                let mut connection = self.connect().await?;
                for (table, differing) in tables {
                    copy_rows(&mut connection, table, differing, self.rows).await?;
                }
            }
        }
        Ok(())
    }
}

/// Adds rows like the table's first one or, if it is empty, rows of the differing columns. Identity columns number
/// themselves.
async fn copy_rows(
    connection: &mut PgConnection,
    table: &str,
    differing: &BTreeMap<String, String>,
    rows: u64,
) -> Result<()> {
    let columns: Vec<String> = sqlx::query_scalar(
        "select column_name::text from information_schema.columns
         where (quote_ident(table_schema) || '.' || quote_ident(table_name))::regclass = $1::regclass
           and is_generated = 'NEVER' and is_identity = 'NO' and coalesce(column_default, '') not like 'nextval%'
         order by ordinal_position",
    )
    .bind(table)
    .fetch_all(&mut *connection)
    .await?;
    let first = sqlx::query(AssertSqlSafe(format!("select from {table} limit 1")));
    let empty = first.fetch_optional(&mut *connection).await?.is_none();
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for column in columns {
        let differs = differing.get(&column).cloned();
        // Defaults fill the rest of an empty table's rows.
        let copied = (!empty).then(|| format!("first.\"{column}\""));
        if let Some(value) = differs.or(copied) {
            names.push(format!("\"{column}\""));
            values.push(value);
        }
    }
    let (names, values) = (names.join(", "), values.join(", "));
    let sql = format!(
        "insert into {table} ({names}) select {values}
         from generate_series(1, {rows}) g left join (select * from {table} limit 1) first on true"
    );
    let filled = sqlx::query(AssertSqlSafe(sql)).execute(connection).await;
    filled.map(drop).with_context(|| format!("filling {table}"))
}

/// Observes a queue's table while its workers run.
pub struct Observer {
    connection: PgConnection,
    done: String,
}

impl Observer {
    /// Counts unfinished rows.
    pub async fn remaining(&mut self) -> Result<i64> {
        let done = sqlx::query_scalar(AssertSqlSafe(self.done.as_str()))
            .fetch_one(&mut self.connection)
            .await;
        done.with_context(|| self.done.clone())
    }

    /// Bytes of WAL written by the server so far.
    pub async fn wal_bytes(&mut self) -> Result<i64> {
        let position = sqlx::query_scalar("select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint");
        Ok(position.fetch_one(&mut self.connection).await?)
    }
}
