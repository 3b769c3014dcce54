//! Request and response bodies of joins of data sources.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{QueryColumn, query_columns};
use crate::sources::join::{Join, Joined};

/// Queries of several data sources whose results are joined
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinRequest {
    /// 2 to 5 queries
    pub queries: Vec<JoinedQuery>,
    /// One SQLite SELECT over the tables named in `queries`
    pub sql: String,
    /// Maximum number of rows, at most the operator's limit
    pub max_rows: Option<u32>,
}

/// A query whose result becomes a table
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinedQuery {
    /// Table name of the result in `sql`: letters, digits and `_`, starting with a letter
    pub name: String,
    /// A data source, by its name or its id
    pub source: String,
    /// Absent: the source's default database
    pub database: Option<String>,
    /// One read-only statement, in the source's query language
    pub query: String,
}

/// The result of a query of a join
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinedPart {
    pub name: String,
    /// The data source's name
    pub source: String,
    /// Columns with their names and types in `sql`
    pub columns: Vec<QueryColumn>,
    /// Number of joined rows
    pub rows: usize,
    /// Whether there are more rows, which are missing from the join
    pub truncated: bool,
    /// In milliseconds
    pub elapsed_ms: u64,
    /// bigquery: billed data, in bytes
    pub bytes_billed: Option<u64>,
}

/// The result of a join
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinAnswer {
    pub columns: Vec<QueryColumn>,
    /// Each row has one value per column
    pub rows: Vec<Vec<Value>>,
    /// Whether rows of the join were omitted because of limits
    pub truncated: bool,
    /// Whether a query's result was truncated, so that rows may be missing and counts and sums too small
    pub partial: bool,
    /// A warning about it, in words
    pub note: Option<String>,
    pub queries: Vec<JoinedPart>,
    /// In milliseconds
    pub elapsed_ms: u64,
}

impl From<Join> for JoinAnswer {
    fn from(join: Join) -> Self {
        let part = |part: Joined| JoinedPart {
            name: part.name,
            source: part.source,
            columns: query_columns(part.columns),
            rows: part.rows,
            truncated: part.truncated,
            elapsed_ms: part.elapsed_ms,
            bytes_billed: part.bytes_billed,
        };
        Self {
            columns: query_columns(join.rows.columns),
            rows: join.rows.rows,
            truncated: join.rows.truncated,
            partial: join.partial,
            note: join.note,
            queries: join.queries.into_iter().map(part).collect(),
            elapsed_ms: join.elapsed_ms,
        }
    }
}
