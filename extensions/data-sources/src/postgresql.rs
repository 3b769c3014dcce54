//! PostgreSQL. Reads use a cursor in a read-only transaction: declared by the extended protocol, which takes one
//! statement, and fetched in parts, so that the amount read does not depend on the statement's LIMIT. Called by
//! `sources`.
//!
//! - `cancel`  cancels abandoned queries
//! - `lookup`  resolves a query's names on the server
//! - `results` runs statements and reads their results
//!
//! Invariant: after each query the transaction is rolled back and the session's state discarded, or the connection is
//! closed.

use async_trait::async_trait;
use rejoin_egress::ssrf_guard::Hosts;
use rejoin_integrations::data_sources::{Kind, Settings};
use rejoin_secrets::Plaintext;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use self::cancel::CancelOnDrop;
use crate::idle_connections::IdleConnections;
use crate::source::{
    Access, Bounds, COLUMNS_MAX, Question, Rows, Source, SourceError, Table, Tested, no_table, table_schema,
};
use crate::transport::{self, Allowance, Metered};

mod cancel;
mod lookup;
mod results;

/// Timeout of waiting for another user's lock.
const LOCK_TIMEOUT_MS: u64 = 5_000;
/// Allowance besides a result's values, in bytes: names, types, notices.
const OVERHEAD_BYTES: u64 = 1024 * 1024;

pub struct Postgresql {
    settings: Settings,
    password: Option<Plaintext>,
    hosts: Hosts,
    idle: IdleConnections<Connection>,
    /// Limits of metadata queries.
    look: Bounds,
}

struct Connection {
    client: Client,
    allowance: Allowance,
}

impl Postgresql {
    pub fn new(settings: Settings, password: Option<Plaintext>, hosts: Hosts, look: Bounds) -> Self {
        Self {
            settings,
            password,
            hosts,
            idle: IdleConnections::default(),
            look,
        }
    }

    fn host(&self) -> &str {
        self.settings.host.as_deref().unwrap_or_default()
    }

    async fn wire(&self) -> Result<Box<dyn transport::Wire>, SourceError> {
        let port = self.settings.port_of(Kind::Postgresql);
        transport::connect(&self.hosts, self.host(), port, &format!(".s.PGSQL.{port}")).await
    }

    fn tls(&self) -> Result<Option<MakeRustlsConnect>, SourceError> {
        if self.settings.uses_tls() && !self.host().starts_with('/') {
            Ok(Some(MakeRustlsConnect::new(transport::tls_config()?)))
        } else {
            Ok(None)
        }
    }

    async fn connect(&self, database: &str) -> Result<Connection, SourceError> {
        let allowance = Allowance::new(OVERHEAD_BYTES);
        let wire = Metered::new(self.wire().await?, allowance.clone());
        let tls = self.tls()?;
        let mut config = Config::new();
        config
            .dbname(database)
            .user(self.settings.user.as_deref().unwrap_or_default())
            .application_name("rejoin")
            // Overrides the role's own settings.
            .options("-c standard_conforming_strings=on -c client_min_messages=error -c DateStyle=ISO -c IntervalStyle=iso_8601 -c bytea_output=hex")
            .ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        if let Some(password) = &self.password {
            config.password(password.expose());
        }
        let connecting = async {
            match tls {
                Some(mut tls) => {
                    let connector =
                        MakeTlsConnect::<Metered>::make_tls_connect(&mut tls, self.host()).map_err(|error| {
                            SourceError::Unreachable(format!("{} is not a valid TLS server name: {error}", self.host()))
                        })?;
                    signed_in(&config, wire, connector).await
                }
                None => signed_in(&config, wire, NoTls).await,
            }
        };
        let client = timeout(transport::CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| SourceError::Unreachable("the server does not respond".to_owned()))??;
        Ok(Connection { client, allowance })
    }

    /// Runs a query within a transaction that is rolled back, or committed if it may write. The connection is kept on
    /// success.
    async fn within<T>(
        &self,
        database: Option<&str>,
        access: Access,
        bounds: Bounds,
        ask: impl AsyncFnOnce(&Client) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let database = database.or(self.settings.database.as_deref()).unwrap_or_default();
        let connection = match self
            .idle
            .take(database)
            .filter(|connection| !connection.client.is_closed())
        {
            Some(connection) => connection,
            None => self.connect(database).await?,
        };
        connection
            .allowance
            .set((bounds.max_bytes as u64).saturating_mul(2) + OVERHEAD_BYTES);
        let cancel = CancelOnDrop::new(self, connection.client.cancel_token())?;
        let begin = format!(
            "begin transaction {}; set local statement_timeout = {}; set local lock_timeout = {LOCK_TIMEOUT_MS}; \
             set local idle_in_transaction_session_timeout = {}",
            match access {
                Access::Reads => "read only",
                Access::Writes => "read write",
            },
            bounds.timeout.as_millis().max(1),
            bounds.timeout.as_millis() + 5_000,
        );
        let client = &connection.client;
        let asking = async {
            client
                .batch_execute(&begin)
                .await
                .map_err(|error| self.failure(&error, &bounds))?;
            let answer = ask(client).await?;
            let end = match access {
                Access::Reads => "rollback",
                Access::Writes => "commit",
            };
            client
                .batch_execute(end)
                .await
                .map_err(|error| self.failure(&error, &bounds))?;
            Ok(answer)
        };
        let answered = asking.await;
        if connection.allowance.is_used_up() {
            return Err(SourceError::too_large(bounds.max_bytes));
        }
        cancel.disarm();
        let tidied = client
            .batch_execute(if answered.is_ok() { "discard all" } else { "rollback" })
            .await;
        if answered.is_ok() && tidied.is_ok() {
            self.idle.put(database, connection);
        }
        answered
    }

    fn failure(&self, error: &tokio_postgres::Error, bounds: &Bounds) -> SourceError {
        match error.as_db_error() {
            // query_canceled: by statement_timeout, as nothing else cancels it.
            Some(reported) if reported.code().code() == "57014" => {
                SourceError::TimedOut(u64::try_from(bounds.timeout.as_millis()).unwrap_or(u64::MAX))
            }
            Some(reported) => {
                let hint = reported.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                SourceError::Failed(format!("{}{hint}", reported.message()))
            }
            None => SourceError::Unreachable(error.to_string()),
        }
    }

    /// Returns the rows of a metadata query.
    async fn rows(
        &self,
        database: Option<&str>,
        sql: &str,
        argument: Option<&str>,
    ) -> Result<Vec<tokio_postgres::Row>, SourceError> {
        self.within(database, Access::Reads, self.look, async |client| {
            let rows = match argument {
                Some(argument) => client.query(sql, &[&argument]).await,
                None => client.query(sql, &[]).await,
            };
            rows.map_err(|error| self.failure(&error, &self.look))
        })
        .await
    }

    /// Refuses names that resolve to a function of the database's own.
    async fn look_up(&self, client: &Client, question: &Question<'_>) -> Result<(), SourceError> {
        lookup::check(client, question.query)
            .await
            .map_err(|error| self.failure(&error, &question.bounds))?
    }
}

async fn signed_in<T>(config: &Config, wire: Metered, tls: T) -> Result<Client, SourceError>
where
    T: TlsConnect<Metered>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect_raw(wire, tls).await.map_err(|error| {
        let reported = match error.as_db_error() {
            Some(reported) => reported.message().to_owned(),
            None => match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            },
        };
        SourceError::Unreachable(reported)
    })?;
    // Ends with the client.
    tokio::spawn(connection);
    Ok(client)
}

/// Returns whether it runs without a cursor.
fn runs_without_cursor(query: &str) -> bool {
    let first = query
        .trim_start()
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default();
    first.eq_ignore_ascii_case("explain") || first.eq_ignore_ascii_case("show")
}

#[async_trait]
impl Source for Postgresql {
    async fn test(&self) -> Result<Tested, SourceError> {
        const ABOUT: &str = "
            select version(),
                   (select rolsuper from pg_roles where rolname = current_user),
                   has_database_privilege(current_database(), 'CREATE'),
                   exists (select from information_schema.role_table_grants
                           where grantee in (current_user, 'PUBLIC') and privilege_type in ('INSERT', 'UPDATE', 'DELETE')
                             and table_schema not in ('pg_catalog', 'information_schema'))";
        let rows = self.rows(None, ABOUT, None).await?;
        let Some(row) = rows.first() else {
            return Ok(Tested::default());
        };
        let mut warnings = Vec::new();
        let is = |at: usize| row.try_get::<_, Option<bool>>(at).ok().flatten().unwrap_or(false);
        if is(1) {
            warnings.push(
                "its user is a superuser and can read files and run programs on the server; use a user with \
                read privileges only"
                    .to_owned(),
            );
        } else if is(2) || is(3) {
            warnings.push("its user has write privileges; use a user with read privileges only".to_owned());
        }
        Ok(Tested {
            server: row.try_get(0).unwrap_or_default(),
            warnings,
        })
    }

    async fn databases(&self) -> Result<Vec<String>, SourceError> {
        const DATABASES: &str = "
            select datname::text from pg_database
            where not datistemplate and datallowconn and has_database_privilege(oid, 'CONNECT')
            order by datname limit 5000";
        let rows = self.rows(None, DATABASES, None).await?;
        Ok(rows.iter().filter_map(|row| row.try_get(0).ok()).collect())
    }

    async fn tables(&self, database: Option<&str>) -> Result<Vec<Table>, SourceError> {
        const TABLES: &str = "
            select case when n.nspname = 'public' then quote_ident(c.relname)
                        else quote_ident(n.nspname) || '.' || quote_ident(c.relname) end,
                   case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' else 'table' end,
                   c.reltuples::bigint
            from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
              and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg_toast%' and n.nspname not like 'pg_temp%'
              and has_schema_privilege(n.oid, 'USAGE') and has_table_privilege(c.oid, 'SELECT')
            order by n.nspname, c.relname limit 5000";
        let rows = self.rows(database, TABLES, None).await?;
        let table = |row: &tokio_postgres::Row| {
            Some(Table {
                name: row.try_get(0).ok()?,
                kind: row.try_get(1).ok()?,
                rows: row.try_get::<_, i64>(2).ok().and_then(|rows| u64::try_from(rows).ok()),
            })
        };
        Ok(rows.iter().filter_map(table).collect())
    }

    async fn schema(&self, database: Option<&str>, table: &str) -> Result<Value, SourceError> {
        // `to_regclass` resolves the name like a query.
        const COLUMNS: &str = "
            select a.attname::text, format_type(a.atttypid, a.atttypmod), not a.attnotnull,
                   coalesce(a.attnum = any (k.conkey), false), col_description(a.attrelid, a.attnum),
                   (select string_agg(r.confrelid::regclass::text, ', ') from pg_constraint r
                    where r.conrelid = a.attrelid and r.contype = 'f' and a.attnum = any (r.conkey))
            from pg_attribute a
            left join pg_constraint k on k.conrelid = a.attrelid and k.contype = 'p'
            where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
            order by a.attnum limit 1001";
        let rows = self.rows(database, COLUMNS, Some(table)).await?;
        if rows.is_empty() {
            return Err(no_table(table));
        }
        debug_assert!(rows.len() <= COLUMNS_MAX + 1);
        let column = |row: &tokio_postgres::Row| {
            let text = |at: usize| row.try_get::<_, Option<String>>(at).ok().flatten();
            let is = |at: usize| row.try_get::<_, bool>(at).unwrap_or(false);
            json!({
                "name": text(0), "type": text(1), "nullable": is(2), "primaryKey": is(3), "comment": text(4), "references": text(5),
            })
        };
        Ok(table_schema(table, rows.iter().map(column).collect()))
    }

    async fn execute(&self, question: &Question<'_>) -> Result<Rows, SourceError> {
        let without_cursor = runs_without_cursor(question.query);
        self.within(question.database, question.access, question.bounds, async |client| {
            if question.access == Access::Reads {
                self.look_up(client, question).await?;
            }
            match question.access {
                Access::Writes if !without_cursor => self.write(client, question).await,
                Access::Reads if !without_cursor => self.fetch(client, question).await,
                Access::Reads | Access::Writes => self.text_rows(client, question.query, question.bounds).await,
            }
        })
        .await
    }

    async fn explain(&self, question: &Question<'_>) -> Result<Value, SourceError> {
        let explained = format!("explain (format json) {}", question.query);
        let rows = self
            .within(question.database, Access::Reads, question.bounds, async |client| {
                self.look_up(client, question).await?;
                self.text_rows(client, &explained, question.bounds).await
            })
            .await?;
        Ok(rows.rows.into_iter().flatten().next().unwrap_or(Value::Null))
    }
}
