//! SQLite: a file in a folder that the operator allows. It is opened for reading only, and its authorizer refuses every step of a statement
//! that is not reading. Called by `sources`; a join's tables in memory are asked in the same way ([`on_thread`], [`confine`], [`run`]).
//!
//! Invariant: the path that is opened has no link out of the folder in it; a question's thread ends when nobody waits for it any more.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use rejoin_shared::data_sources::Settings;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde_json::{Value, json};

use crate::mysql::hex;
use crate::source::{
    Access, Bounds, Collected, Column, Question, Rows, Source, SourceError, Table, Tested, no_table, table_schema,
};

/// Steps of SQLite's machine between two looks at the clock.
const STEPS_PER_LOOK: i32 = 10_000;
/// Pragmas that tell how tables look, as the functions `pragma_…` ask them.
const LOOKS: [&str; 6] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "foreign_key_list",
];
/// Waiting for somebody who writes [ms].
const BUSY_TIMEOUT_MS: u64 = 2_000;

pub struct Sqlite {
    settings: Settings,
    /// Folders of the operator's.
    folders: Arc<[PathBuf]>,
    /// Of looking around.
    look: Bounds,
}

impl Sqlite {
    pub fn new(settings: Settings, folders: Arc<[PathBuf]>, look: Bounds) -> Self {
        Self {
            settings,
            folders,
            look,
        }
    }

    /// Asks on a thread of its own.
    async fn ask<T: Send + 'static>(
        &self,
        access: Access,
        bounds: Bounds,
        ask: impl FnOnce(&Connection) -> Result<T, SourceError> + Send + 'static,
    ) -> Result<T, SourceError> {
        let path = self.settings.path.clone().unwrap_or_default();
        let folders = self.folders.clone();
        on_thread(move |waited_for| {
            let connection = open(&path, &folders, access)?;
            confine(&connection, access, bounds, waited_for)?;
            ask(&connection)
        })
        .await
    }
}

/// Whether somebody still waits for what a thread does.
pub(crate) type WaitedFor = Arc<AtomicBool>;

/// Does something on a thread of its own, which is told when nobody waits for it any more: when this future is dropped.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce(WaitedFor) -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    struct Waits(WaitedFor);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }
    let waits = Waits(Arc::new(AtomicBool::new(true)));
    let waited_for = waits.0.clone();
    tokio::task::spawn_blocking(move || work(waited_for))
        .await
        .map_err(|_| SourceError::Failed("the query could not be run".to_owned()))?
}

fn timed_out(bounds: &Bounds) -> SourceError {
    SourceError::TimedOut(u64::try_from(bounds.timeout.as_millis()).unwrap_or(u64::MAX))
}

/// The file that a source may be, wherever links lead.
pub(crate) fn allowed(path: &str, folders: &[PathBuf]) -> Result<PathBuf, SourceError> {
    if folders.is_empty() {
        return Err(SourceError::Unconfigured(
            "files may be sources only in folders that the operator names in REJOIN_SOURCE_FOLDERS".to_owned(),
        ));
    }
    // Whether a file is there is told to nobody who may not read it.
    let refused = || {
        SourceError::Refused(format!(
            "{path} is no file in one of the folders that the operator names in REJOIN_SOURCE_FOLDERS"
        ))
    };
    let real = Path::new(path).canonicalize().map_err(|_| refused())?;
    let is_inside = folders
        .iter()
        .filter_map(|folder| folder.canonicalize().ok())
        .any(|folder| real.starts_with(folder));
    match is_inside && real.is_file() {
        true => Ok(real),
        false => Err(refused()),
    }
}

fn open(path: &str, folders: &[PathBuf], access: Access) -> Result<Connection, SourceError> {
    let path = allowed(path, folders)?;
    let mode = match access {
        Access::Reads => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Writes => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    Connection::open_with_flags(
        path,
        mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW,
    )
    .map_err(|error| SourceError::Unreachable(error.to_string()))
}

/// Holds a connection to bounds: of time from now, of what a value may be long, and to reading. It ends what nobody waits for.
pub(crate) fn confine(
    connection: &Connection,
    access: Access,
    bounds: Bounds,
    waited_for: WaitedFor,
) -> Result<(), SourceError> {
    let failed = |error: rusqlite::Error| SourceError::Unreachable(error.to_string());
    connection
        .busy_timeout(std::time::Duration::from_millis(BUSY_TIMEOUT_MS))
        .map_err(failed)?;
    // What the file itself says is not trusted either.
    connection
        .execute_batch("pragma trusted_schema = off; pragma cell_size_check = on")
        .map_err(failed)?;
    if access == Access::Reads {
        connection.execute_batch("pragma query_only = on").map_err(failed)?;
    }
    let largest = i32::try_from(bounds.max_bytes).unwrap_or(i32::MAX);
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, largest),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 200),
    ] {
        connection.set_limit(limit, value).map_err(failed)?;
    }
    let until = Instant::now() + bounds.timeout;
    connection
        .progress_handler(
            STEPS_PER_LOOK,
            Some(move || Instant::now() >= until || !waited_for.load(Ordering::Relaxed)),
        )
        .map_err(failed)
}

/// What each step of a statement may be, where only reads pass.
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Read { table_name, .. } if crate::guard::hides_sqlite(table_name) => Authorization::Deny,
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Pragma { pragma_name, .. } if LOOKS.contains(&pragma_name) => Authorization::Allow,
        AuthAction::Function { function_name } if crate::guard::allows_sqlite(function_name) => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

fn failure(error: &rusqlite::Error, bounds: &Bounds) -> SourceError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => timed_out(bounds),
        Some(ErrorCode::TooBig) => SourceError::too_large(bounds.max_bytes),
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            SourceError::Refused(format!("{error}: this source is read-only"))
        }
        _ => SourceError::Failed(error.to_string()),
    }
}

/// Runs one statement on a confined connection.
pub(crate) fn run(connection: &Connection, query: &str, access: Access, bounds: Bounds) -> Result<Rows, SourceError> {
    let failed = |error: rusqlite::Error| failure(&error, &bounds);
    if access == Access::Reads {
        connection.authorizer(Some(authorize)).map_err(failed)?;
    }
    let mut statement = connection.prepare(query).map_err(failed)?;
    if access == Access::Reads && !statement.readonly() {
        return Err(SourceError::Refused(
            "the statement writes: this source is read-only".to_owned(),
        ));
    }
    let columns: Vec<Column> = statement
        .columns()
        .iter()
        .map(|column| Column {
            name: column.name().to_owned(),
            type_name: column.decl_type().unwrap_or_default().to_ascii_lowercase(),
        })
        .collect();
    let width = columns.len();
    let mut collected = Collected::new(bounds, columns);
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let values: Result<Vec<Value>, rusqlite::Error> = (0..width).map(|at| row.get_ref(at).map(value)).collect();
        if !collected.take(values.map_err(failed)?) {
            break;
        }
    }
    if access == Access::Writes {
        collected.rows.affected_rows = Some(connection.changes());
    }
    Ok(collected.rows)
}

fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
        ValueRef::Blob(bytes) => hex(bytes).into(),
    }
}

#[async_trait]
impl Source for Sqlite {
    async fn test(&self) -> Result<Tested, SourceError> {
        let look = self.look;
        let rows = self
            .ask(Access::Reads, look, move |connection| {
                run(
                    connection,
                    "select sqlite_version(), count(*) from sqlite_schema",
                    Access::Reads,
                    look,
                )
            })
            .await?;
        let version = rows.rows.first().and_then(|row| row[0].as_str()).unwrap_or_default();
        Ok(Tested {
            server: format!("SQLite {version}"),
            warnings: Vec::new(),
        })
    }

    async fn databases(&self) -> Result<Vec<String>, SourceError> {
        Ok(vec!["main".to_owned()])
    }

    async fn tables(&self, _: Option<&str>) -> Result<Vec<Table>, SourceError> {
        const TABLES: &str = "select name, type from sqlite_schema where type in ('table', 'view') and name not like 'sqlite_%' order by name limit 5000";
        let look = self.look;
        let rows = self
            .ask(Access::Reads, look, move |connection| {
                run(connection, TABLES, Access::Reads, look)
            })
            .await?;
        let table = |row: &Vec<Value>| Table {
            name: row[0].as_str().unwrap_or_default().to_owned(),
            kind: row[1].as_str().unwrap_or_default().to_owned(),
            rows: None,
        };
        Ok(rows.rows.iter().map(table).collect())
    }

    async fn schema(&self, _: Option<&str>, table: &str) -> Result<Value, SourceError> {
        const COLUMNS: &str = "
            select c.name, c.type, c.\"notnull\", c.pk, group_concat(distinct f.\"table\")
            from pragma_table_xinfo(?1) c left join pragma_foreign_key_list(?1) f on f.\"from\" = c.name
            group by c.cid order by c.cid limit 1001";
        let (look, name) = (self.look, table.trim_matches('"').to_owned());
        let columns = self
            .ask(Access::Reads, look, move |connection| {
                let failed = |error: rusqlite::Error| failure(&error, &look);
                let mut statement = connection.prepare(COLUMNS).map_err(failed)?;
                let rows = statement.query_map([name], |row| {
                    Ok(json!({
                        "name": row.get::<_, String>(0)?, "type": row.get::<_, String>(1)?, "nullable": row.get::<_, i64>(2)? == 0,
                        "primaryKey": row.get::<_, i64>(3)? > 0, "comment": null, "references": row.get::<_, Option<String>>(4)?,
                    }))
                });
                rows.and_then(Iterator::collect::<Result<Vec<Value>, _>>).map_err(failed)
            })
            .await?;
        match columns.is_empty() {
            true => Err(no_table(table)),
            false => Ok(table_schema(table, columns)),
        }
    }

    async fn execute(&self, question: &Question<'_>) -> Result<Rows, SourceError> {
        let (query, access, bounds) = (question.query.to_owned(), question.access, question.bounds);
        self.ask(access, bounds, move |connection| {
            run(connection, &query, access, bounds)
        })
        .await
    }

    async fn explain(&self, question: &Question<'_>) -> Result<Value, SourceError> {
        let (query, bounds) = (format!("explain query plan {}", question.query), question.bounds);
        let rows = self
            .ask(Access::Reads, bounds, move |connection| {
                run(connection, &query, Access::Reads, bounds)
            })
            .await?;
        let lines = rows.rows.iter().filter_map(|row| row.last().cloned());
        Ok(json!({ "plan": lines.collect::<Vec<Value>>() }))
    }
}
