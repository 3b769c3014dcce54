//! SQLite itself: opens a file or fills in-memory tables, confines the connection, and runs one statement. Called by
//! `child`, in a separate process, whose limits bound SQLite's sorter, hash tables and values.
//!
//! Invariant: a reading connection has an authorizer, which refuses every action that is not reading; nothing is
//! spilled to temporary files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, params_from_iter};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tables::{self, Table};
use crate::source::{Access, Bounds, Collected, Column, Rows, SourceError, hex};

/// Number of SQLite's virtual machine steps between two checks of the clock.
const STEPS_PER_LOOK: i32 = 10_000;
/// Pragmas that read schemas, used by the functions `pragma_…`.
const LOOKS: [&str; 6] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "foreign_key_list",
];
/// Timeout of waiting for a writer, in milliseconds.
const BUSY_TIMEOUT_MS: u64 = 2_000;
const MIB: u64 = 1024 * 1024;

/// One statement with its limits.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) on: On,
    pub(crate) query: String,
    /// The values of its parameters.
    pub(crate) arguments: Vec<String>,
    pub(crate) access: Access,
    pub(crate) bounds: Bounds,
    /// Maximum size of a value, in bytes.
    pub(crate) value_max_bytes: usize,
    /// SQLite's memory limit, in bytes.
    pub(crate) memory_max_bytes: u64,
    /// Maximum size of the file after a write, in bytes.
    pub(crate) file_max_bytes: u64,
}

/// The database of a task.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum On {
    /// A file at a checked location, without symbolic links in its path.
    File(PathBuf),
    /// An in-memory database.
    Tables(Vec<Table>),
}

/// Whether a caller still waits for the result.
pub(crate) type WaitedFor = Arc<AtomicBool>;

/// Runs a task.
pub(crate) fn run(task: &Task, waited_for: WaitedFor) -> Result<Rows, SourceError> {
    let failed = |error: rusqlite::Error| failure(&error, task);
    let mut connection = match &task.on {
        On::File(path) => open(path, task.access)?,
        On::Tables(_) => Connection::open_in_memory().map_err(failed)?,
    };
    limit_memory(&connection, task).map_err(failed)?;
    if let On::Tables(tables) = &task.on {
        tables.iter().try_for_each(Table::check)?;
        tables::fill(&mut connection, tables).map_err(failed)?;
    }
    confine(&connection, task, waited_for).map_err(failed)?;
    answer(&connection, task)
}

fn open(path: &Path, access: Access) -> Result<Connection, SourceError> {
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

/// Limits SQLite's memory, and keeps it from spilling to files. The process's limit is the second line of defence; here
/// it is an error.
fn limit_memory(connection: &Connection, task: &Task) -> Result<(), rusqlite::Error> {
    connection.execute_batch(&format!(
        "pragma hard_heap_limit = {}; pragma temp_store = memory",
        task.memory_max_bytes
    ))
}

/// Confines a connection: time limit, maximum size of values, read-only. Interrupts it when the caller stops waiting.
fn confine(connection: &Connection, task: &Task, waited_for: WaitedFor) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(std::time::Duration::from_millis(BUSY_TIMEOUT_MS))?;
    // The file's own schema is not trusted either.
    connection.execute_batch("pragma trusted_schema = off; pragma cell_size_check = on")?;
    match task.access {
        Access::Reads => connection.execute_batch("pragma query_only = on")?,
        Access::Writes => {
            let page: u32 = connection.query_row("pragma page_size", [], |row| row.get(0))?;
            let pages = (task.file_max_bytes / u64::from(page.max(1))).max(1);
            connection.query_row(&format!("pragma max_page_count = {pages}"), [], |_| Ok(()))?;
        }
    }
    let largest = i32::try_from(task.value_max_bytes).unwrap_or(i32::MAX);
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, largest),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 200),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    let until = Instant::now() + task.bounds.timeout;
    connection.progress_handler(
        STEPS_PER_LOOK,
        Some(move || Instant::now() >= until || !waited_for.load(Ordering::Relaxed)),
    )
}

/// Authorizes the actions of a reading statement.
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Read { table_name, .. } if crate::guard::hides_sqlite(table_name) => Authorization::Deny,
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Pragma { pragma_name, .. } if LOOKS.contains(&pragma_name) => Authorization::Allow,
        AuthAction::Function { function_name } if crate::guard::allows_sqlite(function_name) => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

fn failure(error: &rusqlite::Error, task: &Task) -> SourceError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => SourceError::timed_out(&task.bounds),
        Some(ErrorCode::TooBig) => SourceError::too_large(task.bounds.max_bytes),
        Some(ErrorCode::OutOfMemory) => out_of_memory(task.memory_max_bytes),
        Some(ErrorCode::DiskFull) => SourceError::TooLarge(format!(
            "the file would exceed {} MiB, the operator's limit (REJOIN_SOURCE_SQLITE_FILE_MB)",
            task.file_max_bytes / MIB
        )),
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            SourceError::Refused(format!("{error}; this source is read-only"))
        }
        _ => SourceError::Failed(error.to_string()),
    }
}

/// The error of a statement that needs too much memory.
pub(super) fn out_of_memory(bytes: u64) -> SourceError {
    SourceError::TooLarge(format!(
        "the query needs more than {} MiB of memory, the operator's limit (REJOIN_SOURCE_SQLITE_MEMORY_MB); sort, \
        group and select less",
        bytes / MIB
    ))
}

/// Runs the statement on a confined connection.
fn answer(connection: &Connection, task: &Task) -> Result<Rows, SourceError> {
    let failed = |error: rusqlite::Error| failure(&error, task);
    if task.access == Access::Reads {
        connection.authorizer(Some(authorize)).map_err(failed)?;
    }
    let mut statement = connection.prepare(&task.query).map_err(failed)?;
    if task.access == Access::Reads && !statement.readonly() {
        return Err(SourceError::Refused(
            "the statement writes; this source is read-only".to_owned(),
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
    let mut collected = Collected::new(task.bounds, columns);
    let mut rows = statement.query(params_from_iter(&task.arguments)).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let values: Result<Vec<Value>, rusqlite::Error> = (0..width).map(|at| row.get_ref(at).map(value)).collect();
        if !collected.take(values.map_err(failed)?) {
            break;
        }
    }
    if task.access == Access::Writes {
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
