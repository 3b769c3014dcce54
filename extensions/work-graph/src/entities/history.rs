//! Versions of an entity.

use chrono::{DateTime, Utc};
use rejoin_graph::Error;
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::kinds::Kind;

/// Maximum number of entities on a page of [`find`].
pub const MAX_PAGE: i64 = 500;

/// One version of an entity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Version {
    pub version: i32,
    pub name: String,
    pub properties: Value,
    pub change_summary: Option<String>,
    /// `chat`, `ui`, `api`, …
    pub change_source: Option<String>,
    pub actor_type: String,
    pub actor_id: Option<Uuid>,
    pub written_at: DateTime<Utc>,
    pub deleted: bool,
}

/// Returns versions, newest first, also of a deleted entity.
pub async fn history(
    db: &mut PgConnection,
    space: Uuid,
    kind: Kind,
    id: Uuid,
    limit: i64,
) -> Result<Vec<Version>, Error> {
    let versions = sqlx::query_as!(
        Version,
        r#"select version, name, properties, change_summary, change_source, actor_type, actor_id, updated_at as written_at,
               deleted_at is not null as "deleted!"
           from kb.graph_objects where project_id = $1 and canonical_id = $2 and type = $4
           order by version desc limit $3"#,
        space,
        id,
        limit.clamp(1, MAX_PAGE),
        kind.as_str(),
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("read an entity's versions"))?;
    if versions.is_empty() {
        Err(Error::not_found(kind.as_str(), id))
    } else {
        Ok(versions)
    }
}
