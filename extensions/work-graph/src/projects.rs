//! Projects: created, rearranged and deleted, each in one transaction; and their overview.
//!
//! Invariant: an invalid item or link leaves nothing of the whole behind.

use std::collections::HashMap;

use serde_json::{Map, Value};
use sqlx::PgConnection;
use uuid::Uuid;

use super::documents::{self, Move};
use super::entities::{self, Filter, NewEntity};
use super::kinds::Kind;
use super::links::{self, NewLink};
use super::{Change, Entity, MAX_ENTITIES, pack, take_turn};
use rejoin_graph::Error;

/// Maximum number of entities, and of links, of a project created at once, and of changes in one rearrangement.
pub const MAX_AT_ONCE: usize = 200;
/// Maximum size of a temporary id, in bytes.
const MAX_TEMP_ID_BYTES: usize = 200;
/// The temporary id of a new project.
const PROJECT_TEMP_ID: &str = "project";
/// The temporary id of its context document.
const DOCUMENT_TEMP_ID: &str = "context_document";
/// Maximum number of entities in each list of the overview.
pub const OVERVIEW: i64 = 20;

/// A project to be created with its initial content.
#[derive(Debug, Clone, Default)]
pub struct Instantiation {
    pub project: Map<String, Value>,
    /// By temporary ids, used by `links`.
    pub entities: Vec<(String, Kind, Map<String, Value>)>,
    /// Between temporary ids: type, source, target. `parent_of` nests documents.
    pub links: Vec<(String, String, String)>,
    /// The document that describes the project.
    pub context_document: Option<Map<String, Value>>,
}

/// A created project.
#[derive(Debug, Clone)]
pub struct Instantiated {
    pub project: Entity,
    /// Ids by temporary ids, including `project` and `context_document`.
    pub ids: Vec<(String, Uuid)>,
}

pub async fn instantiate(
    db: &mut PgConnection,
    space: Uuid,
    new: Instantiation,
    change: &Change,
) -> Result<Instantiated, Error> {
    if new.entities.len() > MAX_AT_ONCE || new.links.len() > MAX_AT_ONCE {
        return Err(Error::Invalid(format!(
            "at most {MAX_AT_ONCE} entities and {MAX_AT_ONCE} relationships can be created at once; add the rest \
            afterwards"
        )));
    }
    change.begin(&mut *db).await?;
    pack::install(&mut *db, space).await?;
    let project = change.id(0);
    let mut ids = vec![(PROJECT_TEMP_ID.to_owned(), project)];
    let mut made = vec![(Kind::Project, new.project)];
    if let Some(document) = new.context_document {
        ids.push((DOCUMENT_TEMP_ID.to_owned(), change.id(made.len())));
        made.push((Kind::Document, document));
    }
    for (temp_id, kind, fields) in new.entities {
        if temp_id.is_empty() || temp_id.len() > MAX_TEMP_ID_BYTES || ids.iter().any(|(known, _)| *known == temp_id) {
            return Err(Error::Invalid(format!(
                "each entity needs a unique temp_id of at most {MAX_TEMP_ID_BYTES} bytes; {temp_id:?} is not valid \
                ({PROJECT_TEMP_ID} and {DOCUMENT_TEMP_ID} are reserved)"
            )));
        }
        if kind == Kind::Project {
            return Err(Error::Invalid("a project cannot belong to a project".to_owned()));
        }
        ids.push((temp_id, change.id(made.len())));
        made.push((kind, fields));
    }
    take_turn(&mut *db, project).await?;
    if !change.has_written(&mut *db, space, project).await? {
        let count = made.len();
        for (nth, (kind, fields)) in made.into_iter().enumerate() {
            let of = (kind != Kind::Project).then_some(project);
            let member_ids = (ids[nth].1, change.id(count + nth));
            let what = ids[nth].0.clone();
            entities::insert(&mut *db, space, of, member_ids, NewEntity { kind, fields }, change)
                .await
                .map_err(|error| at(&what, error))?;
        }
        let known: HashMap<&str, Uuid> = ids.iter().map(|(temp_id, id)| (temp_id.as_str(), *id)).collect();
        for (nth, (link_type, source, target)) in new.links.iter().enumerate() {
            let end = |temp_id: &str| {
                known.get(temp_id).copied().ok_or_else(|| {
                    Error::Invalid(format!(
                        "relationship {nth} refers to {temp_id:?}, which is not the temp_id of any of these entities"
                    ))
                })
            };
            let (source, target) = (end(source)?, end(target)?);
            let done = match link_type.as_str() {
                pack::PARENT_OF => {
                    let to = Move {
                        document: target,
                        parent: Some(source),
                        position: None,
                    };
                    documents::place(&mut *db, space, to, change).await
                }
                _ => {
                    let link = NewLink {
                        link_type: link_type.clone(),
                        source,
                        target,
                    };
                    links::make(&mut *db, space, &link, change.id(2 * count + nth), change)
                        .await
                        .map(drop)
                }
            };
            done.map_err(|error| at(&format!("relationship {nth}"), error))?;
        }
    }
    Ok(Instantiated {
        project: entities::get(db, space, Kind::Project, project).await?,
        ids,
    })
}

/// Adds to an error which item it concerns.
fn at(what: &str, error: Error) -> Error {
    match error {
        Error::Invalid(words) => Error::Invalid(format!("{what}: {words}")),
        Error::NotFound { what: missing } => Error::NotFound { what: missing },
        other @ (Error::VersionConflict { .. } | Error::Conflict(_) | Error::Database { .. }) => other,
    }
}

/// A change of a rearrangement.
#[derive(Debug, Clone)]
pub enum Rearrange {
    Link(NewLink),
    Unlink(Uuid),
    Move(Move),
}

/// Applies all changes or none.
pub async fn reorganize(
    db: &mut PgConnection,
    space: Uuid,
    project: Uuid,
    changes: &[Rearrange],
    change: &Change,
) -> Result<(), Error> {
    if changes.is_empty() || changes.len() > MAX_AT_ONCE {
        return Err(Error::Invalid(format!("pass 1 to {MAX_AT_ONCE} changes")));
    }
    change.begin(&mut *db).await?;
    entities::get(&mut *db, space, Kind::Project, project).await?;
    take_turn(&mut *db, project).await?;
    for (nth, one) in changes.iter().enumerate() {
        let done = match one {
            Rearrange::Link(new) => {
                belongs(&mut *db, space, project, new.source).await?;
                links::make(&mut *db, space, new, change.id(nth), change)
                    .await
                    .map(drop)
            }
            Rearrange::Unlink(id) => {
                if change.has_written(&mut *db, space, *id).await? {
                    continue;
                }
                let source = links::get(&mut *db, space, *id).await?.source.id;
                belongs(&mut *db, space, project, source).await?;
                links::take_away(&mut *db, space, *id, change).await
            }
            Rearrange::Move(to) => {
                belongs(&mut *db, space, project, to.document).await?;
                documents::place(&mut *db, space, *to, change).await
            }
        };
        done.map_err(|error| at(&format!("change {nth}"), error))?;
    }
    Ok(())
}

async fn belongs(db: &mut PgConnection, space: Uuid, project: Uuid, id: Uuid) -> Result<(), Error> {
    match entities::get_any(db, space, id).await? {
        entity if entity.project == project => Ok(()),
        _ => Err(Error::not_found("entity", id)),
    }
}

/// Deletes a project with all its entities.
pub(super) async fn delete(
    db: &mut PgConnection,
    space: Uuid,
    project: Uuid,
    expected_version: Option<i32>,
    change: &Change,
) -> Result<(), Error> {
    change.begin(&mut *db).await?;
    if change.has_written(&mut *db, space, project).await? {
        return Ok(());
    }
    take_turn(&mut *db, project).await?;
    let whole = links::graph(&mut *db, space, project).await?;
    entities::checked_version(&whole.project, expected_version)?;
    for entity in &whole.entities {
        links::remove_entity(&mut *db, space, entity.object.id, change).await?;
    }
    links::remove_entity(db, space, project, change).await
}

/// Current work: active projects, open entities, and the next due ones.
#[derive(Debug, Clone)]
pub struct Overview {
    pub projects: Vec<Entity>,
    pub open_tasks: Vec<Entity>,
    /// By `due_at`, of any kind.
    pub due: Vec<Entity>,
    pub open_task_count: usize,
}

pub async fn overview(db: &mut PgConnection, space: Uuid, project: Option<Uuid>) -> Result<Overview, Error> {
    let mut by = async |kinds: &[Kind]| {
        let filter = Filter {
            kinds,
            project,
            without_texts: true,
            ..Filter::default()
        };
        let mut found = entities::find(&mut *db, space, &filter, MAX_ENTITIES).await?;
        found.retain(|entity| !Kind::is_over(entity.state()));
        Ok::<_, Error>(found)
    };
    let most = usize::try_from(OVERVIEW).unwrap_or(usize::MAX);
    let mut projects = by(&[Kind::Project]).await?;
    let mut open = by(&[Kind::Task, Kind::Goal, Kind::Milestone, Kind::Output]).await?;
    let due_at = |entity: &Entity| {
        let text = entity.object.properties["due_at"].as_str()?;
        chrono::DateTime::parse_from_rfc3339(text).ok()
    };
    let mut due: Vec<Entity> = open.iter().filter(|entity| due_at(entity).is_some()).cloned().collect();
    due.sort_by_key(due_at);
    due.truncate(most);
    open.retain(|entity| entity.kind == Kind::Task);
    open.sort_by_key(|task| task.object.properties["priority"].as_i64().unwrap_or(i64::MAX));
    let open_task_count = open.len();
    projects.truncate(most);
    open.truncate(most);
    Ok(Overview {
        projects,
        open_tasks: open,
        due,
        open_task_count,
    })
}
