//! MySQL and MariaDB. Each query is one prepared statement, which can't be two, in a read-only transaction; rows are
//! read one by one, and a statement is killed once enough rows were read. Statements without rows (SET, COMMIT, DO …)
//! are not run on read-only sources. Called by `sources`.
//!
//! - `values` names of types, and values as JSON
//!
//! Invariant: a connection is reused only if its statement was read to its end; it is reset in between.

mod values;

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, SslOpts, Value as Cell};
use rejoin_egress::ssrf_guard::Hosts;
use rejoin_integrations::data_sources::{Kind, Settings};
use rejoin_secrets::Plaintext;
use serde_json::{Value, json};
use tokio::time::timeout;

use self::values::{type_name, value};
use crate::idle_connections::IdleConnections;
use crate::source::{
    Access, Bounds, Collected, Column, Question, Rows, Source, SourceError, Table, Tested, no_table, table_schema,
};
use crate::transport;

/// Maximum size of a packet from a server, in bytes: a row is at most one.
const MAX_PACKET_BYTES: usize = 16 * 1024 * 1024;
/// Timeout of waiting for another user's lock.
const LOCK_TIMEOUT_S: u32 = 5;

pub struct Mysql {
    settings: Settings,
    password: Option<Plaintext>,
    hosts: Hosts,
    idle: IdleConnections<Connection>,
    /// Limits of metadata queries.
    look: Bounds,
}

struct Connection {
    conn: Conn,
    is_mariadb: bool,
}

impl Mysql {
    pub fn new(settings: Settings, password: Option<Plaintext>, hosts: Hosts, look: Bounds) -> Self {
        Self {
            settings,
            password,
            hosts,
            idle: IdleConnections::default(),
            look,
        }
    }

    /// Returns the connection options of a database, at a checked address.
    async fn options(&self, database: &str) -> Result<Opts, SourceError> {
        let host = self.settings.host.as_deref().unwrap_or_default();
        let port = self.settings.port_of(Kind::Mysql);
        let password = self.password.as_ref().and_then(Plaintext::expose_text);
        let options = OptsBuilder::default()
            .user(self.settings.user.clone())
            .pass(password)
            .db_name((!database.is_empty()).then_some(database))
            .prefer_socket(false)
            .stmt_cache_size(0)
            .max_allowed_packet(Some(MAX_PACKET_BYTES))
            .wait_timeout(Some(600));
        if host.starts_with('/') {
            let path = transport::socket_path(&self.hosts, host, "")?;
            return Ok(options.socket(Some(path)).prefer_socket(true).into());
        }
        let addresses = self.hosts.resolve(host, port).await.map_err(SourceError::Refused)?;
        let address = addresses
            .first()
            .ok_or_else(|| SourceError::Unreachable(format!("{host} has no address")))?;
        let tls = self
            .settings
            .uses_tls()
            .then(|| SslOpts::default().with_danger_tls_hostname_override(Some(host.to_owned())));
        Ok(options
            .ip_or_hostname(address.ip().to_string())
            .tcp_port(port)
            .ssl_opts(tls)
            .into())
    }

    async fn connect(&self, database: &str) -> Result<Connection, SourceError> {
        let options = self.options(database).await?;
        let connecting = async {
            let mut conn = Conn::new(options).await?;
            let version: Option<String> = conn.query_first("select version()").await?;
            let is_mariadb = version.is_some_and(|version| version.contains("MariaDB"));
            Ok(Connection { conn, is_mariadb })
        };
        timeout(transport::CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| SourceError::Unreachable("the server does not respond".to_owned()))?
            .map_err(|error: mysql_async::Error| SourceError::Unreachable(error_message(&error)))
    }

    async fn ask(
        &self,
        database: Option<&str>,
        access: Access,
        bounds: Bounds,
        query: &str,
        arguments: Vec<Cell>,
    ) -> Result<Rows, SourceError> {
        let database = database.or(self.settings.database.as_deref()).unwrap_or_default();
        let mut connection = match self.idle.take(database) {
            Some(connection) => connection,
            None => self.connect(database).await?,
        };
        let kill = KillOnDrop::new(self.options("").await?, connection.conn.id());
        let answered = asked(&mut connection, access, bounds, query, arguments).await;
        // After a truncated result the rest would follow: the statement is killed.
        if answered.as_ref().is_ok_and(|rows| !rows.truncated) {
            kill.disarm();
            if connection.conn.reset().await.is_ok_and(|was_reset| was_reset) {
                self.idle.put(database, connection);
            }
        }
        answered
    }
}

async fn asked(
    connection: &mut Connection,
    access: Access,
    bounds: Bounds,
    query: &str,
    arguments: Vec<Cell>,
) -> Result<Rows, SourceError> {
    let failed = |error: mysql_async::Error| failure(&error, &bounds);
    let time_limit = if connection.is_mariadb {
        format!("max_statement_time = {}", bounds.timeout.as_secs_f64())
    } else {
        // Applies to SELECT only, the only slow statements on read-only sources.
        format!("max_execution_time = {}", bounds.timeout.as_millis().max(1))
    };
    let conn = &mut connection.conn;
    conn.query_drop(format!(
        "set session {time_limit}, sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', lock_wait_timeout = {LOCK_TIMEOUT_S}, \
         time_zone = '+00:00'"
    ))
    .await
    .map_err(failed)?;
    let begin = match access {
        Access::Reads => "start transaction read only",
        Access::Writes => "start transaction read write",
    };
    conn.query_drop(begin).await.map_err(failed)?;
    let statement = conn.prep(query).await.map_err(failed)?;
    if usize::from(statement.num_params()) != arguments.len() {
        return Err(SourceError::Failed(
            "the query has parameters (?); write the values into the query".to_owned(),
        ));
    }
    if access == Access::Reads && statement.columns().is_empty() && !is_told(query) {
        return Err(SourceError::Refused(
            "the statement returns no rows, so it does not only read; this source is read-only".to_owned(),
        ));
    }
    let mut result = conn.exec_iter(&statement, arguments).await.map_err(failed)?;
    let described: Vec<mysql_async::Column> = result.columns_ref().to_vec();
    let columns = described
        .iter()
        .map(|column| Column {
            name: column.name_str().into_owned(),
            type_name: type_name(column),
        })
        .collect();
    let mut collected = Collected::new(bounds, columns);
    while let Some(row) = result.next().await.map_err(failed)? {
        let values = row
            .unwrap()
            .into_iter()
            .zip(&described)
            .map(|(cell, column)| value(cell, column));
        if !collected.take(values.collect()) {
            return Ok(collected.rows);
        }
    }
    let affected = result.affected_rows();
    drop(result);
    let end = match access {
        Access::Reads => "rollback",
        Access::Writes => {
            collected.rows.affected_rows = Some(affected);
            "commit"
        }
    };
    conn.query_drop(end).await.map_err(failed)?;
    Ok(collected.rows)
}

/// Returns whether the columns of its result are known only when it runs.
fn is_told(query: &str) -> bool {
    let first = query
        .trim_start()
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default();
    ["show", "explain", "describe", "desc"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
}

fn failure(error: &mysql_async::Error, bounds: &Bounds) -> SourceError {
    match error {
        // max_statement_time exceeded; max_execution_time exceeded; killed.
        mysql_async::Error::Server(server) if matches!(server.code, 1969 | 3024 | 1317) => {
            SourceError::TimedOut(u64::try_from(bounds.timeout.as_millis()).unwrap_or(u64::MAX))
        }
        mysql_async::Error::Server(server) => SourceError::Failed(server.message.clone()),
        mysql_async::Error::Io(_) => {
            let text = error_message(error);
            if text.contains("acket") && text.contains("large") {
                SourceError::too_large(MAX_PACKET_BYTES)
            } else {
                SourceError::Unreachable(text)
            }
        }
        _ => SourceError::Unreachable(error_message(error)),
    }
}

fn error_message(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Server(server) => server.message.clone(),
        _ => error.to_string(),
    }
}

/// Kills a connection's statement when dropped, unless disarmed.
struct KillOnDrop {
    armed: Option<(Opts, u32)>,
}

impl KillOnDrop {
    fn new(options: Opts, id: u32) -> Self {
        Self {
            armed: Some((options, id)),
        }
    }

    fn disarm(mut self) {
        self.armed = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let (Some((options, id)), Ok(runtime)) = (self.armed.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(timeout(transport::CONNECT_TIMEOUT, async move {
                let mut conn = Conn::new(options).await?;
                // The whole connection, which is no longer used.
                conn.query_drop(format!("kill {id}")).await?;
                conn.disconnect().await
            }));
        }
    }
}

#[async_trait]
impl Source for Mysql {
    async fn test(&self) -> Result<Tested, SourceError> {
        let about = self
            .ask(None, Access::Reads, self.look, "select version()", Vec::new())
            .await?;
        let grants = self
            .ask(None, Access::Reads, self.look, "show grants", Vec::new())
            .await?;
        let grants: Vec<String> = texts(&grants, 0).map(str::to_ascii_uppercase).collect();
        let has = |words: &[&str]| grants.iter().any(|grant| words.iter().any(|word| grant.contains(word)));
        let mut warnings = Vec::new();
        if has(&["FILE", "SUPER", "ALL PRIVILEGES ON *.*"]) {
            warnings.push(
                "its user has global privileges, such as reading the server's files; use a user that has \
                only SELECT"
                    .to_owned(),
            );
        } else if has(&["ALL PRIVILEGES", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP"]) {
            warnings.push("its user has write privileges; use a user that has only SELECT".to_owned());
        }
        Ok(Tested {
            server: texts(&about, 0).next().unwrap_or_default().to_owned(),
            warnings,
        })
    }

    async fn databases(&self) -> Result<Vec<String>, SourceError> {
        const DATABASES: &str = "
            select schema_name from information_schema.schemata
            where schema_name not in ('information_schema', 'performance_schema', 'mysql', 'sys')
            order by schema_name limit 5000";
        let rows = self.ask(None, Access::Reads, self.look, DATABASES, Vec::new()).await?;
        Ok(texts(&rows, 0).map(str::to_owned).collect())
    }

    async fn tables(&self, database: Option<&str>) -> Result<Vec<Table>, SourceError> {
        const TABLES: &str = "
            select table_name, lower(replace(table_type, 'BASE ', '')), table_rows
            from information_schema.tables where table_schema = coalesce(?, database()) order by table_name limit 5000";
        let rows = self
            .ask(database, Access::Reads, self.look, TABLES, vec![named(database)])
            .await?;
        let table = |row: &Vec<Value>| Table {
            name: row[0].as_str().unwrap_or_default().to_owned(),
            kind: row[1].as_str().unwrap_or_default().to_owned(),
            rows: row[2].as_u64(),
        };
        Ok(rows.rows.iter().map(table).collect())
    }

    async fn schema(&self, database: Option<&str>, table: &str) -> Result<Value, SourceError> {
        const COLUMNS: &str = "
            select c.column_name, c.column_type, c.is_nullable = 'YES', c.column_key = 'PRI', nullif(c.column_comment, ''),
                   (select group_concat(k.referenced_table_name separator ', ') from information_schema.key_column_usage k
                    where k.table_schema = c.table_schema and k.table_name = c.table_name and k.column_name = c.column_name
                      and k.referenced_table_name is not null)
            from information_schema.columns c
            where c.table_schema = coalesce(?, database()) and c.table_name = ?
            order by c.ordinal_position limit 1001";
        let arguments = vec![named(database), Cell::from(table.trim_matches('`'))];
        let rows = self.ask(database, Access::Reads, self.look, COLUMNS, arguments).await?;
        if rows.rows.is_empty() {
            return Err(no_table(table));
        }
        let is = |value: &Value| value.as_i64() == Some(1);
        let column = |row: &Vec<Value>| {
            json!({
                "name": row[0], "type": row[1], "nullable": is(&row[2]), "primaryKey": is(&row[3]), "comment": row[4],
                "references": row[5],
            })
        };
        Ok(table_schema(table, rows.rows.iter().map(column).collect()))
    }

    async fn execute(&self, question: &Question<'_>) -> Result<Rows, SourceError> {
        self.ask(
            question.database,
            question.access,
            question.bounds,
            question.query,
            Vec::new(),
        )
        .await
    }

    async fn explain(&self, question: &Question<'_>) -> Result<Value, SourceError> {
        let query = format!("explain format=json {}", question.query);
        let rows = self
            .ask(question.database, Access::Reads, question.bounds, &query, Vec::new())
            .await?;
        let plan = texts(&rows, 0).next().unwrap_or_default();
        Ok(serde_json::from_str(plan).unwrap_or_else(|_| plan.into()))
    }
}

fn named(database: Option<&str>) -> Cell {
    database.map_or(Cell::NULL, Cell::from)
}

fn texts(rows: &Rows, column: usize) -> impl Iterator<Item = &str> {
    rows.rows.iter().filter_map(move |row| row.get(column)?.as_str())
}
