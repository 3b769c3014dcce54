//! Request and response bodies of data sources. Called by `data_sources`.
//!
//! - `join`  those of joins

pub(super) mod join;

use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_http::extract::present;
use rejoin_http::problem::Problem;
use rejoin_integrations::data_sources::{Content, DataSource, Kind, Limits, Settings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::source::{Column, Table, Tested};
use crate::sources::Schema;
use crate::{Answer, SourceError};

/// Connection settings. Which of them a kind of source uses is listed in docs/guide/data-sources.md
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "says in the OpenAPI document what `Settings` takes")]
pub struct DataSourceSettings {
    /// postgresql, mysql, mongodb
    host: Option<String>,
    port: Option<u16>,
    /// Default database of queries; for bigquery a dataset
    database: Option<String>,
    user: Option<String>,
    /// Whether to use TLS. Absent: yes
    tls: Option<bool>,
    /// mongodb: resolve `host` as `mongodb+srv://` does
    srv: Option<bool>,
    /// mongodb: the database that authenticates the user
    auth_source: Option<String>,
    /// mongodb: whether a read-only source may use a user who has more privileges than reading. Absent: no
    accepts_writer: Option<bool>,
    /// sqlite, duckdb: the file, in a directory that the operator allows
    path: Option<String>,
    /// bigquery: the Google Cloud project that is billed for queries
    cloud_project: Option<String>,
    location: Option<String>,
    /// bigquery: URL of the API, if it is not the public one
    endpoint: Option<String>,
}

/// Limits of a query; absent limits are the operator's
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "says in the OpenAPI document what `Limits` takes")]
pub struct DataSourceLimits {
    /// In milliseconds
    timeout_ms: Option<u64>,
    max_rows: Option<u32>,
    /// Maximum size of a result's values, in bytes
    max_bytes: Option<u64>,
    /// bigquery: maximum data a query may be billed for, in bytes
    max_bytes_billed: Option<u64>,
}

/// A data source. Its secret is never returned
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataSourceBody {
    pub id: Uuid,
    pub name: String,
    /// `postgresql`, `mysql`, `sqlite`, `duckdb`, `mongodb` or `bigquery`
    #[schema(value_type = String)]
    pub kind: Kind,
    #[schema(value_type = DataSourceSettings)]
    pub settings: Settings,
    #[schema(value_type = DataSourceLimits)]
    pub limits: Limits,
    /// Whether only read queries are allowed
    pub read_only: bool,
    /// Whether a password or a key is stored
    pub has_secret: bool,
    pub owner_user_id: Option<Uuid>,
    /// Revision number, incremented by each change
    pub revision: i32,
    /// Time of the last test
    pub tested_at: Option<DateTime<Utc>>,
    /// Why the last test failed
    pub failure: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

impl From<DataSource> for DataSourceBody {
    fn from(source: DataSource) -> Self {
        Self {
            id: source.id,
            name: source.content.name,
            kind: source.content.kind,
            settings: source.content.settings,
            limits: source.content.limits,
            read_only: source.content.read_only,
            has_secret: source.has_secret,
            owner_user_id: source.owner_user_id,
            revision: source.revision,
            tested_at: source.tested_at,
            failure: source.failure,
            created_at: source.created_at,
            updated_at: source.updated_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct DataSources {
    pub items: Vec<DataSourceBody>,
}

/// A data source in a request. Absent: the default, or in a PATCH, unchanged
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DataSourceRequest {
    /// Unique in the project; starts with a letter or a digit and may also contain `_`, `-` and `.`
    pub name: Option<String>,
    /// `postgresql`, `mysql`, `sqlite`, `duckdb`, `mongodb` or `bigquery`; cannot be changed
    #[schema(value_type = Option<String>)]
    pub kind: Option<Kind>,
    /// All connection settings: omitted ones are removed
    #[schema(value_type = Option<DataSourceSettings>)]
    pub settings: Option<Settings>,
    /// The password; for bigquery the service account key as JSON. Null: none. It is stored encrypted and never
    /// returned
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub secret: Option<Option<String>>,
    #[schema(value_type = Option<DataSourceLimits>)]
    pub limits: Option<Limits>,
    /// Whether only read queries are allowed (default)
    pub read_only: Option<bool>,
}

impl DataSourceRequest {
    /// Applies the patch to the existing content; validates the result.
    pub(super) fn apply_to(&self, before: Option<&Content>) -> Result<Content, Problem> {
        let invalid = |fault: String| Problem::bad_request("invalid_data_source", fault);
        if let (Some(kind), Some(before)) = (self.kind, before)
            && kind != before.kind
        {
            return Err(invalid(
                "a source's kind cannot be changed; add another source".to_owned(),
            ));
        }
        let kind = self.kind.or(before.map(|before| before.kind)).ok_or_else(|| {
            invalid("`kind` is missing: postgresql, mysql, sqlite, duckdb, mongodb or bigquery".to_owned())
        })?;
        let was = |take: fn(&Content) -> String| before.map(take);
        let content = Content {
            name: self
                .name
                .clone()
                .or(was(|before| before.name.clone()))
                .unwrap_or_default(),
            kind,
            settings: self
                .settings
                .clone()
                .or(before.map(|before| before.settings.clone()))
                .unwrap_or_default(),
            limits: self
                .limits
                .clone()
                .or(before.map(|before| before.limits.clone()))
                .unwrap_or_default(),
            read_only: self.read_only.or(before.map(|before| before.read_only)).unwrap_or(true),
        };
        content.check().map_err(invalid)?;
        Ok(content)
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ForceParams {
    /// `true`: save the source even if the test fails
    #[serde(default)]
    pub force: bool,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct TablesParams {
    /// Absent: the source's default database
    pub database: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct SchemaParams {
    /// Absent: the source's default database
    pub database: Option<String>,
    /// The table's name, as in the list of tables
    pub table: String,
    /// `true`: read the schema again instead of using the cache
    #[serde(default)]
    pub refresh: bool,
}

/// The result of a connection test
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestedBody {
    pub ok: bool,
    /// The server's product and version
    pub server: Option<String>,
    /// Warnings for the owner, such as a user with more privileges than reading
    pub warnings: Vec<String>,
    /// Why the test failed
    pub failure: Option<String>,
}

impl TestedBody {
    pub(super) fn of(tested: &Result<Tested, SourceError>) -> Self {
        match tested {
            Ok(tested) => Self {
                ok: true,
                server: Some(tested.server.clone()),
                warnings: tested.warnings.clone(),
                failure: None,
            },
            Err(error) => Self {
                ok: false,
                server: None,
                warnings: Vec::new(),
                failure: Some(error.to_string()),
            },
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Databases {
    pub items: Vec<String>,
}

/// A table, a view or a collection
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TableBody {
    /// Its name in queries
    pub name: String,
    /// `table`, `view`, `collection` …
    pub kind: String,
    /// Estimated number of rows, if the server provides it
    pub rows: Option<u64>,
}

impl From<Table> for TableBody {
    fn from(table: Table) -> Self {
        Self {
            name: table.name,
            kind: table.kind,
            rows: table.rows,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Tables {
    pub items: Vec<TableBody>,
}

/// The schema of a table or a collection
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaBody {
    /// `columns` [{name, type, nullable, …}], `truncated`; for collections also `documentsRead`, `sample`
    #[schema(value_type = Object)]
    pub schema: Value,
    pub read_at: DateTime<Utc>,
    /// Whether it is cached
    pub cached: bool,
}

impl From<Schema> for SchemaBody {
    fn from(schema: Schema) -> Self {
        Self {
            schema: schema.schema,
            read_at: schema.read_at,
            cached: schema.cached,
        }
    }
}

/// A query of a data source
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryRequest {
    /// Absent: the source's default database
    pub database: Option<String>,
    /// One statement, in the source's query language
    pub query: String,
    /// Maximum number of rows, at most the source's limit
    pub max_rows: Option<u32>,
    /// `true`: allow writing. Requires the scope `write` and a source that is not read-only
    #[serde(default)]
    pub write: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct QueryColumn {
    pub name: String,
    /// Type, as the database names it
    #[serde(rename = "type")]
    pub type_name: String,
}

/// The result of a query
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueryAnswer {
    pub columns: Vec<QueryColumn>,
    /// Each row has one value per column
    pub rows: Vec<Vec<Value>>,
    /// Whether rows were omitted because of limits
    pub truncated: bool,
    /// Number of rows changed by a write
    pub affected_rows: Option<u64>,
    /// bigquery: billed data, in bytes
    pub bytes_billed: Option<u64>,
    /// In milliseconds
    pub elapsed_ms: u64,
}

impl From<Answer> for QueryAnswer {
    fn from(answer: Answer) -> Self {
        Self {
            columns: query_columns(answer.rows.columns),
            rows: answer.rows.rows,
            truncated: answer.rows.truncated,
            affected_rows: answer.rows.affected_rows,
            bytes_billed: answer.rows.bytes_billed,
            elapsed_ms: answer.elapsed_ms,
        }
    }
}

fn query_columns(columns: Vec<Column>) -> Vec<QueryColumn> {
    let column = |column: Column| QueryColumn {
        name: column.name,
        type_name: column.type_name,
    };
    columns.into_iter().map(column).collect()
}

/// A query's execution plan
#[derive(Debug, Serialize, ToSchema)]
pub struct Plan {
    /// The plan in the server's format
    pub plan: Value,
}

/// Converts a source's error for the caller.
pub(super) fn problem(error: SourceError) -> Problem {
    problem_of(&error, error.to_string())
}

/// The same for a part of a join, with text that names it.
pub(super) fn problem_of(error: &SourceError, detail: String) -> Problem {
    let (status, code) = match error {
        SourceError::Refused(_) => (StatusCode::UNPROCESSABLE_ENTITY, "query_refused"),
        SourceError::Failed(_) => (StatusCode::UNPROCESSABLE_ENTITY, "query_failed"),
        SourceError::TooLarge(_) => (StatusCode::UNPROCESSABLE_ENTITY, "answer_too_large"),
        SourceError::Unreachable(_) => (StatusCode::BAD_GATEWAY, "data_source_unreachable"),
        SourceError::TimedOut(_) => (StatusCode::GATEWAY_TIMEOUT, "query_timed_out"),
        SourceError::Unconfigured(_) => (StatusCode::SERVICE_UNAVAILABLE, "data_sources_not_configured"),
    };
    Problem::new(status, code, detail)
}
