//! Relationships of the graph: types and SQL of `kb.graph_relationships`. (For one object: `edges`.)
//!
//! Called by the API's graph routes and the graph tools. Invariants: both ends are objects of the same workspace; between
//! two objects there is at most one live relationship of a type; a relationship is listed only while both its ends are
//! live.
//!
//! - `listed`  lists of relationships with both ends

mod listed;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sqlx::{Connection as _, PgConnection, PgExecutor};
use uuid::Uuid;

use super::objects::merged;
use super::rules::Rules;
use super::{Actor, Error, MAX_TYPE_BYTES, checked_properties, checked_time, checked_word, take_turns};
use rejoin_types::digest;

pub use listed::{Connected, Entity, Filter, list};

/// Maximum number of relationships on a page of [`list`] or [`history`].
pub const MAX_PAGE: i64 = 1000;

/// One version of a relationship: outside `history` always its head.
#[derive(Debug, Clone, PartialEq, Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub struct Relationship {
    /// The canonical id, equal in all versions.
    pub id: Uuid,
    pub version: i32,
    #[serde(rename = "type")]
    #[sqlx(rename = "type")]
    pub relationship_type: String,
    pub source_id: Uuid,
    pub target_id: Uuid,
    pub properties: Value,
    pub weight: Option<f64>,
    pub valid_from: Option<DateTime<Utc>>,
    pub valid_to: Option<DateTime<Utc>>,
    /// The author of this version: user, agent, import, system.
    pub actor_type: String,
    pub actor_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// Only in histories and responses to deletions.
    pub deleted_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewRelationship {
    #[serde(rename = "type")]
    pub relationship_type: String,
    pub source_id: Uuid,
    pub target_id: Uuid,
    #[serde(default)]
    pub properties: Map<String, Value>,
    #[serde(default)]
    pub weight: Option<f64>,
    #[serde(default)]
    pub valid_from: Option<DateTime<Utc>>,
    #[serde(default)]
    pub valid_to: Option<DateTime<Utc>>,
}

/// A patch of a relationship; absent fields stay unchanged.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelationshipChange {
    /// Merged into the properties, at the top level; null deletes a property.
    #[serde(default)]
    pub properties: Map<String, Value>,
    #[serde(default)]
    pub weight: Option<f64>,
    #[serde(default)]
    pub valid_from: Option<DateTime<Utc>>,
    #[serde(default)]
    pub valid_to: Option<DateTime<Utc>>,
    /// The version that the change is based on; with another head: [`Error::VersionConflict`].
    #[serde(default)]
    pub expected_version: Option<i32>,
}

pub fn relationship_hash(
    properties: &Value,
    weight: Option<f64>,
    valid_from: Option<DateTime<Utc>>,
    valid_to: Option<DateTime<Utc>>,
) -> Vec<u8> {
    digest::of_json(&[properties, &json!([weight, valid_from, valid_to])])
}

pub async fn create(
    db: &mut PgConnection,
    workspace_id: Uuid,
    new: &NewRelationship,
    actor: Actor,
) -> Result<Relationship, Error> {
    insert(db, workspace_id, Uuid::now_v7(), new, actor)
        .await?
        .ok_or_else(|| another(&new.relationship_type))
}

/// The same with the caller's id, idempotent: a repetition returns the existing relationship in its current state.
pub async fn create_once(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    new: &NewRelationship,
    actor: Actor,
) -> Result<Relationship, Error> {
    match insert(&mut *db, workspace_id, id, new, actor).await? {
        Some(made) => Ok(made),
        None => get(db, workspace_id, id).await.map_err(|error| match error {
            Error::NotFound { .. } => another(&new.relationship_type),
            other => other,
        }),
    }
}

/// None: one exists already, or its id is taken.
async fn insert(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    new: &NewRelationship,
    actor: Actor,
) -> Result<Option<Relationship>, Error> {
    checked_word("type", &new.relationship_type, MAX_TYPE_BYTES).map_err(Error::Invalid)?;
    checked_properties(&new.properties).map_err(Error::Invalid)?;
    for (what, time) in [("validFrom", new.valid_from), ("validTo", new.valid_to)] {
        checked_time(what, time).map_err(Error::Invalid)?;
    }
    let mut tx = db
        .begin()
        .await
        .map_err(Error::database("begin the creation of a relationship"))?;
    let mut types = Vec::with_capacity(2);
    for (end, id) in [("source", new.source_id), ("target", new.target_id)] {
        // Locked against concurrent deletion.
        let live = sqlx::query_scalar!(
            "select type from kb.graph_objects
             where project_id = $1 and canonical_id = $2 and superseded_at is null and deleted_at is null
             for share",
            workspace_id,
            id,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::database("check an end of a relationship"))?;
        types.push(live.ok_or_else(|| Error::not_found(&format!("{end} object"), id))?);
    }
    let properties = Value::Object(new.properties.clone());
    let rules = Rules::of(&mut tx, workspace_id).await?;
    rules
        .relationship(&new.relationship_type, (Some(&types[0]), Some(&types[1])), &properties)
        .map_err(Error::Invalid)?;
    let hash = relationship_hash(&properties, new.weight, new.valid_from, new.valid_to);
    let created = sqlx::query_as!(
        Relationship,
        r#"insert into kb.graph_relationships
               (id, project_id, canonical_id, version, type, source_id, target_id, properties, weight, valid_from, valid_to,
                content_hash, actor_type, actor_id)
           values ($1, $2, $1, 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
           on conflict do nothing
           returning canonical_id as id, version, type as relationship_type, source_id, target_id, properties, weight,
               valid_from, valid_to, actor_type, actor_id, created_at, updated_at, deleted_at"#,
        id,
        workspace_id,
        new.relationship_type,
        new.source_id,
        new.target_id,
        properties,
        new.weight,
        new.valid_from,
        new.valid_to,
        hash,
        actor.kind.as_str(),
        actor.id,
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(Error::database("create a relationship"))?;
    tx.commit().await.map_err(Error::database("commit a relationship"))?;
    Ok(created)
}

/// Returns the live relationship with this canonical id.
pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Relationship, Error> {
    sqlx::query_as!(
        Relationship,
        r#"select canonical_id as id, version, type as relationship_type, source_id, target_id, properties, weight,
               valid_from, valid_to, actor_type, actor_id, created_at, updated_at, deleted_at
           from kb.graph_relationships
           where project_id = $1 and canonical_id = $2 and superseded_at is null and deleted_at is null"#,
        workspace_id,
        id,
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("read a relationship"))?
    .ok_or_else(|| Error::not_found("relationship", id))
}

/// Writes a new version with the patch applied.
pub async fn update(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    change: &RelationshipChange,
    actor: Actor,
) -> Result<Relationship, Error> {
    let mut tx = db
        .begin()
        .await
        .map_err(Error::database("begin the update of a relationship"))?;
    let mut next = lock_head(&mut tx, workspace_id, id).await?;
    if next.deleted_at.is_some() {
        return Err(Error::not_found("relationship", id));
    }
    if let Some(expected) = change.expected_version
        && expected != next.version
    {
        return Err(Error::VersionConflict {
            expected,
            actual: next.version,
        });
    }
    next.properties = Value::Object(merged(&next.properties, &change.properties));
    checked_properties(next.properties.as_object().unwrap_or(&Map::new())).map_err(Error::Invalid)?;
    // Its ends are immutable.
    Rules::of(&mut tx, workspace_id)
        .await?
        .relationship(&next.relationship_type, (None, None), &next.properties)
        .map_err(Error::Invalid)?;
    next.weight = change.weight.or(next.weight);
    for (what, time) in [("validFrom", change.valid_from), ("validTo", change.valid_to)] {
        checked_time(what, time).map_err(Error::Invalid)?;
    }
    next.valid_from = change.valid_from.or(next.valid_from);
    next.valid_to = change.valid_to.or(next.valid_to);
    let written = write_version(&mut tx, workspace_id, &next, false, actor).await?;
    tx.commit()
        .await
        .map_err(Error::database("commit the update of a relationship"))?;
    Ok(written)
}

/// Soft delete: writes a deleted version.
pub async fn delete(db: &mut PgConnection, workspace_id: Uuid, id: Uuid, actor: Actor) -> Result<Relationship, Error> {
    let mut tx = db
        .begin()
        .await
        .map_err(Error::database("begin the deletion of a relationship"))?;
    let head = lock_head(&mut tx, workspace_id, id).await?;
    if head.deleted_at.is_some() {
        return Err(Error::not_found("relationship", id));
    }
    let written = write_version(&mut tx, workspace_id, &head, true, actor).await?;
    tx.commit()
        .await
        .map_err(Error::database("commit the deletion of a relationship"))?;
    Ok(written)
}

/// Undoes [`delete`]; refused if another one of its type now exists between the two objects. No effect on a live one.
pub async fn restore(db: &mut PgConnection, workspace_id: Uuid, id: Uuid, actor: Actor) -> Result<Relationship, Error> {
    let mut tx = db
        .begin()
        .await
        .map_err(Error::database("begin to restore a relationship"))?;
    let head = lock_head(&mut tx, workspace_id, id).await?;
    if head.deleted_at.is_none() {
        return Ok(head);
    }
    let written = write_version(&mut tx, workspace_id, &head, false, actor).await?;
    tx.commit()
        .await
        .map_err(Error::database("commit that a relationship is restored"))?;
    Ok(written)
}

/// Returns all versions, newest first; also of a deleted relationship.
pub async fn history(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    id: Uuid,
    limit: i64,
) -> Result<Vec<Relationship>, Error> {
    let versions = sqlx::query_as!(
        Relationship,
        r#"select canonical_id as id, version, type as relationship_type, source_id, target_id, properties, weight,
               valid_from, valid_to, actor_type, actor_id, created_at, updated_at, deleted_at
           from kb.graph_relationships
           where project_id = $1 and canonical_id = $2
           order by version desc
           limit $3"#,
        workspace_id,
        id,
        limit.clamp(1, MAX_PAGE),
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("read a relationship's versions"))?;
    if versions.is_empty() {
        Err(Error::not_found("relationship", id))
    } else {
        Ok(versions)
    }
}

/// Locks and returns the head, deleted or not, until the transaction ends.
async fn lock_head(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<Relationship, Error> {
    take_turns(db, id).await?;
    sqlx::query_as!(
        Relationship,
        r#"select canonical_id as id, version, type as relationship_type, source_id, target_id, properties, weight,
               valid_from, valid_to, actor_type, actor_id, created_at, updated_at, deleted_at
           from kb.graph_relationships
           where project_id = $1 and canonical_id = $2 and superseded_at is null
           for update"#,
        workspace_id,
        id,
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("lock a relationship"))?
    .ok_or_else(|| Error::not_found("relationship", id))
}

/// Replaces the head from which `next` was made by it; the head is locked.
async fn write_version(
    db: &mut PgConnection,
    workspace_id: Uuid,
    next: &Relationship,
    deleted: bool,
    actor: Actor,
) -> Result<Relationship, Error> {
    sqlx::query!(
        "update kb.graph_relationships set superseded_at = now()
         where project_id = $1 and canonical_id = $2 and superseded_at is null",
        workspace_id,
        next.id,
    )
    .execute(&mut *db)
    .await
    .map_err(Error::database("supersede a relationship's version"))?;
    let hash = relationship_hash(&next.properties, next.weight, next.valid_from, next.valid_to);
    sqlx::query_as!(
        Relationship,
        r#"insert into kb.graph_relationships
               (id, project_id, canonical_id, version, type, source_id, target_id, properties, weight, valid_from, valid_to,
                content_hash, actor_type, actor_id, created_at, deleted_at)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, case when $16 then now() end)
           on conflict do nothing
           returning canonical_id as id, version, type as relationship_type, source_id, target_id, properties, weight,
               valid_from, valid_to, actor_type, actor_id, created_at, updated_at, deleted_at"#,
        Uuid::now_v7(),
        workspace_id,
        next.id,
        next.version + 1,
        next.relationship_type,
        next.source_id,
        next.target_id,
        next.properties,
        next.weight,
        next.valid_from,
        next.valid_to,
        hash,
        actor.kind.as_str(),
        actor.id,
        next.created_at,
        deleted,
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("write a relationship's version"))?
    .ok_or_else(|| another(&next.relationship_type))
}

fn another(relationship_type: &str) -> Error {
    Error::Conflict(format!(
        "a {relationship_type} relationship between these two objects already exists"
    ))
}
