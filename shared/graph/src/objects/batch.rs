//! Changes of several objects in a few statements, for programs that change many in one transaction.

use std::collections::HashMap;

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Object, ObjectChange, object_hash, patched};
use crate::rules::Rules;
use crate::{Actor, Error};

/// Writes a new version of each object with its patch applied, as [`super::update`] does. Returns for each change, in their order, why nothing was
/// written: the others are written nevertheless. An object is named once.
pub async fn update_many(
    db: &mut PgConnection,
    workspace_id: Uuid,
    changes: &[(Uuid, ObjectChange)],
    actor: Actor,
) -> Result<Vec<Result<(), Error>>, Error> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = changes.iter().map(|(id, _)| *id).collect();
    let heads = lock_heads(db, workspace_id, &ids).await?;
    let rules = Rules::of(db, workspace_id).await?;
    let mut next = Vec::new();
    let mut results = Vec::with_capacity(changes.len());
    for (id, change) in changes {
        let head = heads.get(id).ok_or_else(|| Error::not_found("object", *id));
        results.push(head.and_then(|head| {
            next.extend(patched(head, change, &rules)?);
            Ok(())
        }));
    }
    if !next.is_empty() {
        write_versions(db, workspace_id, &next, actor).await?;
    }
    Ok(results)
}

/// Locks and returns the heads, deleted or not, until the transaction ends.
async fn lock_heads(db: &mut PgConnection, workspace_id: Uuid, ids: &[Uuid]) -> Result<HashMap<Uuid, Object>, Error> {
    // Like `take_turns`. In order of id, to avoid deadlocks.
    sqlx::query!(
        "select pg_advisory_xact_lock(hashtextextended(o.id::text, 0))
         from (select id from unnest($1::uuid[]) id order by id) o",
        ids
    )
    .fetch_all(&mut *db)
    .await
    .map_err(Error::database("wait for other writers"))?;
    let heads = sqlx::query_as!(
        Object,
        r#"select canonical_id as id, version, type as object_type, key, name, status, labels, properties, change_summary,
               schema_version, actor_type, actor_id, created_at, updated_at, deleted_at
           from kb.graph_objects
           where project_id = $1 and canonical_id = any($2) and superseded_at is null
           order by canonical_id
           for update"#,
        workspace_id,
        ids,
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("lock objects"))?;
    Ok(heads.into_iter().map(|head| (head.id, head)).collect())
}

/// Replaces the heads from which these were made (their `version`) by them; the heads are locked.
async fn write_versions(db: &mut PgConnection, workspace_id: Uuid, next: &[Object], actor: Actor) -> Result<(), Error> {
    fn column<T>(next: &[Object], of: impl Fn(&Object) -> T) -> Vec<T> {
        next.iter().map(of).collect()
    }
    let ids = column(next, |object| object.id);
    let versions = column(next, |object| object.version);
    sqlx::query!(
        "update kb.graph_objects o set superseded_at = now()
         from unnest($2::uuid[], $3::int[]) n(id, version)
         where o.project_id = $1 and o.canonical_id = n.id and o.version = n.version and o.superseded_at is null",
        workspace_id,
        &ids,
        &versions
    )
    .execute(&mut *db)
    .await
    .map_err(Error::database("supersede versions of objects"))?;
    let own_ids = column(next, |_| Uuid::now_v7());
    let types = column(next, |object| object.object_type.clone());
    let keys = column(next, |object| object.key.clone());
    let statuses = column(next, |object| object.status.clone());
    let labels: Vec<Value> = column(next, |object| json!(object.labels));
    let properties = column(next, |object| object.properties.clone());
    let summaries = column(next, |object| object.change_summary.clone());
    let hashes = column(next, |object| {
        let status = object.status.as_deref();
        object_hash(
            &object.object_type,
            &object.key,
            status,
            &object.labels,
            &object.properties,
        )
    });
    let schema_versions = column(next, |object| object.schema_version.clone());
    let created = column(next, |object| object.created_at);
    sqlx::query!(
        "insert into kb.graph_objects
             (id, project_id, canonical_id, version, type, key, status, labels, properties, change_summary, content_hash,
              schema_version, actor_type, actor_id, created_at)
         select n.own_id, $1, n.id, n.version + 1, n.type, n.key, n.status, array(select jsonb_array_elements_text(n.labels)),
                n.properties, n.summary, n.hash, n.schema_version, $2, $3, n.created_at
         from unnest($4::uuid[], $5::uuid[], $6::int[], $7::text[], $8::text[], $9::text[], $10::jsonb[], $11::jsonb[], $12::text[],
                     $13::bytea[], $14::text[], $15::timestamptz[])
              n(own_id, id, version, type, key, status, labels, properties, summary, hash, schema_version, created_at)",
        workspace_id,
        actor.kind.as_str(),
        actor.id,
        &own_ids,
        &ids,
        &versions,
        &types,
        &keys,
        &statuses as _,
        &labels,
        &properties,
        &summaries as _,
        &hashes,
        &schema_versions as _,
        &created
    )
    .execute(db)
    .await
    .map_err(Error::database("write versions of objects"))?;
    Ok(())
}
