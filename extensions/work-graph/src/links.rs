//! Links between entities: link, unlink, an entity's links, and a project's whole graph.
//!
//! Invariants: both ends of a link belong to the same project; memberships and the document tree change only when
//! entities are created, deleted or moved; between two entities there is at most one link of a type.

use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::entities::{self, Filter};
use super::kinds::Kind;
use super::{Change, Entity, MAX_ENTITIES, pack, take_turn};
use rejoin_graph::Error;
use rejoin_graph::objects;
use rejoin_graph::relationships::{self, NewRelationship};

/// Maximum number of links read at once.
const MAX_LINKS: i64 = 10_000;

/// An entity in its shortest form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct End {
    pub id: Uuid,
    #[serde(rename = "type")]
    pub kind: String,
    pub name: String,
}

/// A link between two entities, read from source to target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Link {
    pub id: Uuid,
    #[serde(rename = "type")]
    pub link_type: String,
    pub source: End,
    pub target: End,
}

impl Link {
    pub fn is_membership(&self) -> bool {
        self.target.kind.parse().ok().and_then(Kind::membership) == Some(self.link_type.as_str())
    }
}

/// Reads the links of the pack's types that begin or end at one of these ids, or have one of these ids.
async fn read(db: &mut PgConnection, space: Uuid, ids: &[Uuid]) -> Result<Vec<Link>, Error> {
    let rows = sqlx::query!(
        r#"select r.canonical_id as id, r.type as link_type, s.canonical_id as source_id, s.type as source_type, s.name as source_name,
               t.canonical_id as target_id, t.type as target_type, t.name as target_name
           from kb.graph_relationships r
           join kb.graph_objects s
             on s.project_id = $1 and s.canonical_id = r.source_id and s.superseded_at is null and s.deleted_at is null
           join kb.graph_objects t
             on t.project_id = $1 and t.canonical_id = r.target_id and t.superseded_at is null and t.deleted_at is null
           where r.project_id = $1 and r.type = any($3) and r.superseded_at is null and r.deleted_at is null
             and (r.source_id = any($2) or r.target_id = any($2) or r.canonical_id = any($2))
           order by r.type, r.canonical_id
           limit $4"#,
        space,
        ids,
        &pack::relationship_types(),
        MAX_LINKS,
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("read links"))?;
    let links = rows.into_iter().map(|row| Link {
        id: row.id,
        link_type: row.link_type,
        source: End {
            id: row.source_id,
            kind: row.source_type,
            name: row.source_name,
        },
        target: End {
            id: row.target_id,
            kind: row.target_type,
            name: row.target_name,
        },
    });
    Ok(links.collect())
}

/// Returns all live relationships of an object, of any type.
pub(super) async fn ids_at(db: &mut PgConnection, space: Uuid, id: Uuid) -> Result<Vec<Uuid>, Error> {
    sqlx::query_scalar!(
        "select canonical_id from kb.graph_relationships
         where project_id = $1 and (source_id = $2 or target_id = $2) and superseded_at is null and deleted_at is null
         order by canonical_id",
        space,
        id,
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("read what is linked with an entity"))
}

/// Returns the links of an entity, including its membership and its position in the tree.
pub async fn at(db: &mut PgConnection, space: Uuid, id: Uuid) -> Result<Vec<Link>, Error> {
    read(db, space, &[id]).await
}

pub async fn get(db: &mut PgConnection, space: Uuid, id: Uuid) -> Result<Link, Error> {
    let found = read(db, space, &[id]).await?;
    found
        .into_iter()
        .find(|link| link.id == id)
        .ok_or_else(|| Error::not_found("relationship", id))
}

/// Returns the entities linked with an entity, except its project: each with the link, without its texts.
pub async fn linked(
    db: &mut PgConnection,
    space: Uuid,
    id: Uuid,
    kind: Option<Kind>,
) -> Result<Vec<(Link, Entity)>, Error> {
    let links: Vec<Link> = at(&mut *db, space, id)
        .await?
        .into_iter()
        .filter(|link| !link.is_membership())
        .collect();
    let others: Vec<Uuid> = links.iter().map(|link| other(link, id)).collect();
    let kinds: Vec<Kind> = kind.into_iter().collect();
    let filter = Filter {
        kinds: &kinds,
        ids: Some(&others),
        without_texts: true,
        ..Filter::default()
    };
    let entities = entities::find(db, space, &filter, MAX_ENTITIES).await?;
    let pairs = links.into_iter().filter_map(|link| {
        let there = entities.iter().find(|entity| entity.object.id == other(&link, id))?;
        Some((link, there.clone()))
    });
    Ok(pairs.collect())
}

fn other(link: &Link, id: Uuid) -> Uuid {
    if link.source.id == id {
        link.target.id
    } else {
        link.source.id
    }
}

/// A project with all its entities.
#[derive(Debug, Clone)]
pub struct Graph {
    pub project: Entity,
    /// In order of creation, without their texts.
    pub entities: Vec<Entity>,
    /// Without memberships: all of `entities` belong to the project.
    pub links: Vec<Link>,
}

pub async fn graph(db: &mut PgConnection, space: Uuid, project: Uuid) -> Result<Graph, Error> {
    let whole = entities::get(&mut *db, space, Kind::Project, project).await?;
    let filter = Filter {
        project: Some(project),
        without_texts: true,
        ..Filter::default()
    };
    let mut entities = entities::find(&mut *db, space, &filter, MAX_ENTITIES + 1).await?;
    entities.retain(|entity| entity.kind != Kind::Project);
    entities.reverse();
    let mut ids: Vec<Uuid> = entities.iter().map(|entity| entity.object.id).collect();
    ids.push(project);
    let links = read(db, space, &ids).await?;
    Ok(Graph {
        project: whole,
        entities,
        links: links.into_iter().filter(|link| !link.is_membership()).collect(),
    })
}

/// A link to be created.
#[derive(Debug, Clone)]
pub struct NewLink {
    pub link_type: String,
    pub source: Uuid,
    pub target: Uuid,
}

/// In its own transaction. An existing link is returned.
pub async fn link(db: &mut PgConnection, space: Uuid, new: &NewLink, change: &Change) -> Result<Link, Error> {
    change.begin(&mut *db).await?;
    let project = entities::get_any(&mut *db, space, new.source).await?.project;
    take_turn(&mut *db, project).await?;
    make(db, space, new, change.id(0), change).await
}

/// The project is locked.
pub(super) async fn make(
    db: &mut PgConnection,
    space: Uuid,
    new: &NewLink,
    id: Uuid,
    change: &Change,
) -> Result<Link, Error> {
    let source = entities::get_any(&mut *db, space, new.source).await?;
    let target = entities::get_any(&mut *db, space, new.target).await?;
    check(new, &source, &target)?;
    let there = at(&mut *db, space, new.source).await?;
    let same =
        |link: &Link| link.link_type == new.link_type && link.source.id == new.source && link.target.id == new.target;
    if let Some(link) = there.into_iter().find(same) {
        return Ok(link);
    }
    let relationship = NewRelationship {
        relationship_type: new.link_type.clone(),
        source_id: new.source,
        target_id: new.target,
        properties: Default::default(),
        weight: None,
        valid_from: None,
        valid_to: None,
    };
    relationships::create_once(&mut *db, space, id, &relationship, change.actor).await?;
    get(db, space, id).await
}

fn check(new: &NewLink, source: &Entity, target: &Entity) -> Result<(), Error> {
    let Some(link) = pack::link_type(&new.link_type) else {
        let advice = match new.link_type.as_str() {
            pack::PARENT_OF => "move a document to change its parent".to_owned(),
            word if Kind::ALL.into_iter().any(|kind| kind.membership() == Some(word)) => {
                "an entity belongs to the project in which it was created".to_owned()
            }
            _ => {
                let names: Vec<&str> = pack::LINKS.iter().map(|link| link.name).collect();
                format!("the link types are {}", names.join(", "))
            }
        };
        return Err(Error::Invalid(format!(
            "{} is not a link type for entities: {advice}",
            new.link_type
        )));
    };
    if source.object.id == target.object.id {
        return Err(Error::Invalid("an entity cannot be linked to itself".to_owned()));
    }
    if source.project != target.project {
        return Err(Error::Invalid(
            "the two entities belong to different projects; only entities of one project can be linked".to_owned(),
        ));
    }
    let allowed = |kinds: &[Kind], kind: Kind| kinds.is_empty() || kinds.contains(&kind);
    if allowed(link.from, source.kind) && allowed(link.to, target.kind) {
        return Ok(());
    }
    let words = |kinds: &[Kind]| kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ");
    Err(Error::Invalid(format!(
        "{} goes from {} to {}, not from {} to {}",
        link.name,
        words(link.from),
        words(link.to),
        source.kind.as_str(),
        target.kind.as_str()
    )))
}

/// In its own transaction.
pub async fn unlink(db: &mut PgConnection, space: Uuid, id: Uuid, change: &Change) -> Result<(), Error> {
    change.begin(&mut *db).await?;
    if change.has_written(&mut *db, space, id).await? {
        return Ok(());
    }
    let source = get(&mut *db, space, id).await?.source.id;
    let project = entities::get_any(&mut *db, space, source).await?.project;
    take_turn(&mut *db, project).await?;
    take_away(db, space, id, change).await
}

/// The project is locked.
pub(super) async fn take_away(db: &mut PgConnection, space: Uuid, id: Uuid, change: &Change) -> Result<(), Error> {
    let link = get(&mut *db, space, id).await?;
    if pack::link_type(&link.link_type).is_none() {
        return Err(Error::Invalid(format!(
            "{} links cannot be deleted: an entity belongs to its project until it is deleted, and documents are moved",
            link.link_type
        )));
    }
    relationships::delete(db, space, id, change.actor).await?;
    Ok(())
}

/// Deletes an entity and its links.
pub(super) async fn remove_entity(db: &mut PgConnection, space: Uuid, id: Uuid, change: &Change) -> Result<(), Error> {
    for link in ids_at(&mut *db, space, id).await? {
        relationships::delete(&mut *db, space, link, change.actor).await?;
    }
    objects::delete(db, space, id, change.actor).await?;
    Ok(())
}
