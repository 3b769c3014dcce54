//! Template packs: sets of object and relationship types with property schemas, and their installation in workspaces. SQL
//! of `kb.template_packs` and `kb.template_assignments`.
//!
//! Called by the pack tools and routes, and by `rules`, which validates writes against installed packs. Invariants: a
//! pack is immutable (a new version is another pack); a pack whose types have live objects cannot be uninstalled, an
//! installed one cannot be deleted.
//!
//! - `installation`  packs installed in a workspace

mod installation;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::{Error, MAX_TYPE_BYTES, checked_word};
use rejoin_schemas::Validator;
use rejoin_types::{digest, ids};

pub use installation::{Assignment, assign, installed, lost_by, release, set_active, uninstall};

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
    #[serde(rename = "projectId")]
    pub workspace_id: Option<Uuid>,
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
        // Each is compiled with the workspace's rules.
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

pub async fn create(db: &mut PgConnection, workspace_id: Uuid, new: &NewPack) -> Result<Pack, Error> {
    new.check().map_err(Error::Invalid)?;
    let checksum = digest::hex(&digest::of_json(&[&new.content()]));
    let made = sqlx::query_as!(
        Pack,
        "insert into kb.template_packs
             (id, project_id, name, version, description, author, object_types, relationship_types, ui, prompts, checksum)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         on conflict do nothing
         returning id, project_id as workspace_id, name, version, description, author, status, object_types, relationship_types, ui, prompts,
             checksum, created_at",
        ids::new(),
        workspace_id,
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
    let there = by_name(db, workspace_id, &new.name, &new.version).await?;
    there.filter(|pack| pack.checksum == checksum).ok_or_else(|| {
        Error::Conflict(format!(
            "pack {} version {} already exists with other types; use another version",
            new.name, new.version
        ))
    })
}

async fn by_name(db: &mut PgConnection, workspace_id: Uuid, name: &str, version: &str) -> Result<Option<Pack>, Error> {
    sqlx::query_as!(
        Pack,
        "select id, project_id as workspace_id, name, version, description, author, status, object_types, relationship_types, ui, prompts,
             checksum, created_at
         from kb.template_packs where project_id = $1 and name = $2 and version = $3",
        workspace_id,
        name,
        version
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("find a pack by its name"))
}

/// Finds a pack visible to the workspace, by name and version.
pub async fn find(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    name: &str,
    version: &str,
) -> Result<Option<Pack>, Error> {
    sqlx::query_as!(
        Pack,
        "select id, project_id as workspace_id, name, version, description, author, status, object_types, relationship_types, ui, prompts,
             checksum, created_at
         from kb.template_packs
         where (project_id = $1 or project_id is null) and name = $2 and version = $3 order by project_id nulls last limit 1",
        workspace_id,
        name,
        version
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("find a pack by its name"))
}

/// Returns a pack visible to the workspace.
pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Pack, Error> {
    sqlx::query_as!(
        Pack,
        "select id, project_id as workspace_id, name, version, description, author, status, object_types, relationship_types, ui, prompts,
             checksum, created_at
         from kb.template_packs where id = $2 and (project_id is null or project_id = $1)",
        workspace_id,
        id
    )
    .fetch_optional(db)
    .await
    .map_err(Error::database("read a pack"))?
    .ok_or_else(|| Error::not_found("template pack", id))
}

/// Returns packs visible to the workspace, by name and version, and their total number.
pub async fn list(
    db: &mut PgConnection,
    workspace_id: Uuid,
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
        workspace_id,
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

/// Deletes a pack of the workspace that is installed nowhere.
pub async fn delete(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<(), Error> {
    let pack = get(&mut *db, workspace_id, id).await?;
    if pack.workspace_id.is_none() {
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
