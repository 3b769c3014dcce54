//! Cached schemas of data sources' tables and collections. Called wherever schemas are shown.
//!
//! Invariant: a schema that was read over different connection settings is not returned.

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgExecutor;

use super::DataSource;

/// Maximum number of cached schemas per source; the oldest are evicted first.
const MAX_KEPT: i64 = 2_000;

/// A cached schema, and when it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    pub schema: Value,
    pub read_at: DateTime<Utc>,
}

/// Returns the cached schema, unless it is older than `max_age_s`.
pub async fn get(
    db: impl PgExecutor<'_>,
    source: &DataSource,
    database: &str,
    table: &str,
    max_age_s: i32,
) -> Result<Option<Kept>, sqlx::Error> {
    sqlx::query_as!(
        Kept,
        "select schema, read_at from kb.data_source_schemas
         where data_source_id = $1 and database = $2 and table_name = $3 and revision = $4
           and read_at > now() - make_interval(secs => $5::int)",
        source.id,
        database,
        table,
        source.revision,
        max_age_s
    )
    .fetch_optional(db)
    .await
}

/// Caches a schema that was just read; returns the time.
pub async fn keep(
    db: impl PgExecutor<'_>,
    source: &DataSource,
    database: &str,
    table: &str,
    schema: &Value,
) -> Result<DateTime<Utc>, sqlx::Error> {
    sqlx::query_scalar!(
        "with room as (
             delete from kb.data_source_schemas
             where data_source_id = $1
               and (database, table_name) in (
                   select database, table_name from kb.data_source_schemas
                   where data_source_id = $1 and (database, table_name) <> ($3, $4)
                   order by read_at desc offset $7)
         )
         insert into kb.data_source_schemas (data_source_id, project_id, database, table_name, revision, schema)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (data_source_id, database, table_name) do update
         set revision = $5, schema = $6, read_at = now()
         returning read_at",
        source.id,
        source.workspace_id,
        database,
        table,
        source.revision,
        schema,
        MAX_KEPT - 1
    )
    .fetch_one(db)
    .await
}

/// Drops a source's cached schemas: its tables may have changed.
pub async fn forget(db: impl PgExecutor<'_>, source: &DataSource) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from kb.data_source_schemas where data_source_id = $1",
        source.id
    )
    .execute(db)
    .await?;
    Ok(())
}
