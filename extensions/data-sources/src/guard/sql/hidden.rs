//! What a query must not read: schemas with more than the source's data, the database's own tables, and files.

use sqlparser::ast::{Ident, ObjectName};

use crate::guard::functions;

/// SQLite's tables about its own file and statements.
const MACHINERY: [&str; 5] = ["dbstat", "sqlite_dbpage", "sqlite_stmt", "bytecode", "tables_used"];
/// MySQL's schemas that reveal credentials and other users' queries.
pub(super) const HIDDEN: [&str; 3] = ["mysql", "performance_schema", "sys"];
/// MySQL's schema of metadata, and its tables about the server and its users.
pub(super) const INFORMATION: &str = "information_schema";
pub(super) const HIDDEN_INFORMATION: [&str; 13] = [
    "processlist",
    "global_variables",
    "session_variables",
    "system_variables",
    "user_variables",
    "global_status",
    "session_status",
    "user_attributes",
    "client_statistics",
    "user_statistics",
    "innodb_trx",
    "innodb_locks",
    "innodb_lock_waits",
];

/// Returns whether a SQLite table, by its lower-case name, is about its file and statements.
pub(crate) fn hides_sqlite(table: &str) -> bool {
    MACHINERY.contains(&table)
}

/// Returns whether DuckDB might interpret a table's name as a file or URL.
pub(super) fn opens_file(ident: &Ident) -> bool {
    ident.quote_style == Some('\'') || ident.value.contains(['/', '\\', '.', ':', '*', '?', '~', '|'])
}

/// DuckDB's views about its own process.
pub(super) fn hides_duckdb(relation: &ObjectName) -> bool {
    let table = relation.0.last().and_then(|part| part.as_ident());
    table.is_some_and(|table| {
        let name = table.value.to_ascii_lowercase();
        (name.starts_with("duckdb_") || name.starts_with("pragma_")) && !functions::duckdb(&name)
    })
}
