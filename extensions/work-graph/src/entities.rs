//! Entities of projects: create, change, delete, read, list, and history.
//!
//! - `history` versions of an entity
//!
//! Invariants: an entity is created together with its membership, so that it belongs to exactly one project; deleting
//! one removes its links.

mod history;

pub use history::{MAX_PAGE, Version, history};

use rejoin_graph::objects::{self, COLUMNS, NewObject, Object, ObjectChange};
use rejoin_graph::relationships::{self, NewRelationship};
use rejoin_graph::{Error, MAX_TYPE_BYTES, checked_word};
use serde_json::{Map, Value, json};
use sqlx::{AssertSqlSafe, FromRow, PgConnection};
use uuid::Uuid;

use super::kinds::Kind;
use super::{Change, MAX_ENTITIES, pack, take_turn};

/// Maximum size of a search's words, in bytes.
const MAX_WORDS_BYTES: usize = 500;
/// Maximum size of a change's summary, in bytes.
const MAX_SUMMARY_BYTES: usize = 2_000;

/// The current version of an entity.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    pub kind: Kind,
    pub object: Object,
    /// The project that it belongs to; for a project, its own id.
    pub project: Uuid,
    /// Position of a document among its siblings.
    pub(super) order: i64,
}

impl Entity {
    pub fn state(&self) -> &str {
        self.object.properties["state_key"].as_str().unwrap_or_default()
    }
}

#[derive(FromRow)]
struct Row {
    #[sqlx(flatten)]
    object: Object,
    work_project: Uuid,
    membership: Option<Value>,
}

impl Row {
    fn entity(self) -> Option<Entity> {
        Some(Entity {
            kind: self.object.object_type.parse().ok()?,
            order: self.membership.and_then(|of| of["order"].as_i64()).unwrap_or_default(),
            project: self.work_project,
            object: self.object,
        })
    }
}

/// Filters of entities. Absent ones don't filter.
#[derive(Debug, Clone, Default)]
pub struct Filter<'a> {
    /// Empty: all kinds.
    pub kinds: &'a [Kind],
    pub project: Option<Uuid>,
    pub state: Option<&'a str>,
    pub type_key: Option<&'a str>,
    /// Each of these words occurs in the name or a text; entities with all of them in the name come first.
    pub words: Option<&'a str>,
    pub ids: Option<&'a [Uuid]>,
    /// Entities created before this one.
    pub before: Option<Uuid>,
    /// Omits `description` and `content`, which may be far longer than the rest.
    pub without_texts: bool,
}

/// Returns entities, newest first.
pub async fn find(db: &mut PgConnection, space: Uuid, filter: &Filter<'_>, limit: i64) -> Result<Vec<Entity>, Error> {
    let kinds = if filter.kinds.is_empty() {
        &Kind::ALL
    } else {
        filter.kinds
    };
    let types: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    for (what, word) in [("state_key", filter.state), ("type_key", filter.type_key)] {
        word.map_or(Ok(()), |word| checked_word(what, word, MAX_TYPE_BYTES))
            .map_err(Error::Invalid)?;
    }
    if filter.words.is_some_and(|words| words.len() > MAX_WORDS_BYTES) {
        return Err(Error::Invalid(format!(
            "a search can have at most {MAX_WORDS_BYTES} bytes"
        )));
    }
    let columns = if filter.without_texts {
        COLUMNS.replace(
            "o.properties",
            "o.properties - '{description,content}'::text[] as properties",
        )
    } else {
        COLUMNS.to_owned()
    };
    let sql = format!(
        "select {columns}, case when o.type = 'project' then o.canonical_id else p.canonical_id end as work_project,
                r.properties as membership
         from kb.graph_objects o
         left join kb.graph_relationships r
           on r.project_id = $1 and r.target_id = o.canonical_id and r.type = 'has_' || o.type and o.type <> 'project'
             and r.superseded_at is null and r.deleted_at is null
         left join kb.graph_objects p
           on p.project_id = $1 and p.canonical_id = r.source_id and p.type = 'project'
             and p.superseded_at is null and p.deleted_at is null
         where o.project_id = $1 and o.superseded_at is null and o.deleted_at is null and o.type = any($2)
           -- What belongs to no project is not work.
           and (o.type = 'project' or p.canonical_id is not null)
           and ($3::uuid is null or p.canonical_id = $3 or (o.type = 'project' and o.canonical_id = $3))
           and ($4::text is null or o.properties ->> 'state_key' = $4)
           and ($5::text is null or o.properties ->> 'type_key' = $5)
           and ($6::text is null or strpos(lower(o.name), lower($6)) > 0 or o.fts @@ plainto_tsquery('simple', $6))
           and ($7::uuid[] is null or o.canonical_id = any($7))
           and ($8::uuid is null or o.canonical_id < $8)
         order by case when strpos(lower(o.name), lower($6)) > 0 then 0 else 1 end, o.canonical_id desc
         limit $9"
    );
    // Built from constants only.
    let rows = sqlx::query_as::<_, Row>(AssertSqlSafe(sql))
        .bind(space)
        .bind(types)
        .bind(filter.project)
        .bind(filter.state)
        .bind(filter.type_key)
        .bind(filter.words.map(|words| words.replace('\0', " ")))
        .bind(filter.ids)
        .bind(filter.before)
        .bind(limit.clamp(1, MAX_ENTITIES + 1))
        .fetch_all(db)
        .await
        .map_err(Error::database("look for entities"))?;
    Ok(rows.into_iter().filter_map(Row::entity).collect())
}

/// Returns an entity of any kind.
pub async fn get_any(db: &mut PgConnection, space: Uuid, id: Uuid) -> Result<Entity, Error> {
    let ids = [id];
    let filter = Filter {
        ids: Some(&ids),
        ..Filter::default()
    };
    let found = find(db, space, &filter, 1).await?;
    found.into_iter().next().ok_or_else(|| Error::not_found("entity", id))
}

pub async fn get(db: &mut PgConnection, space: Uuid, kind: Kind, id: Uuid) -> Result<Entity, Error> {
    match get_any(db, space, id).await {
        Ok(entity) if entity.kind == kind => Ok(entity),
        Ok(_) | Err(Error::NotFound { .. }) => Err(Error::not_found(kind.as_str(), id)),
        Err(error) => Err(error),
    }
}

/// An entity to be created.
#[derive(Debug, Clone)]
pub struct NewEntity {
    pub kind: Kind,
    /// Unparsed: [`Kind::read`].
    pub fields: Map<String, Value>,
}

/// Creates an entity in an existing project. The existence of the project shows that the pack is installed.
pub async fn create(
    db: &mut PgConnection,
    space: Uuid,
    project: Uuid,
    new: NewEntity,
    change: &Change,
) -> Result<Entity, Error> {
    change.begin(&mut *db).await?;
    take_turn(&mut *db, project).await?;
    let id = change.id(0);
    if !change.has_written(&mut *db, space, id).await? {
        get(&mut *db, space, Kind::Project, project).await?;
        if count(&mut *db, space, project).await? >= MAX_ENTITIES {
            return Err(Error::Conflict(format!(
                "the project already has {MAX_ENTITIES} entities, the maximum; delete some, or create another project"
            )));
        }
        insert(&mut *db, space, Some(project), (id, change.id(1)), new, change).await?;
    }
    get_any(db, space, id).await
}

/// Counts the entities of a project.
async fn count(db: &mut PgConnection, space: Uuid, project: Uuid) -> Result<i64, Error> {
    let memberships: Vec<String> = Kind::ALL
        .into_iter()
        .filter_map(Kind::membership)
        .map(str::to_owned)
        .collect();
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.graph_relationships
           where project_id = $1 and source_id = $2 and type = any($3) and superseded_at is null and deleted_at is null"#,
        space,
        project,
        &memberships,
    )
    .fetch_one(db)
    .await
    .map_err(Error::database("count a project's entities"))
}

/// Creates the object and its membership. None: it is a project itself.
pub(super) async fn insert(
    db: &mut PgConnection,
    space: Uuid,
    project: Option<Uuid>,
    (id, membership_id): (Uuid, Uuid),
    new: NewEntity,
    change: &Change,
) -> Result<(), Error> {
    let kind = new.kind;
    let mut properties = kind.read(new.fields)?;
    properties.retain(|_, value| !value.is_null());
    if !properties.contains_key(kind.name_field()) {
        return Err(Error::Invalid(format!(
            "a {} needs a {}",
            kind.as_str(),
            kind.name_field()
        )));
    }
    properties.entry("state_key").or_insert_with(|| kind.states()[0].into());
    let object = NewObject {
        object_type: kind.as_str().to_owned(),
        properties,
        ..NewObject::default()
    };
    objects::create_once(&mut *db, space, id, &object, change.actor).await?;
    let (Some(project), Some(membership)) = (project, kind.membership()) else {
        return Ok(());
    };
    let mut properties = Map::new();
    if kind == Kind::Document {
        // After all others: later ids are greater, and positions are numbered on moves.
        properties.insert("order".to_owned(), json!(i32::MAX));
    }
    let has = NewRelationship {
        relationship_type: membership.to_owned(),
        source_id: project,
        target_id: id,
        properties,
        weight: None,
        valid_from: None,
        valid_to: None,
    };
    relationships::create_once(db, space, membership_id, &has, change.actor).await?;
    Ok(())
}

rejoin_types::text_enum! {
    /// Determines how given fields are combined with existing ones.
    #[derive(Default)]
    pub enum Strategy {
        /// They replace the existing ones.
        #[default]
        Replace = "replace",
        /// Description and content are appended; `props` are merged; others are replaced.
        Append = "append",
        /// `props` are merged; others are replaced.
        Merge = "merge",
    }
}

#[derive(Debug, Clone, Default)]
pub struct Update {
    /// Unparsed; null clears a field.
    pub fields: Map<String, Value>,
    pub strategy: Strategy,
    /// A description of the change, stored with the version.
    pub summary: Option<String>,
    /// The version that it is based on; with another one: [`Error::VersionConflict`].
    pub expected_version: Option<i32>,
}

pub async fn update(
    db: &mut PgConnection,
    space: Uuid,
    kind: Kind,
    id: Uuid,
    update: Update,
    change: &Change,
) -> Result<Entity, Error> {
    change.begin(&mut *db).await?;
    let project = get(&mut *db, space, kind, id).await?.project;
    take_turn(&mut *db, project).await?;
    if change.has_written(&mut *db, space, id).await? {
        return get(db, space, kind, id).await;
    }
    // Read now that no other writer of the project is active.
    let entity = get(&mut *db, space, kind, id).await?;
    let fields = kind.read(update.fields)?;
    if fields.is_empty() {
        return Err(Error::Invalid("nothing to change: pass at least one field".to_owned()));
    }
    if update
        .summary
        .as_ref()
        .is_some_and(|text| text.len() > MAX_SUMMARY_BYTES || text.contains('\0'))
    {
        return Err(Error::Invalid(format!(
            "the summary of a change can have at most {MAX_SUMMARY_BYTES} bytes"
        )));
    }
    let properties = together(&entity.object.properties, fields, update.strategy);
    let object_change = ObjectChange {
        properties,
        // The version read under the lock is the one changed, unless the graph's own routes wrote meanwhile.
        expected_version: update.expected_version.or(Some(entity.object.version)),
        change_summary: update.summary,
        ..ObjectChange::default()
    };
    objects::update(&mut *db, space, id, &object_change, change.actor).await?;
    get(db, space, kind, id).await
}

/// Combines given fields with existing ones by the strategy.
fn together(there: &Value, mut given: Map<String, Value>, strategy: Strategy) -> Map<String, Value> {
    for (name, value) in &mut given {
        let before = &there[name.as_str()];
        match (name.as_str(), strategy, &mut *value) {
            ("description" | "content", Strategy::Append, Value::String(more)) => {
                if let Some(text) = before.as_str().filter(|text| !text.is_empty()) {
                    *more = format!("{text}\n\n{more}");
                }
            }
            ("props", Strategy::Append | Strategy::Merge, Value::Object(more)) => {
                *value = Value::Object(objects::merged(before, more));
            }
            (_, Strategy::Replace | Strategy::Append | Strategy::Merge, _) => {}
        }
    }
    given
}

pub(super) fn checked_version(entity: &Entity, expected: Option<i32>) -> Result<(), Error> {
    match expected {
        Some(expected) if expected != entity.object.version => Err(Error::VersionConflict {
            expected,
            actual: entity.object.version,
        }),
        Some(_) | None => Ok(()),
    }
}

/// Describes a kind: its fields, states and links.
pub fn field_info(kind: Kind, field: Option<&str>) -> Result<Value, Error> {
    let fields: Vec<Value> = kind
        .fields()
        .iter()
        .filter(|known| field.is_none_or(|name| name == known.name))
        .map(|known| {
            json!({
                "name": known.name, "description": known.description,
                "required": known.name == kind.name_field(),
                "schema": kind.schema()["properties"][known.name],
            })
        })
        .collect();
    if fields.is_empty() {
        let names: Vec<&str> = kind.fields().iter().map(|field| field.name).collect();
        return Err(Error::Invalid(format!(
            "a {} has no such field; its fields are {}",
            kind.as_str(),
            names.join(", ")
        )));
    }
    let links: Vec<Value> = pack::LINKS
        .iter()
        .filter(|link| link.from.is_empty() || link.from.contains(&kind))
        .map(|link| {
            let to: Vec<&str> = link.to.iter().map(|kind| kind.as_str()).collect();
            json!({"type": link.name, "description": link.description, "to": to})
        })
        .collect();
    Ok(json!({"entity_type": kind.as_str(), "fields": fields, "states": kind.states(), "links": links}))
}

#[cfg(test)]
mod tests;
