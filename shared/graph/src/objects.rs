//! Objects of the graph: types and SQL of `kb.graph_objects`.
//!
//! - `find`  live objects: lists, queries, and resolution of references
//! - `batch` changes of several objects in a few statements
//!
//! Called by the API's graph routes, the write and read tools, and `relationships`. Invariant: an object has exactly
//! one head; only the head is shown, except in `history`.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sqlx::{Connection as _, PgConnection, PgExecutor};
use uuid::Uuid;

mod batch;
mod find;

pub use batch::update_many;
pub use find::{Filter, Resolved, SortBy, SortOrder, list, query, resolve};

use super::rules::Rules;
use rejoin_types::digest;

use super::{
    Actor, Error, MAX_KEY_BYTES, MAX_TYPE_BYTES, checked_labels, checked_properties, checked_word, take_turns,
};

/// Maximum number of objects on a page of [`list`] or [`query`], and of versions in [`history`].
pub const MAX_PAGE: i64 = 1000;

/// One version of an object; outside `history` always its head.
#[derive(Debug, Clone, PartialEq, Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    /// The canonical id, equal in all versions.
    pub id: Uuid,
    pub version: i32,
    #[serde(rename = "type")]
    #[sqlx(rename = "type")]
    pub object_type: String,
    pub key: String,
    /// Property `name` or `title`, else the key.
    pub name: String,
    pub status: Option<String>,
    pub labels: Vec<String>,
    pub properties: Value,
    pub change_summary: Option<String>,
    pub schema_version: Option<String>,
    pub actor_type: String,
    pub actor_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub deleted_at: Option<DateTime<Utc>>,
}

/// The columns of [`Object`], for statements built at run time; `o` is the table.
pub const COLUMNS: &str = "o.canonical_id as id, o.version, o.type, o.key, o.name, o.status, o.labels, o.properties, \
    o.change_summary, o.schema_version, o.actor_type, o.actor_id, o.created_at, o.updated_at, o.deleted_at";

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewObject {
    #[serde(rename = "type")]
    pub object_type: String,
    /// Absent: the object's id becomes its key.
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub status: Option<String>,
    #[serde(default)]
    pub labels: Vec<String>,
    #[serde(default)]
    pub properties: Map<String, Value>,
    #[serde(default)]
    pub schema_version: Option<String>,
}

/// A patch of an object; absent fields stay unchanged.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// Merged into the properties, at the top level; null deletes a property.
    #[serde(default)]
    pub properties: Map<String, Value>,
    #[serde(default)]
    pub status: Option<String>,
    #[serde(default)]
    pub labels: Option<Vec<String>>,
    /// Labels replace the existing ones instead of being added.
    #[serde(default)]
    pub replace_labels: bool,
    /// The version that the change is based on; with another head: [`Error::VersionConflict`].
    #[serde(default)]
    pub expected_version: Option<i32>,
    #[serde(default)]
    pub change_summary: Option<String>,
}

pub fn object_hash(
    object_type: &str,
    key: &str,
    status: Option<&str>,
    labels: &[String],
    properties: &Value,
) -> Vec<u8> {
    digest::of_json(&[&json!([object_type, key, status, labels]), properties])
}

pub async fn create(db: &mut PgConnection, workspace_id: Uuid, new: &NewObject, actor: Actor) -> Result<Object, Error> {
    insert(db, workspace_id, Uuid::now_v7(), new, actor)
        .await?
        .ok_or_else(|| key_taken(&new.object_type, new.key.as_deref().unwrap_or_default()))
}

/// The same with the caller's id, idempotent: a repetition returns the existing object in its current state.
pub async fn create_once(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    new: &NewObject,
    actor: Actor,
) -> Result<Object, Error> {
    if let Some(made) = insert(&mut *db, workspace_id, id, new, actor).await? {
        return Ok(made);
    }
    let taken = || key_taken(&new.object_type, new.key.as_deref().unwrap_or_default());
    match history(db, workspace_id, id, 1).await {
        Ok(versions) => versions.into_iter().next().ok_or_else(taken),
        Err(Error::NotFound { .. }) => Err(taken()),
        Err(other) => Err(other),
    }
}

/// None: its key or id is taken.
async fn insert(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    new: &NewObject,
    actor: Actor,
) -> Result<Option<Object>, Error> {
    let key = new.key.clone().unwrap_or_else(|| id.to_string());
    checked_word("type", &new.object_type, MAX_TYPE_BYTES).map_err(Error::Invalid)?;
    checked_word("key", &key, MAX_KEY_BYTES).map_err(Error::Invalid)?;
    if let Some(status) = &new.status {
        checked_word("status", status, MAX_TYPE_BYTES).map_err(Error::Invalid)?;
    }
    let labels = checked_labels(&new.labels).map_err(Error::Invalid)?;
    checked_properties(&new.properties).map_err(Error::Invalid)?;
    let properties = Value::Object(new.properties.clone());
    let mut tx = db
        .begin()
        .await
        .map_err(Error::database("begin the creation of an object"))?;
    let rules = Rules::of(&mut tx, workspace_id).await?;
    let pack = rules.object(&new.object_type, &properties).map_err(Error::Invalid)?;
    let hash = object_hash(&new.object_type, &key, new.status.as_deref(), &labels, &properties);
    let made = sqlx::query_as!(
        Object,
        r#"insert into kb.graph_objects
               (id, project_id, canonical_id, version, type, key, status, labels, properties, content_hash, schema_version,
                actor_type, actor_id)
           values ($1, $2, $1, 1, $3, $4, $5, $6, $7, $8, $9, $10, $11)
           on conflict do nothing
           returning canonical_id as id, version, type as object_type, key, name, status, labels, properties, change_summary,
               schema_version, actor_type, actor_id, created_at, updated_at, deleted_at"#,
        id,
        workspace_id,
        new.object_type,
        key,
        new.status,
        &labels,
        properties,
        hash,
        new.schema_version.as_deref().or(pack),
        actor.kind.as_str(),
        actor.id,
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(Error::database("create an object"))?;
    tx.commit().await.map_err(Error::database("commit an object"))?;
    Ok(made)
}

/// Returns the live object with this canonical id.
pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Object, Error> {
    sqlx::query_as!(
        Object,
        r#"select canonical_id as id, version, type as object_type, key, name, status, labels, properties, change_summary,
               schema_version, actor_type, actor_id, created_at, updated_at, deleted_at
           from kb.graph_objects
           where project_id = $1 and canonical_id = $2 and superseded_at is null and deleted_at is null"#,
        workspace_id,
        id,
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("read an object"))?
    .ok_or_else(|| Error::not_found("object", id))
}

/// Writes a new version with the patch applied. A patch without effect writes none and returns the head.
pub async fn update(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    change: &ObjectChange,
    actor: Actor,
) -> Result<Object, Error> {
    let mut tx = db
        .begin()
        .await
        .map_err(Error::database("begin the update of an object"))?;
    let head = lock_head(&mut tx, workspace_id, id).await?;
    let rules = Rules::of(&mut tx, workspace_id).await?;
    let Some(next) = patched(&head, change, &rules)? else {
        return Ok(head);
    };
    let written = write_version(&mut tx, workspace_id, &next, actor).await?;
    tx.commit()
        .await
        .map_err(Error::database("commit the update of an object"))?;
    Ok(written)
}

/// Returns the next version of a live object, with the patch applied. None: the patch changes nothing.
fn patched(head: &Object, change: &ObjectChange, rules: &Rules) -> Result<Option<Object>, Error> {
    if head.deleted_at.is_some() {
        return Err(Error::not_found("object", head.id));
    }
    if let Some(expected) = change.expected_version
        && expected != head.version
    {
        return Err(Error::VersionConflict {
            expected,
            actual: head.version,
        });
    }
    let mut next = head.clone();
    next.properties = Value::Object(merged(&head.properties, &change.properties));
    checked_properties(next.properties.as_object().unwrap_or(&Map::new())).map_err(Error::Invalid)?;
    if let Some(pack) = rules
        .object(&next.object_type, &next.properties)
        .map_err(Error::Invalid)?
    {
        next.schema_version = Some(pack.to_owned());
    }
    if let Some(status) = &change.status {
        checked_word("status", status, MAX_TYPE_BYTES).map_err(Error::Invalid)?;
        next.status = Some(status.clone());
    }
    if let Some(labels) = &change.labels {
        let mut labels = labels.clone();
        if !change.replace_labels {
            labels.extend(head.labels.iter().cloned());
        }
        next.labels = checked_labels(&labels).map_err(Error::Invalid)?;
    }
    next.change_summary = change.change_summary.clone();
    let changes_nothing =
        next.properties == head.properties && next.status == head.status && next.labels == head.labels;
    Ok((!changes_nothing).then_some(next))
}

/// Soft delete: writes a deleted version. Its relationships are kept, and visible again when it is restored.
pub async fn delete(db: &mut PgConnection, workspace_id: Uuid, id: Uuid, actor: Actor) -> Result<Object, Error> {
    set_deleted(db, workspace_id, id, true, actor).await
}

/// Undoes [`delete`]; refused if another object has taken the key. No effect on a live object.
pub async fn restore(db: &mut PgConnection, workspace_id: Uuid, id: Uuid, actor: Actor) -> Result<Object, Error> {
    set_deleted(db, workspace_id, id, false, actor).await
}

async fn set_deleted(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    deleted: bool,
    actor: Actor,
) -> Result<Object, Error> {
    let mut tx = db
        .begin()
        .await
        .map_err(Error::database("begin the deletion of an object"))?;
    let head = lock_head(&mut tx, workspace_id, id).await?;
    if head.deleted_at.is_some() == deleted {
        return if deleted {
            Err(Error::not_found("object", id))
        } else {
            Ok(head)
        };
    }
    let mut next = head;
    next.deleted_at = if deleted {
        let now = sqlx::query_scalar!(r#"select now() as "now!""#)
            .fetch_one(&mut *tx)
            .await
            .map_err(Error::database("read the time of a deletion"))?;
        Some(now)
    } else {
        None
    };
    next.change_summary = Some(if deleted { "deleted" } else { "restored" }.to_owned());
    let written = write_version(&mut tx, workspace_id, &next, actor).await?;
    tx.commit()
        .await
        .map_err(Error::database("commit the deletion of an object"))?;
    Ok(written)
}

/// Returns all versions, newest first; also of a deleted object.
pub async fn history(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid, limit: i64) -> Result<Vec<Object>, Error> {
    let versions = sqlx::query_as!(
        Object,
        r#"select canonical_id as id, version, type as object_type, key, name, status, labels, properties, change_summary,
               schema_version, actor_type, actor_id, created_at, updated_at, deleted_at
           from kb.graph_objects
           where project_id = $1 and canonical_id = $2
           order by version desc
           limit $3"#,
        workspace_id,
        id,
        limit.clamp(1, MAX_PAGE),
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("read an object's versions"))?;
    if versions.is_empty() {
        Err(Error::not_found("object", id))
    } else {
        Ok(versions)
    }
}

/// Locks and returns the head, deleted or not, until the transaction ends.
async fn lock_head(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<Object, Error> {
    take_turns(db, id).await?;
    sqlx::query_as!(
        Object,
        r#"select canonical_id as id, version, type as object_type, key, name, status, labels, properties, change_summary,
               schema_version, actor_type, actor_id, created_at, updated_at, deleted_at
           from kb.graph_objects
           where project_id = $1 and canonical_id = $2 and superseded_at is null
           for update"#,
        workspace_id,
        id,
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("lock an object"))?
    .ok_or_else(|| Error::not_found("object", id))
}

/// Replaces the head from which `next` was made (its `version`) by it; the head is locked.
async fn write_version(
    db: &mut PgConnection,
    workspace_id: Uuid,
    next: &Object,
    actor: Actor,
) -> Result<Object, Error> {
    sqlx::query!(
        "update kb.graph_objects set superseded_at = now()
         where project_id = $1 and canonical_id = $2 and version = $3 and superseded_at is null",
        workspace_id,
        next.id,
        next.version,
    )
    .execute(&mut *db)
    .await
    .map_err(Error::database("supersede an object's version"))?;
    let hash = object_hash(
        &next.object_type,
        &next.key,
        next.status.as_deref(),
        &next.labels,
        &next.properties,
    );
    sqlx::query_as!(
        Object,
        r#"insert into kb.graph_objects
               (id, project_id, canonical_id, version, type, key, status, labels, properties, change_summary, content_hash,
                schema_version, actor_type, actor_id, created_at, deleted_at)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
                   case when $16 then now() end)
           on conflict do nothing
           returning canonical_id as id, version, type as object_type, key, name, status, labels, properties, change_summary,
               schema_version, actor_type, actor_id, created_at, updated_at, deleted_at"#,
        Uuid::now_v7(),
        workspace_id,
        next.id,
        next.version + 1,
        next.object_type,
        next.key,
        next.status,
        &next.labels,
        next.properties,
        next.change_summary,
        hash,
        next.schema_version,
        actor.kind.as_str(),
        actor.id,
        next.created_at,
        next.deleted_at.is_some(),
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("write an object's version"))?
    .ok_or_else(|| key_taken(&next.object_type, &next.key))
}

/// Merges a patch into properties at the top level: null deletes.
pub fn merged(properties: &Value, change: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = properties.as_object().cloned().unwrap_or_default();
    for (name, value) in change {
        if value.is_null() {
            merged.remove(name);
        } else {
            merged.insert(name.clone(), value.clone());
        }
    }
    merged
}

fn key_taken(object_type: &str, key: &str) -> Error {
    Error::Conflict(format!(
        "an object of type {object_type} with the key {key} already exists"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_replaces_adds_and_deletes_with_null() {
        let properties = json!({"a": 1, "b": 2});
        let change = json!({"b": null, "c": 3, "d": null});
        let merged = merged(&properties, change.as_object().unwrap());
        assert_eq!(Value::Object(merged), json!({"a": 1, "c": 3}));
    }
}
