//! Template packs: sets of object and relationship types with property schemas, and their installation in projects. SQL
//! of `kb.template_packs` and `kb.template_assignments`.
//!
//! Called by the pack tools and routes, and by `rules`, which validates writes against installed packs. Invariants: a
//! pack is immutable (a new version is another pack); a pack whose types have live objects cannot be uninstalled, an
//! installed one cannot be deleted.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sqlx::{Connection as _, PgConnection, PgExecutor};
use uuid::Uuid;

use super::{Error, MAX_TYPE_BYTES, checked_word};
use rejoin_schemas::Validator;
use rejoin_types::{digest, ids};

/// Maximum number of object and relationship types in a pack.
pub const MAX_TYPES: usize = 500;
/// Maximum number of regular expressions in the schemas of a pack.
const MAX_PATTERNS: usize = 1_000;
/// Maximum size of a pack, in bytes: its types, ui and prompts as JSON.
pub const MAX_PACK_BYTES: usize = 1024 * 1024;
/// Maximum number of packs on a page of [`list`].
pub const MAX_PAGE: i64 = 100;

/// A complete pack.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pack {
    pub id: Uuid,
    /// None: it is built in.
    pub project_id: Option<Uuid>,
    pub name: String,
    pub version: String,
    pub description: String,
    pub author: String,
    pub status: String,
    /// By type: a JSON Schema of the properties, whose `description` explains the type.
    pub object_types: Value,
    /// By type: [`RelationshipType`].
    pub relationship_types: Value,
    pub ui: Value,
    pub prompts: Value,
    pub checksum: String,
    pub created_at: DateTime<Utc>,
}

/// A pack's definition of a relationship type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RelationshipType {
    pub description: String,
    /// Allowed types of its source; empty: any.
    pub from: Vec<String>,
    /// Allowed types of its target; empty: any.
    pub to: Vec<String>,
    /// A JSON Schema of its properties.
    pub schema: Option<Value>,
}

/// A pack as listed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackSummary {
    pub id: Uuid,
    pub name: String,
    pub version: String,
    pub description: String,
    pub author: String,
    pub status: String,
    pub checksum: String,
    pub object_types: Vec<String>,
    pub relationship_types: Vec<String>,
    pub installed: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewPack {
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub author: String,
    #[serde(default)]
    pub object_types: Map<String, Value>,
    #[serde(default)]
    pub relationship_types: Map<String, Value>,
    #[serde(default)]
    pub ui: Map<String, Value>,
    #[serde(default)]
    pub prompts: Map<String, Value>,
}

/// A pack installed in a project.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    pub id: Uuid,
    pub pack_id: Uuid,
    pub name: String,
    pub version: String,
    /// None: all types.
    pub enabled_types: Option<Vec<String>>,
    pub disabled_types: Vec<String>,
    pub active: bool,
    /// Number of live objects of the pack's types.
    pub objects: i64,
    pub created_at: DateTime<Utc>,
}

impl NewPack {
    /// Validates the pack; the error is for its author.
    fn check(&self) -> Result<(), String> {
        checked_word("the name", &self.name, MAX_TYPE_BYTES)?;
        checked_word("the version", &self.version, MAX_TYPE_BYTES)?;
        let types = self.object_types.len() + self.relationship_types.len();
        if types == 0 {
            return Err("a pack needs at least one type".to_owned());
        }
        if types > MAX_TYPES {
            return Err(format!("{types} types; the limit is {MAX_TYPES}"));
        }
        // Each is compiled with the project's rules.
        let mut patterns = 0;
        let mut count = |more: usize| {
            patterns += more;
            if patterns > MAX_PATTERNS {
                Err(format!("its schemas have more than {MAX_PATTERNS} patterns"))
            } else {
                Ok(())
            }
        };
        for (name, schema) in &self.object_types {
            checked_word("a type", name, MAX_TYPE_BYTES)?;
            count(compiled(name, schema)?.patterns())?;
        }
        for (name, described) in &self.relationship_types {
            checked_word("a type", name, MAX_TYPE_BYTES)?;
            let described: RelationshipType = serde_json::from_value(described.clone())
                .map_err(|error| format!("relationship type {name}: {error}"))?;
            if let Some(schema) = &described.schema {
                count(compiled(name, schema)?.patterns())?;
            }
        }
        let bytes = serde_json::to_vec(&self.content()).map_or(usize::MAX, |json| json.len());
        if bytes > MAX_PACK_BYTES {
            return Err(format!("the pack has {bytes} bytes; the limit is {MAX_PACK_BYTES}"));
        }
        Ok(())
    }

    fn content(&self) -> Value {
        json!([self.object_types, self.relationship_types, self.ui, self.prompts])
    }
}

/// Compiles the schema of a type's properties.
pub(super) fn compiled(type_name: &str, schema: &Value) -> Result<Validator, String> {
    if !schema.is_object() {
        return Err(format!("the schema of type {type_name} is not an object"));
    }
    rejoin_schemas::compiled(schema).map_err(|error| format!("the schema of type {type_name} is invalid: {error}"))
}

pub async fn create(db: &mut PgConnection, project_id: Uuid, new: &NewPack) -> Result<Pack, Error> {
    new.check().map_err(Error::Invalid)?;
    let checksum = digest::hex(&digest::of_json(&[&new.content()]));
    let made = sqlx::query_as!(
        Pack,
        "insert into kb.template_packs
             (id, project_id, name, version, description, author, object_types, relationship_types, ui, prompts, checksum)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         on conflict do nothing
         returning id, project_id, name, version, description, author, status, object_types, relationship_types, ui, prompts,
             checksum, created_at",
        ids::new(),
        project_id,
        new.name,
        new.version,
        new.description,
        new.author,
        Value::Object(new.object_types.clone()),
        Value::Object(new.relationship_types.clone()),
        Value::Object(new.ui.clone()),
        Value::Object(new.prompts.clone()),
        checksum
    )
    .fetch_optional(&mut *db)
    .await
    .map_err(Error::database("create a pack"))?;
    if let Some(made) = made {
        return Ok(made);
    }
    // Creating the same pack again returns it; other content under its name and version is refused.
    let there = by_name(db, project_id, &new.name, &new.version).await?;
    there.filter(|pack| pack.checksum == checksum).ok_or_else(|| {
        Error::Conflict(format!(
            "pack {} version {} already exists with other types; use another version",
            new.name, new.version
        ))
    })
}

async fn by_name(db: &mut PgConnection, project_id: Uuid, name: &str, version: &str) -> Result<Option<Pack>, Error> {
    sqlx::query_as!(
        Pack,
        "select id, project_id, name, version, description, author, status, object_types, relationship_types, ui, prompts,
             checksum, created_at
         from kb.template_packs where project_id = $1 and name = $2 and version = $3",
        project_id,
        name,
        version
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("find a pack by its name"))
}

/// Finds a pack visible to the project, by name and version.
pub async fn find(db: impl PgExecutor<'_>, project_id: Uuid, name: &str, version: &str) -> Result<Option<Pack>, Error> {
    sqlx::query_as!(
        Pack,
        "select id, project_id, name, version, description, author, status, object_types, relationship_types, ui, prompts,
             checksum, created_at
         from kb.template_packs
         where (project_id = $1 or project_id is null) and name = $2 and version = $3 order by project_id nulls last limit 1",
        project_id,
        name,
        version
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("find a pack by its name"))
}

/// Returns a pack visible to the project.
pub async fn get(db: impl PgExecutor<'_>, project_id: Uuid, id: Uuid) -> Result<Pack, Error> {
    sqlx::query_as!(
        Pack,
        "select id, project_id, name, version, description, author, status, object_types, relationship_types, ui, prompts,
             checksum, created_at
         from kb.template_packs where id = $2 and (project_id is null or project_id = $1)",
        project_id,
        id
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("read a pack"))?
    .ok_or_else(|| Error::not_found("template pack", id))
}

/// Returns packs visible to the project, by name and version, and their total number.
pub async fn list(
    db: &mut PgConnection,
    project_id: Uuid,
    search: Option<&str>,
    include_deprecated: bool,
    limit: i64,
    offset: i64,
) -> Result<(Vec<PackSummary>, i64), Error> {
    let rows = sqlx::query!(
        r#"select p.id, p.name, p.version, p.description, p.author, p.status, p.checksum,
                  array(select jsonb_object_keys(p.object_types)) as "object_types!",
                  array(select jsonb_object_keys(p.relationship_types)) as "relationship_types!",
                  exists (select from kb.template_assignments a where a.pack_id = p.id and a.project_id = $1) as "installed!",
                  count(*) over () as "total!"
           from kb.template_packs p
           where (p.project_id is null or p.project_id = $1) and ($2 or p.status <> 'deprecated')
             and ($3::text is null or strpos(lower(p.name || ' ' || p.description), lower($3)) > 0)
           order by p.name, p.created_at desc
           limit $4 offset $5"#,
        project_id,
        include_deprecated,
        search,
        limit.clamp(1, MAX_PAGE),
        offset.max(0)
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("list packs"))?;
    let total = rows.first().map_or(0, |row| row.total);
    let packs = rows.into_iter().map(|row| PackSummary {
        id: row.id,
        name: row.name,
        version: row.version,
        description: row.description,
        author: row.author,
        status: row.status,
        checksum: row.checksum,
        object_types: row.object_types,
        relationship_types: row.relationship_types,
        installed: row.installed,
    });
    Ok((packs.collect(), total))
}

/// Deletes a pack of the project that is installed nowhere.
pub async fn delete(db: &mut PgConnection, project_id: Uuid, id: Uuid) -> Result<(), Error> {
    let pack = get(&mut *db, project_id, id).await?;
    if pack.project_id.is_none() {
        return Err(Error::Conflict(format!(
            "the pack {} is part of the product and cannot be deleted",
            pack.name
        )));
    }
    let deleted = sqlx::query!(
        "delete from kb.template_packs p
         where p.id = $1 and not exists (select from kb.template_assignments a where a.pack_id = p.id)",
        id
    )
    .execute(db)
    .await
    .map_err(Error::database("delete a pack"))?;
    if deleted.rows_affected() == 0 {
        return Err(Error::Conflict(format!(
            "the pack {} is installed; uninstall it first",
            pack.name
        )));
    }
    Ok(())
}

/// Returns the project's installed packs, oldest first.
pub async fn installed(db: impl PgExecutor<'_>, project_id: Uuid) -> Result<Vec<Assignment>, Error> {
    sqlx::query_as!(
        Assignment,
        r#"select a.id, a.pack_id, p.name, p.version, a.enabled_types, a.disabled_types, a.active, a.created_at,
                  (select count(*) from kb.graph_objects o
                   where o.project_id = $1 and o.superseded_at is null and o.deleted_at is null
                     and o.type in (select jsonb_object_keys(p.object_types))) as "objects!"
           from kb.template_assignments a join kb.template_packs p on p.id = a.pack_id
           where a.project_id = $1 order by a.created_at, a.id"#,
        project_id
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("list what is installed"))
}

/// Installs a pack, or changes its enabled types. Existing objects stay unchanged: their next change is validated.
pub async fn assign(
    db: &mut PgConnection,
    project_id: Uuid,
    pack_id: Uuid,
    enabled_types: Option<&[String]>,
    disabled_types: &[String],
) -> Result<Assignment, Error> {
    let pack = get(&mut *db, project_id, pack_id).await?;
    if pack.status == "deprecated" {
        return Err(Error::Conflict(format!(
            "the pack {} is deprecated; install a newer one",
            pack.name
        )));
    }
    let known = |name: &String| {
        [&pack.object_types, &pack.relationship_types]
            .iter()
            .any(|types| types.get(name).is_some())
    };
    if let Some(unknown) = enabled_types
        .unwrap_or_default()
        .iter()
        .chain(disabled_types)
        .find(|name| !known(name))
    {
        return Err(Error::Invalid(format!("the pack {} has no type {unknown}", pack.name)));
    }
    // Another version of the same pack would validate the same types against two schemas.
    let other = sqlx::query_scalar!(
        "select p.version from kb.template_assignments a join kb.template_packs p on p.id = a.pack_id
         where a.project_id = $1 and p.name = $2 and p.id <> $3 and a.active limit 1",
        project_id,
        pack.name,
        pack_id
    )
    .fetch_optional(&mut *db)
    .await
    .map_err(Error::database("look for other versions of a pack"))?;
    if let Some(other) = other {
        return Err(Error::Conflict(format!(
            "version {other} of the pack {} is installed; deactivate it first (active false)",
            pack.name
        )));
    }
    sqlx::query!(
        "insert into kb.template_assignments (id, project_id, pack_id, enabled_types, disabled_types)
         values ($1, $2, $3, $4, $5)
         on conflict (project_id, pack_id) do update
             set enabled_types = excluded.enabled_types, disabled_types = excluded.disabled_types, active = true, updated_at = now()",
        ids::new(),
        project_id,
        pack_id,
        enabled_types as Option<&[String]>,
        disabled_types
    )
    .execute(&mut *db)
    .await
    .map_err(Error::database("install a pack"))?;
    let all = installed(db, project_id).await?;
    all.into_iter()
        .find(|assignment| assignment.pack_id == pack_id)
        .ok_or_else(|| Error::not_found("template pack", pack_id))
}

/// Enables or disables an installed pack.
pub async fn set_active(db: &mut PgConnection, project_id: Uuid, id: Uuid, active: bool) -> Result<Assignment, Error> {
    let changed = sqlx::query!(
        "update kb.template_assignments set active = $3, updated_at = now() where id = $2 and project_id = $1",
        project_id,
        id,
        active
    )
    .execute(&mut *db)
    .await
    .map_err(Error::database("switch a pack on or off"))?;
    if changed.rows_affected() == 0 {
        return Err(Error::not_found("template assignment", id));
    }
    let all = installed(db, project_id).await?;
    all.into_iter()
        .find(|assignment| assignment.id == id)
        .ok_or_else(|| Error::not_found("template assignment", id))
}

/// Returns the types of one pack that another lacks, and of which there are live objects.
pub async fn lost_by(
    db: impl PgExecutor<'_>,
    project_id: Uuid,
    pack_id: Uuid,
    other_id: Uuid,
) -> Result<Vec<String>, Error> {
    sqlx::query_scalar!(
        r#"select t.name as "name!" from kb.template_packs p cross join lateral jsonb_object_keys(p.object_types) as t(name)
           where p.id = $2
             and not exists (select from kb.template_packs other where other.id = $3 and other.object_types ? t.name)
             and exists (select from kb.graph_objects o
                         where o.project_id = $1 and o.type = t.name and o.superseded_at is null and o.deleted_at is null)
           order by t.name"#,
        project_id,
        pack_id,
        other_id
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("compare packs"))
}

/// Removes a pack that was replaced by another one from the project, in the caller's transaction.
pub async fn release(db: &mut PgConnection, project_id: Uuid, id: Uuid) -> Result<(), Error> {
    sqlx::query!(
        "delete from kb.template_assignments where id = $2 and project_id = $1",
        project_id,
        id
    )
    .execute(db)
    .await
    .map_err(Error::database("release a pack"))?;
    Ok(())
}

/// Uninstalls a pack, unless there are live objects of its types.
pub async fn uninstall(db: &mut PgConnection, project_id: Uuid, id: Uuid) -> Result<(), Error> {
    let mut tx = db.begin().await.map_err(Error::database("begin to uninstall a pack"))?;
    // Writes validated against it share its lock (`rules`): their objects are counted, or they come later.
    sqlx::query!(
        "select id from kb.template_assignments where id = $2 and project_id = $1 for update",
        project_id,
        id
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(Error::database("lock what is installed"))?;
    let all = installed(&mut *tx, project_id).await?;
    let assignment = all
        .into_iter()
        .find(|assignment| assignment.id == id)
        .ok_or_else(|| Error::not_found("template assignment", id))?;
    if assignment.objects > 0 {
        return Err(Error::Conflict(format!(
            "{} live objects use the types of {}; delete them first, or deactivate the pack (active false)",
            assignment.objects, assignment.name
        )));
    }
    sqlx::query!(
        "delete from kb.template_assignments where id = $2 and project_id = $1",
        project_id,
        id
    )
    .execute(&mut *tx)
    .await
    .map_err(Error::database("uninstall a pack"))?;
    tx.commit()
        .await
        .map_err(Error::database("commit that a pack is uninstalled"))
}
