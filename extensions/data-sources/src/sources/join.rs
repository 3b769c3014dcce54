//! Joins several sources: each query runs on its source with all its protections, and its result becomes a table of an
//! in-memory SQLite database in a separate process, which one more statement reads. Called by the API's route and the
//! agents' tool.
//!
//! - `run`  checks, queries and joins, in builds with the driver `sqlite`
//!
//! Invariant: nothing is sent before every query and the joining statement have passed their guards. Dropping the
//! future ends all of them, on their servers, too. Truncated inputs are reported: the join of a part is a part of the
//! join.

use std::time::Duration;

use rejoin_integrations::data_sources::DataSource;
use serde::Serialize;

use crate::source::{Column, Rows, SourceError};

#[cfg(feature = "sqlite")]
mod run;

/// Minimum number of queries in one join.
pub const QUERIES_MIN: usize = 2;
pub const QUERIES_MAX: usize = 5;
/// Maximum length of a query's name, in bytes.
pub const NAME_MAX_BYTES: usize = 63;
/// Maximum number of columns of a joined query.
pub const JOINED_COLUMNS_MAX: usize = 500;

/// A query whose result becomes a table.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Its name in the joining statement.
    pub name: &'a str,
    pub source: &'a DataSource,
    /// Absent: the source's default.
    pub database: Option<&'a str>,
    pub query: &'a str,
}

/// The limits of a join.
#[derive(Debug, Clone, Copy, Default)]
pub struct JoinBounds {
    /// Lower limit of the join's rows than the operator's.
    pub max_rows: Option<u32>,
    /// Lower limit of the join's bytes than the operator's.
    pub max_bytes: Option<usize>,
    /// Shorter total timeout than the sources' and the join's own.
    pub timeout: Option<Duration>,
}

/// The result of one query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Joined {
    pub name: String,
    /// The source's name.
    pub source: String,
    /// As named in the joining statement.
    pub columns: Vec<Column>,
    /// Number of joined rows.
    pub rows: usize,
    /// Whether further rows are missing from the join.
    pub truncated: bool,
    /// In milliseconds.
    pub elapsed_ms: u64,
    /// Bytes billed, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_billed: Option<u64>,
}

/// The result of a join.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Join {
    #[serde(flatten)]
    pub rows: Rows,
    /// Whether a query was truncated, so that rows, counts and sums may be incomplete.
    pub partial: bool,
    /// The same, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub queries: Vec<Joined>,
    /// Total time, in milliseconds.
    pub elapsed_ms: u64,
}

/// The error of a join, with the part that caused it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{of}: {error}")]
pub struct JoinError {
    /// `sql`, `queries`, or a query's name.
    of: String,
    pub error: SourceError,
}

impl JoinError {
    fn new(of: impl Into<String>, error: SourceError) -> Self {
        Self { of: of.into(), error }
    }

    fn of_query(name: &str, error: SourceError) -> Self {
        Self::new(format!("the query `{name}`"), error)
    }

    fn of_sql(error: SourceError) -> Self {
        Self::new("`sql`", error)
    }

    /// The source does not exist.
    pub fn no_source(name: &str, source: &str) -> Self {
        Self::of_query(
            name,
            SourceError::Refused(format!("this project has no data source {source}")),
        )
    }
}

#[cfg(not(feature = "sqlite"))]
impl super::Sources {
    /// Refuses: the results would be joined in SQLite.
    ///
    /// # Errors
    /// Always: this build has no driver for SQLite.
    pub async fn join(
        &self,
        _: &sqlx::PgPool,
        _: rejoin_db::rls::Scope,
        _: &[Part<'_>],
        _: &str,
        _: JoinBounds,
    ) -> Result<Join, JoinError> {
        use rejoin_integrations::data_sources::Kind;
        Err(JoinError::of_sql(SourceError::no_driver(Kind::Sqlite)))
    }
}
