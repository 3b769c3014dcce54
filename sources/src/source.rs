//! The interface of a data source of any kind: the trait, results and their limits, and errors.
//!
//! Invariant: dropping the future of a query ends the query on the server, too.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Databases, tables, collections and datasets that a list shows.
pub const LISTED_MAX: usize = 5_000;
/// Columns that a schema shows.
pub const COLUMNS_MAX: usize = 1_000;
/// Documents that are read to find a collection's fields.
pub const SAMPLE_READ: usize = 100;
/// Documents of those that are shown.
pub const SAMPLE_SHOWN: usize = 25;

/// Bounds of one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    pub timeout: Duration,
    pub max_rows: usize,
    /// Of an answer's values, as JSON [bytes].
    pub max_bytes: usize,
    /// What a query may be billed for, where that is counted [bytes].
    pub max_bytes_billed: u64,
}

/// Whether what is asked may change anything. What may was checked before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    Reads,
    Writes,
}

/// One question.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Absent: the source's own.
    pub database: Option<&'a str>,
    pub query: &'a str,
    pub access: Access,
    pub bounds: Bounds,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    /// As the database calls it.
    #[serde(rename = "type")]
    pub type_name: String,
}

/// What a question was answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rows {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
    /// Whether there was more than the bounds allow.
    pub truncated: bool,
    /// Rows that a write has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affected_rows: Option<u64>,
    /// What it cost, where that is counted [bytes].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_billed: Option<u64>,
}

/// Takes rows as long as they are within the bounds.
pub(crate) struct Collected {
    bounds: Bounds,
    bytes: usize,
    pub(crate) rows: Rows,
}

impl Collected {
    pub(crate) fn new(bounds: Bounds, columns: Vec<Column>) -> Self {
        let rows = Rows {
            columns,
            ..Rows::default()
        };
        Self { bounds, bytes: 0, rows }
    }

    /// False: it was one too many, and there is no need for more.
    pub(crate) fn take(&mut self, row: Vec<Value>) -> bool {
        let bytes: usize = row.iter().map(size).sum();
        if self.rows.rows.len() >= self.bounds.max_rows || self.bytes + bytes > self.bounds.max_bytes {
            self.rows.truncated = true;
            return false;
        }
        self.bytes += bytes;
        self.rows.rows.push(row);
        true
    }

    /// How many rows more than are there can be of use: one, to know that there is more.
    pub(crate) fn room(&self) -> usize {
        self.bounds.max_rows - self.rows.rows.len() + 1
    }
}

/// About as long as it is as JSON [bytes].
fn size(value: &Value) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(_) => 5,
        Value::Number(_) => 12,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields
                .iter()
                .map(|(name, value)| name.len() + 4 + size(value))
                .sum::<usize>()
        }
    }
}

/// A table, a view or a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// As a query calls it.
    pub name: String,
    /// `table`, `view`, `collection` …
    pub kind: String,
    /// About so many, where the server knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

/// What came of trying a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tested {
    /// What the server says it is.
    pub server: String,
    /// What its owner should know: a user who may do more than read, say.
    pub warnings: Vec<String>,
}

/// Why a question has no answer, in words for whoever asked. They hold no password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum SourceError {
    /// It is not allowed. Nothing was sent.
    #[error("{0}")]
    Refused(String),
    /// There is no such database, table or collection; or the server did not take the question.
    #[error("{0}")]
    Failed(String),
    #[error("the data source cannot be reached: {0}")]
    Unreachable(String),
    #[error(
        "the query timed out after {0} ms and was cancelled. Request less data, or ask the source's owner to raise \
        its `timeoutMs`"
    )]
    TimedOut(u64),
    #[error("{0}")]
    TooLarge(String),
    /// For the operator to mend.
    #[error("{0}")]
    Unconfigured(String),
}

impl SourceError {
    pub(crate) fn timed_out(bounds: &Bounds) -> Self {
        Self::TimedOut(u64::try_from(bounds.timeout.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn too_large(bytes: usize) -> Self {
        Self::TooLarge(format!(
            "a single row is larger than the source's limit of {bytes} bytes; select fewer or shorter columns"
        ))
    }
}

/// A database that is asked. Opened by `sources`, which bounds time and how many ask at once.
#[async_trait]
pub trait Source: Send + Sync {
    /// Reaches it, signs in, and looks around.
    async fn test(&self) -> Result<Tested, SourceError>;

    /// Databases, or datasets.
    async fn databases(&self) -> Result<Vec<String>, SourceError>;

    /// Tables, views, collections.
    async fn tables(&self, database: Option<&str>) -> Result<Vec<Table>, SourceError>;

    /// `{table, columns: [{name, type, …}], …}`; of documents also `{sample, documentsRead}`.
    async fn schema(&self, database: Option<&str>, table: &str) -> Result<Value, SourceError>;

    /// Runs a query that was checked, within its bounds.
    async fn execute(&self, question: &Question<'_>) -> Result<Rows, SourceError>;

    /// How the server would run a query that was checked. It does not run it.
    async fn explain(&self, question: &Question<'_>) -> Result<Value, SourceError>;
}

/// A schema as all kinds give it.
pub(crate) fn table_schema(table: &str, mut columns: Vec<Value>) -> Value {
    let truncated = columns.len() > COLUMNS_MAX;
    columns.truncate(COLUMNS_MAX);
    json!({ "table": table, "columns": columns, "truncated": truncated })
}

/// What is said of a table that is not there.
pub(crate) fn no_table(table: &str) -> SourceError {
    SourceError::Failed(format!(
        "table {table} does not exist, or this user may not see it; list the tables"
    ))
}
