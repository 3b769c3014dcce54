//! Previews what a change of a template pack's version means for existing objects, and reads objects' versions under
//! earlier schemas. Read-only: no data is ever removed, since all versions are kept.

use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use super::Error;
use super::bounds::Bounds;
use super::objects::{self, Object};
use super::packs::{self, Pack};
use super::rules;

/// Maximum number of objects per type validated against its new schema.
pub const MAX_SAMPLE: i64 = 50;
/// Maximum number of objects on a page of [`archives`].
pub const MAX_PAGE: i64 = 100;

/// The effects of a change of packs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preview {
    pub from: String,
    pub to: String,
    pub types_added: Vec<String>,
    pub types_removed: Vec<TypeRemoved>,
    pub types_changed: Vec<TypeChanged>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TypeRemoved {
    #[serde(rename = "type")]
    pub object_type: String,
    /// Number of live objects that would no longer be validated.
    pub objects: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TypeChanged {
    #[serde(rename = "type")]
    pub object_type: String,
    pub objects: i64,
    /// The number of those validated against the new schema: the newest.
    pub checked: usize,
    pub valid: usize,
    pub invalid: Vec<Invalid>,
}

/// An object whose next change would violate the new schema.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Invalid {
    pub id: Uuid,
    pub key: String,
    pub fault: String,
}

/// Finds a pack by its id or by `name@version`.
pub async fn find_pack(pool: &PgPool, workspace_id: Uuid, reference: &str) -> Result<Pack, Error> {
    if let Ok(id) = reference.parse() {
        return packs::get(pool, workspace_id, id).await;
    }
    let found = sqlx::query_scalar!(
        "select id from kb.template_packs
         where (project_id is null or project_id = $1) and name || '@' || version = $2
         order by project_id nulls last limit 1",
        workspace_id,
        reference
    )
    .fetch_optional(pool)
    .await
    .map_err(Error::database("find a pack"))?;
    let id = found.ok_or_else(|| Error::NotFound {
        what: format!("template pack {reference} (its id, or name@version)"),
    })?;
    packs::get(pool, workspace_id, id).await
}

/// Previews the effects of a change between two packs on the workspace's objects.
pub async fn preview(
    pool: &PgPool,
    workspace_id: Uuid,
    from: &Pack,
    to: &Pack,
    bounds: Option<&Bounds>,
    sample: i64,
) -> Result<Preview, Error> {
    let empty = Map::new();
    let types = |pack: &Pack| pack.object_types.as_object().unwrap_or(&empty).clone();
    let (old, new) = (types(from), types(to));
    let mut preview = Preview {
        from: format!("{}@{}", from.name, from.version),
        to: format!("{}@{}", to.name, to.version),
        types_added: new.keys().filter(|name| !old.contains_key(*name)).cloned().collect(),
        types_removed: Vec::new(),
        types_changed: Vec::new(),
    };
    for (name, before) in &old {
        match new.get(name) {
            None => preview.types_removed.push(TypeRemoved {
                object_type: name.clone(),
                objects: count(pool, workspace_id, name, bounds).await?,
            }),
            Some(after) if after != before => {
                preview
                    .types_changed
                    .push(changed(pool, workspace_id, name, after, bounds, sample).await?);
            }
            Some(_) => {}
        }
    }
    Ok(preview)
}

async fn changed(
    pool: &PgPool,
    workspace_id: Uuid,
    name: &str,
    schema: &Value,
    bounds: Option<&Bounds>,
    sample: i64,
) -> Result<TypeChanged, Error> {
    let validator = packs::compiled(name, schema).map_err(Error::Invalid)?;
    let sort = (objects::SortBy::UpdatedAt, objects::SortOrder::Desc);
    let (found, total) = objects::query(pool, workspace_id, name, bounds, sort, sample.clamp(1, MAX_SAMPLE), 0).await?;
    let invalid: Vec<Invalid> = found
        .iter()
        .filter_map(|object| {
            let fault = rules::held(&validator, &object.properties, name, "the new version").err()?;
            Some(Invalid {
                id: object.id,
                key: object.key.clone(),
                fault,
            })
        })
        .collect();
    Ok(TypeChanged {
        object_type: name.to_owned(),
        objects: total,
        checked: found.len(),
        valid: found.len() - invalid.len(),
        invalid,
    })
}

async fn count(pool: &PgPool, workspace_id: Uuid, object_type: &str, bounds: Option<&Bounds>) -> Result<i64, Error> {
    let sort = (objects::SortBy::CreatedAt, objects::SortOrder::Desc);
    let (_, total) = objects::query(pool, workspace_id, object_type, bounds, sort, 1, 0).await?;
    Ok(total)
}

/// An object with versions under earlier schemas.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Archive {
    pub id: Uuid,
    #[serde(rename = "type")]
    pub object_type: String,
    pub key: String,
    /// The pack of its current schema.
    pub schema_version: Option<String>,
    /// The earlier packs.
    pub earlier: Vec<String>,
}

/// Returns live objects with versions under earlier schemas, last changed first.
pub async fn archives(db: impl PgExecutor<'_>, workspace_id: Uuid, limit: i64) -> Result<Vec<Archive>, Error> {
    sqlx::query_as!(
        Archive,
        r#"select o.canonical_id as id, o.type as object_type, o.key, o.schema_version,
                  array_agg(distinct v.schema_version) as "earlier!: Vec<String>"
           from kb.graph_objects o join kb.graph_objects v on v.canonical_id = o.canonical_id and v.project_id = $1
           where o.project_id = $1 and o.superseded_at is null and o.deleted_at is null
             and v.schema_version is distinct from o.schema_version and v.schema_version is not null
           group by o.canonical_id, o.type, o.key, o.schema_version, o.updated_at
           order by o.updated_at desc, o.canonical_id
           limit $2"#,
        workspace_id,
        limit.clamp(1, MAX_PAGE)
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("list objects that were under another schema"))
}

/// Returns an object's versions under earlier schemas, newest first.
pub async fn archive(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Vec<Object>, Error> {
    let versions = objects::history(db, workspace_id, id, objects::MAX_PAGE).await?;
    let now = versions.first().and_then(|head| head.schema_version.clone());
    Ok(versions
        .into_iter()
        .filter(|version| version.schema_version != now)
        .collect())
}
