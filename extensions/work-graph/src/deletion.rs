//! Deletes entities of any kind, with their dependents.

use sqlx::PgConnection;
use uuid::Uuid;

use super::entities::{checked_version, get};
use super::kinds::Kind;
use super::{Change, documents, links, projects, take_turn};
use rejoin_graph::Error;

/// Deletes an entity and its links. Documents below a deleted one move up one level.
pub async fn delete(
    db: &mut PgConnection,
    space: Uuid,
    kind: Kind,
    id: Uuid,
    expected_version: Option<i32>,
    change: &Change,
) -> Result<(), Error> {
    if kind == Kind::Project {
        return projects::delete(db, space, id, expected_version, change).await;
    }
    change.begin(&mut *db).await?;
    if change.has_written(&mut *db, space, id).await? {
        return Ok(());
    }
    let project = get(&mut *db, space, kind, id).await?.project;
    take_turn(&mut *db, project).await?;
    let entity = get(&mut *db, space, kind, id).await?;
    checked_version(&entity, expected_version)?;
    if kind == Kind::Document {
        documents::give_up_children(&mut *db, space, &entity, change).await?;
    }
    links::remove_entity(db, space, id, change).await
}
