//! The tables of a join: results of other sources, loaded into an in-memory SQLite database. Called by `engine`, and by
//! `sources::join`, which names their columns.

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, params_from_iter};
use serde::{Deserialize, Serialize};

use super::cells::Sent;
use crate::source::{Column, SourceError};

/// A result that becomes a table.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// With unique names, and SQLite's types.
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Sent>>,
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Creates and fills the tables.
pub(super) fn fill(connection: &mut Connection, tables: &[Table]) -> Result<(), rusqlite::Error> {
    let filling = connection.transaction()?;
    for table in tables {
        let columns: Vec<String> = table
            .columns
            .iter()
            .map(|column| format!("{} {}", quoted(&column.name), column.type_name))
            .collect();
        let name = quoted(&table.name);
        filling.execute(&format!("create table {name} ({})", columns.join(", ")), [])?;
        let marks = vec!["?"; columns.len()].join(", ");
        let mut insert = filling.prepare(&format!("insert into {name} values ({marks})"))?;
        for row in &table.rows {
            insert.execute(params_from_iter(row.iter().map(Cell::from)))?;
        }
    }
    filling.commit()
}

impl Table {
    /// Refuses rows with a wrong number of values: a child does not trust its parent.
    pub(super) fn check(&self) -> Result<(), SourceError> {
        if self.rows.iter().all(|row| row.len() == self.columns.len()) {
            Ok(())
        } else {
            Err(SourceError::Failed(format!(
                "a row of `{}` does not have as many values as there are columns",
                self.name
            )))
        }
    }
}
