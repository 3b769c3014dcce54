//! The knowledge graph: typed objects and directed relationships of a workspace; every edit makes a new version.
//!
//! Called by the API's graph routes, the worker's graph tools and the command line's import. Invariants: every query
//! names its workspace; superseded and deleted versions show only in `history`; relationships hold canonical ids.
//!
//! - `objects`        create, get, update, delete, restore, history, list, and lookup by reference
//! - `relationships`  the same for relationships
//! - `bounds`         restricts which objects are visible
//! - `edges`          the relationships of an object, from its point of view
//! - `packs`          template packs: types with schemas, and their installation
//! - `rules`          validates writes against those schemas
//! - `migration`      effects of changing a pack's version; earlier versions of objects
//! - `schema`         existing types, relationship types and labels, with counts; the version of that set
//! - `search`         lexical search with typo tolerance; similar objects
//! - `hybrid_ranking` lexical, semantic and hybrid search
//! - `embedder`       the embedding model for queries
//! - `vectors`        nearest-neighbour search
//! - `binary_index`   in-process binary-quantized vectors of large workspaces
//! - `embedding_backlog` the embedding backlog
//! - `query`          the significant words of a search query
//! - `traverse`       breadth-first traversal, one statement per level
//! - `path`           shortest path between two objects
//! - `ndjson`         one line of an import or export
//! - `import`         NDJSON import: staged by COPY, merged in sets, atomic, idempotent
//! - `export`         NDJSON export, streamed

pub mod binary_index;
pub mod bounds;
pub mod edges;
pub mod embedder;
pub mod embedding_backlog;
pub mod export;
pub mod hybrid_ranking;
pub mod import;
pub mod migration;
pub mod ndjson;
pub mod objects;
pub mod packs;
pub mod path;
pub mod query;
pub mod query_vector;
pub mod relationships;
pub mod rules;
pub mod schema;
pub mod scope;
pub mod search;
pub mod traverse;
pub mod vectors;

use chrono::{DateTime, Datelike as _, Utc};
use serde_json::{Map, Value};
use sqlx::PgConnection;
use uuid::Uuid;

/// Maximum size of an object's or relationship's properties, in bytes of JSON. PostgreSQL rejects a text vector of 1
/// MiB; this stays well below.
pub const MAX_PROPERTIES_BYTES: usize = 256 * 1024;
/// Maximum size of a key, in bytes: it must fit into a B-tree entry together with its type (2,704 bytes).
pub const MAX_KEY_BYTES: usize = 1024;
/// Maximum size of a type, status or label, in bytes.
pub const MAX_TYPE_BYTES: usize = 200;
pub const MAX_LABELS: usize = 100;
/// Maximum size of a name or title, in bytes: it is indexed, too.
pub const MAX_NAME_BYTES: usize = 1024;
/// Allowed years of a relationship's times.
const YEARS: std::ops::RangeInclusive<i32> = 1..=9999;
/// Maximum nesting of properties.
pub const MAX_PROPERTIES_DEPTH: usize = 32;

/// The author of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actor {
    pub kind: ActorKind,
    pub id: Option<Uuid>,
}

rejoin_types::text_enum! {
    pub enum ActorKind {
        User = "user",
        Agent = "agent",
        Import = "import",
        System = "system",
    }
}

rejoin_types::text_enum! {
    /// The direction in which relationships of an object are followed.
    #[derive(Default)]
    pub enum Direction {
        Outgoing = "outgoing",
        Incoming = "incoming",
        #[default]
        Both = "both",
    }
}

/// The error of a graph operation. The texts of all but `Database` may be shown to users and models.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {what} in this project")]
    NotFound { what: String },
    #[error("version {expected} was expected, but the latest is {actual}; read it again and repeat the change")]
    VersionConflict { expected: i32, actual: i32 },
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{attempted}")]
    Database {
        attempted: &'static str,
        #[source]
        source: sqlx::Error,
    },
}

impl Error {
    /// For `map_err`: adds what was attempted, and keeps the cause.
    pub fn database(attempted: &'static str) -> impl FnOnce(sqlx::Error) -> Error {
        move |source| Error::Database { attempted, source }
    }

    pub fn not_found(what: &str, id: Uuid) -> Error {
        Error::NotFound {
            what: format!("{what} {id}"),
        }
    }
}

/// Returns a type, status or label in its stored form; the error says what is wrong with it.
pub fn checked_word(what: &str, word: &str, max_bytes: usize) -> Result<(), String> {
    if word.trim().is_empty() {
        return Err(format!("{what} is empty"));
    }
    if word.len() > max_bytes {
        return Err(format!("{what} is longer than {max_bytes} bytes"));
    }
    // PostgreSQL cannot store NUL in text.
    if word.contains('\0') {
        return Err(format!("{what} contains a NUL character"));
    }
    Ok(())
}

/// Checks properties against the limits of the table and its indexes.
pub(crate) fn checked_properties(properties: &Map<String, Value>) -> Result<(), String> {
    for (key, value) in properties {
        if key.contains('\0') {
            return Err("a property's name contains a NUL character".to_owned());
        }
        checked_value(key, value, MAX_PROPERTIES_DEPTH)?;
    }
    for key in ["name", "title"] {
        if let Some(Value::String(text)) = properties.get(key)
            && text.len() > MAX_NAME_BYTES
        {
            return Err(format!("property {key} is longer than {MAX_NAME_BYTES} bytes"));
        }
        if let Some(Value::Array(_) | Value::Object(_)) = properties.get(key) {
            return Err(format!("property {key} must be text"));
        }
    }
    let bytes = serde_json::to_vec(properties).map_or(usize::MAX, |json| json.len());
    // PostgreSQL writes numbers without exponents: 1e308 has 309 digits in each read.
    let bytes = bytes.saturating_add(properties.values().map(digits_beyond).sum());
    if bytes > MAX_PROPERTIES_BYTES {
        return Err(format!(
            "the properties have {bytes} bytes; the limit is {MAX_PROPERTIES_BYTES}"
        ));
    }
    Ok(())
}

fn checked_value(key: &str, value: &Value, depth_left: usize) -> Result<(), String> {
    if depth_left == 0 {
        return Err(format!(
            "property {key} is nested deeper than {MAX_PROPERTIES_DEPTH} levels"
        ));
    }
    match value {
        Value::String(text) if text.contains('\0') => Err(format!("property {key} contains a NUL character")),
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| checked_value(key, item, depth_left - 1)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, item)| {
            if name.contains('\0') {
                return Err(format!("property {key} contains a NUL character"));
            }
            checked_value(key, item, depth_left - 1)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Returns the additional digits of numbers that have an exponent here and none in the database.
fn digits_beyond(value: &Value) -> usize {
    match value {
        Value::Number(number) if number.is_f64() => {
            let written = number.to_string();
            let exponent = written
                .split_once('e')
                .and_then(|(_, exponent)| exponent.parse::<i32>().ok());
            exponent.map_or(0, |exponent| exponent.unsigned_abs() as usize)
        }
        Value::Array(items) => items.iter().map(digits_beyond).sum(),
        Value::Object(fields) => fields.values().map(digits_beyond).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Checks that a time is in the supported range.
pub(crate) fn checked_time(what: &str, time: Option<DateTime<Utc>>) -> Result<(), String> {
    match time.map(|time| time.year()) {
        Some(year) if !YEARS.contains(&year) => Err(format!(
            "{what} is in the year {year}; only years from {} to {} are allowed",
            YEARS.start(),
            YEARS.end()
        )),
        Some(_) | None => Ok(()),
    }
}

/// Returns labels in their stored form: sorted, without duplicates.
pub(crate) fn checked_labels(labels: &[String]) -> Result<Vec<String>, String> {
    if labels.len() > MAX_LABELS {
        return Err(format!("{} labels; the limit is {MAX_LABELS}", labels.len()));
    }
    for label in labels {
        checked_word("a label", label, MAX_TYPE_BYTES)?;
    }
    let mut labels = labels.to_vec();
    labels.sort();
    labels.dedup();
    Ok(labels)
}

/// Serializes writers of one object or relationship until the transaction ends: waiting for the lock of the head's row
/// alone could leave a writer with a superseded row.
pub async fn take_turns(db: &mut PgConnection, id: Uuid) -> Result<(), Error> {
    sqlx::query!("select pg_advisory_xact_lock(hashtextextended($1::uuid::text, 0))", id)
        .execute(db)
        .await
        .map_err(Error::database("wait for other writers"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn properties_with_nul_or_of_great_depth_are_refused() {
        let nul = json!({"a": [{"b": "x\0y"}]});
        assert!(
            checked_properties(nul.as_object().unwrap())
                .unwrap_err()
                .contains("NUL")
        );
        let mut deep = json!(1);
        for _ in 0..MAX_PROPERTIES_DEPTH {
            deep = json!([deep]);
        }
        let deep = json!({ "a": deep });
        assert!(
            checked_properties(deep.as_object().unwrap())
                .unwrap_err()
                .contains("nested")
        );
    }

    #[test]
    fn labels_are_sorted_and_each_once() {
        let labels = ["b", "a", "b"].map(str::to_owned);
        assert_eq!(checked_labels(&labels).unwrap(), ["a", "b"]);
    }
}
