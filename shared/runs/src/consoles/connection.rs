//! The connection in a console's metadata: its database, how to reach it, and its last known schema. None of it is
//! stored with the console: it is read together with the console, so that it is never older than the data source.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::Console;
use rejoin_integrations::data_sources::{self, Content, Kind};

/// Metadata keys that only the server sets.
pub const SERVER_KEYS: [&str; 2] = ["connectionDetails", "cachedSchema"];
/// Maximum number of tables in a console's cached schema.
const TABLES_MAX: i64 = 20;
/// Maximum size of its cached schema, in bytes.
const SCHEMA_MAX_BYTES: usize = 64 * 1024;

/// The metadata of a console as shown: the stored ones, with its connection: `databaseId`, `databaseType`,
/// `databaseName`, `connectionDetails`, and `cachedSchema` {timestamp, schema} of the tables named by its text.
pub async fn metadata(db: &mut PgConnection, workspace_id: Uuid, console: &Console) -> Result<Value, sqlx::Error> {
    let mut shown = said_by_client(console.metadata.clone());
    let source = match console.data_source_id {
        Some(id) => data_sources::get(&mut *db, workspace_id, id).await?,
        None => None,
    };
    if let Some(kind) = &console.kind {
        shown.insert("databaseType".to_owned(), json!(kind));
    }
    if let Some(database) = &console.database {
        shown.insert("databaseName".to_owned(), json!(database));
    }
    let Some(source) = source else {
        return Ok(Value::Object(shown));
    };
    let content = &source.content;
    let database = console.database.as_deref().or(content.settings.database.as_deref());
    shown.insert("databaseId".to_owned(), json!(source.id));
    shown.insert("databaseType".to_owned(), json!(content.kind));
    shown.insert("databaseName".to_owned(), json!(database.unwrap_or(&content.name)));
    shown.insert("connectionDetails".to_owned(), details(content, database));
    if let Some(cached) = cached_schema(db, console, source.revision).await? {
        shown.insert("cachedSchema".to_owned(), cached);
    }
    Ok(Value::Object(shown))
}

/// Returns the metadata to store: all but those that only the server sets.
pub fn said_by_client(metadata: Value) -> Map<String, Value> {
    let mut fields = match metadata {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    for key in SERVER_KEYS {
        fields.remove(key);
    }
    fields
}

/// The connection's details, without host, user and password.
fn details(content: &Content, database: Option<&str>) -> Value {
    match content.kind {
        Kind::Bigquery => json!({"projectId": content.settings.cloud_project, "datasetId": database}),
        Kind::Postgresql | Kind::Mysql | Kind::Sqlite | Kind::Duckdb | Kind::Mongodb => json!({ "database": database }),
    }
}

/// The cached schemas of the tables named by the console's text. None: none is cached.
async fn cached_schema(db: &mut PgConnection, console: &Console, revision: i32) -> Result<Option<Value>, sqlx::Error> {
    let found = sqlx::query!(
        "select s.database, s.table_name, s.schema, s.read_at
         from kb.data_source_schemas s join kb.data_sources d on d.id = s.data_source_id
         where s.data_source_id = $1 and s.revision = $2
           -- Without a name of its own, a console may name tables of any database of the source.
           and ($3::text is null or s.database = $3 or (s.database = '' and d.settings ->> 'database' = $3))
           and strpos(lower($4), lower(s.table_name)) > 0
         order by s.read_at desc, s.database, s.table_name limit $5",
        console.data_source_id as _,
        revision,
        console.database as _,
        console.content,
        TABLES_MAX
    )
    .fetch_all(db)
    .await?;
    let mut tables: BTreeMap<String, Value> = BTreeMap::new();
    let mut oldest: Option<DateTime<Utc>> = None;
    let mut bytes = 0;
    for row in found {
        bytes += row.schema.to_string().len();
        if bytes > SCHEMA_MAX_BYTES {
            break;
        }
        let name = if row.database.is_empty() || Some(&row.database) == console.database.as_ref() {
            row.table_name
        } else {
            format!("{}.{}", row.database, row.table_name)
        };
        tables.insert(name, row.schema);
        oldest = Some(oldest.map_or(row.read_at, |oldest| oldest.min(row.read_at)));
    }
    Ok(oldest.map(|timestamp| json!({"timestamp": timestamp, "schema": tables})))
}
