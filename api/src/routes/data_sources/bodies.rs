//! What requests about data sources and their answers say. Called by `data_sources`.

use chrono::{DateTime, Utc};
use rejoin_shared::data_sources::{Content, DataSource, Kind, Limits, Settings};
use rejoin_sources::source::{Column, Table, Tested};
use rejoin_sources::sources::Schema;
use rejoin_sources::sources::join::{Join, Joined};
use rejoin_sources::{Answer, SourceError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use axum::http::StatusCode;

use crate::extract::present;
use crate::problem::Problem;

/// How a source is reached. Which of these a kind takes is in docs/guide/data-sources.md
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "says in the OpenAPI document what `Settings` takes")]
pub struct DataSourceSettings {
    /// postgresql, mysql, mongodb
    host: Option<String>,
    port: Option<u16>,
    /// The one that is asked unless a query names another; for bigquery a dataset
    database: Option<String>,
    user: Option<String>,
    /// Absent: yes
    tls: Option<bool>,
    /// mongodb: `host` is looked up as `mongodb+srv://` does
    srv: Option<bool>,
    /// mongodb: the database that knows the user
    auth_source: Option<String>,
    /// mongodb: whether a read-only source may be asked as a user who may do more than read. Absent: no
    accepts_writer: Option<bool>,
    /// sqlite, duckdb: the file, in a folder that the operator allows
    path: Option<String>,
    /// bigquery: the cloud project that queries are billed to
    cloud_project: Option<String>,
    location: Option<String>,
    /// bigquery: its API's address, if it is not the public one
    endpoint: Option<String>,
}

/// Bounds of one query; what is absent is the operator's
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "says in the OpenAPI document what `Limits` takes")]
pub struct DataSourceLimits {
    /// [milliseconds]
    timeout_ms: Option<u64>,
    max_rows: Option<u32>,
    /// Of an answer's values [bytes]
    max_bytes: Option<u64>,
    /// bigquery: what a query may be billed for [bytes]
    max_bytes_billed: Option<u64>,
}

/// A data source. Its secret is never shown
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
    /// Whether only reads pass
    pub read_only: bool,
    /// Whether a password or a key is stored
    pub has_secret: bool,
    pub owner_user_id: Option<Uuid>,
    /// Counts its changes
    pub revision: i32,
    /// When it was last tried
    pub tested_at: Option<DateTime<Utc>>,
    /// Why it did not answer then
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

/// What a request says of a data source. Absent: the default, or in a PATCH, as it is
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DataSourceRequest {
    /// Unique in the project; a letter or a digit, then also `_`, `-` and `.`
    pub name: Option<String>,
    /// `postgresql`, `mysql`, `sqlite`, `duckdb`, `mongodb` or `bigquery`; it stays as it is
    #[schema(value_type = Option<String>)]
    pub kind: Option<Kind>,
    /// All of them: what is not there is not set
    #[schema(value_type = Option<DataSourceSettings>)]
    pub settings: Option<Settings>,
    /// The password; for bigquery the service account's key, as its JSON file. Null: it has none. It is sealed, and never shown
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub secret: Option<Option<String>>,
    #[schema(value_type = Option<DataSourceLimits>)]
    pub limits: Option<Limits>,
    /// Whether only reads pass (default)
    pub read_only: Option<bool>,
}

impl DataSourceRequest {
    /// The content that it leads to, from what there is; checked.
    pub(super) fn over(&self, before: Option<&Content>) -> Result<Content, Problem> {
        let invalid = |fault: String| Problem::bad_request("invalid_data_source", fault);
        if let (Some(kind), Some(before)) = (self.kind, before)
            && kind != before.kind
        {
            return Err(invalid("a source's kind stays: add another source".to_owned()));
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
    /// `true`: it is saved even if it does not answer
    #[serde(default)]
    pub force: bool,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct TablesParams {
    /// Absent: the source's own
    pub database: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct SchemaParams {
    /// Absent: the source's own
    pub database: Option<String>,
    /// As in the list of tables
    pub table: String,
    /// `true`: it is read now, whatever is known of it
    #[serde(default)]
    pub refresh: bool,
}

/// What came of trying a source
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestedBody {
    pub ok: bool,
    /// What the server says it is
    pub server: Option<String>,
    /// What its owner should know: a user who may do more than read, say
    pub warnings: Vec<String>,
    /// Why it did not answer
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
    /// As a query calls it
    pub name: String,
    /// `table`, `view`, `collection` …
    pub kind: String,
    /// About so many, where the server knows
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

/// What a table or a collection looks like
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaBody {
    /// `columns` [{name, type, nullable, …}], `truncated`; of collections also `documentsRead`, `sample`
    #[schema(value_type = Object)]
    pub schema: Value,
    pub read_at: DateTime<Utc>,
    /// Whether it is as it was read before
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
    /// Absent: the source's own
    pub database: Option<String>,
    /// One statement, in the source's own language
    pub query: String,
    /// Fewer rows than the source's bound
    pub max_rows: Option<u32>,
    /// `true`: it may write. That takes the scope `write`, and a source that is not read-only
    #[serde(default)]
    pub write: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct QueryColumn {
    pub name: String,
    /// As the database calls it
    #[serde(rename = "type")]
    pub type_name: String,
}

/// What a query was answered
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueryAnswer {
    pub columns: Vec<QueryColumn>,
    /// In each a value for each column
    pub rows: Vec<Vec<Value>>,
    /// Whether there was more than the bounds allow
    pub truncated: bool,
    /// Rows that a write has changed
    pub affected_rows: Option<u64>,
    /// bigquery: what it cost [bytes]
    pub bytes_billed: Option<u64>,
    /// [milliseconds]
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

/// How the server would run a query
#[derive(Debug, Serialize, ToSchema)]
pub struct Plan {
    /// As the server tells it
    pub plan: Value,
}

/// A source's refusal, as it is told to whoever asked.
pub(super) fn problem(error: SourceError) -> Problem {
    problem_of(&error, error.to_string())
}

/// The same for a part of a join, with words that tell which one.
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

/// Queries of several data sources, whose answers are joined
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinRequest {
    /// 2 to 5 of them
    pub queries: Vec<JoinedQuery>,
    /// One SELECT of SQLite's over the tables that the queries' names are
    pub sql: String,
    /// Fewer rows than the operator's bound
    pub max_rows: Option<u32>,
}

/// A query whose answer becomes a table
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinedQuery {
    /// What `sql` calls the table: letters, digits and `_`, beginning with a letter
    pub name: String,
    /// A data source, by its name or its id
    pub source: String,
    /// Absent: the source's own
    pub database: Option<String>,
    /// One statement that reads, in the source's own language
    pub query: String,
}

/// What became of a query
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinedPart {
    pub name: String,
    /// The data source's name
    pub source: String,
    /// As `sql` calls them, with the types that they have there
    pub columns: Vec<QueryColumn>,
    /// How many rows were joined
    pub rows: usize,
    /// Whether there were more, which are missing from the join
    pub truncated: bool,
    /// [milliseconds]
    pub elapsed_ms: u64,
    /// bigquery: what it cost [bytes]
    pub bytes_billed: Option<u64>,
}

/// What a join was answered
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinAnswer {
    pub columns: Vec<QueryColumn>,
    /// In each a value for each column
    pub rows: Vec<Vec<Value>>,
    /// Whether the join has more rows than the bounds allow
    pub truncated: bool,
    /// Whether a query was truncated, so that rows, counts and sums may be missing something
    pub partial: bool,
    /// That, in words
    pub note: Option<String>,
    pub queries: Vec<JoinedPart>,
    /// [milliseconds]
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
