//! The interface of a data source of any kind: the trait, results and their limits, and errors.
//!
//! Invariant: dropping the future of a query ends the query on the server, too.

use std::time::Duration;

use async_trait::async_trait;
use rejoin_integrations::data_sources::Kind;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Maximum number of listed databases, tables, collections or datasets.
pub const LISTED_MAX: usize = 5_000;
/// Maximum number of columns in a schema.
pub const COLUMNS_MAX: usize = 1_000;
/// Number of documents sampled for a collection's fields.
pub const SAMPLE_READ: usize = 100;
/// Number of sampled documents shown.
pub const SAMPLE_SHOWN: usize = 25;

/// Limits of one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    pub timeout: Duration,
    pub max_rows: usize,
    /// Maximum size of a result's values as JSON, in bytes.
    pub max_bytes: usize,
    /// Maximum bytes billed for a query, if counted.
    pub max_bytes_billed: u64,
}

/// Whether a query may write. This was checked before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    Reads,
    Writes,
}

/// A query.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Absent: the source's default.
    pub database: Option<&'a str>,
    pub query: &'a str,
    pub access: Access,
    pub bounds: Bounds,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    /// The database's name for the type.
    #[serde(rename = "type")]
    pub type_name: String,
}

/// The result of a query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rows {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
    /// Whether the limits cut off more.
    pub truncated: bool,
    /// Number of rows changed by a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affected_rows: Option<u64>,
    /// Bytes billed, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_billed: Option<u64>,
}

/// Collects rows within the limits.
pub struct Collected {
    bounds: Bounds,
    bytes: usize,
    pub rows: Rows,
}

impl Collected {
    pub fn new(bounds: Bounds, columns: Vec<Column>) -> Self {
        let rows = Rows {
            columns,
            ..Rows::default()
        };
        Self { bounds, bytes: 0, rows }
    }

    /// False: the limit is reached.
    pub fn take(&mut self, row: Vec<Value>) -> bool {
        let bytes: usize = row.iter().map(size).sum();
        if self.rows.rows.len() >= self.bounds.max_rows || self.bytes + bytes > self.bounds.max_bytes {
            self.rows.truncated = true;
            return false;
        }
        self.bytes += bytes;
        self.rows.rows.push(row);
        true
    }

    /// Returns how many more rows can be of use: one beyond the limit shows that there is more.
    pub fn room(&self) -> usize {
        self.bounds.max_rows - self.rows.rows.len() + 1
    }
}

/// Estimates the size as JSON, in bytes.
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

/// A table, view or collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// The name used in queries.
    pub name: String,
    /// `table`, `view`, `collection` …
    pub kind: String,
    /// Approximate, if known by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

/// The result of testing a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tested {
    /// The server's description of itself.
    pub server: String,
    /// Warnings for the owner, such as a user with more than read privileges.
    pub warnings: Vec<String>,
}

/// The error of a query, worded for the caller. It holds no password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum SourceError {
    /// Not allowed. Nothing was sent.
    #[error("{0}")]
    Refused(String),
    /// No such database, table or collection; or the server rejected the query.
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
    /// The operator must fix it.
    #[error("{0}")]
    Unconfigured(String),
}

impl SourceError {
    /// The error of a kind whose driver was left out when this program was built.
    pub fn no_driver(kind: Kind) -> Self {
        let kind = kind.as_str();
        Self::Unconfigured(format!(
            "this build has no driver for {kind}; build with the feature `{kind}`"
        ))
    }

    pub fn timed_out(bounds: &Bounds) -> Self {
        Self::TimedOut(u64::try_from(bounds.timeout.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn too_large(bytes: usize) -> Self {
        Self::TooLarge(format!(
            "a single row is larger than the source's limit of {bytes} bytes; select fewer or shorter columns"
        ))
    }
}

/// A database that can be queried. Opened by `sources`, which limits time and concurrency.
#[async_trait]
pub trait Source: Send + Sync {
    /// Connects, authenticates, and reads metadata.
    async fn test(&self) -> Result<Tested, SourceError>;

    /// Returns databases, or datasets.
    async fn databases(&self) -> Result<Vec<String>, SourceError>;

    /// Returns tables, views, collections.
    async fn tables(&self, database: Option<&str>) -> Result<Vec<Table>, SourceError>;

    /// Returns `{table, columns: [{name, type, …}], …}`; for documents also `{sample, documentsRead}`.
    async fn schema(&self, database: Option<&str>, table: &str) -> Result<Value, SourceError>;

    /// Runs a checked query within its limits.
    async fn execute(&self, question: &Question<'_>) -> Result<Rows, SourceError>;

    /// Returns the server's plan of a checked query, without running it.
    async fn explain(&self, question: &Question<'_>) -> Result<Value, SourceError>;
}

/// Returns a schema in the common format.
pub fn table_schema(table: &str, mut columns: Vec<Value>) -> Value {
    let truncated = columns.len() > COLUMNS_MAX;
    columns.truncate(COLUMNS_MAX);
    json!({ "table": table, "columns": columns, "truncated": truncated })
}

/// The error of a missing table.
pub fn no_table(table: &str) -> SourceError {
    SourceError::Failed(format!(
        "table {table} does not exist, or this user may not see it; list the tables"
    ))
}

/// Encodes binary data as text.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2 + 2);
    text.push_str("\\x");
    for byte in bytes {
        // Writing to a string can't fail.
        let _written = write!(text, "{byte:02x}");
    }
    text
}
