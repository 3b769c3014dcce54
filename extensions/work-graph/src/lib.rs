//! The work graph: projects with their tasks, goals, plans, documents and so on, as objects of the knowledge graph
//! under the template pack `work`.
//!
//! The API's `/api/onto` routes and the work tools call it; all rules are implemented here. Invariants: each entity
//! belongs to exactly one project; links stay within a project; a project's documents form a tree; every write locks
//! its project, in one transaction, and records its origin.
//!
//! (A work project is an object of the graph. The tenant is called `space` here.)
//!
//! - `kinds`      the kinds of entities, their states and fields, and parsing of fields from users and models
//! - `pack`       the template pack, made of `kinds`, and its installation
//! - `entities`   create, update, delete, read, list and search, history
//! - `links`      link, unlink, an entity's links, a project's whole graph
//! - `documents`  the tree of a project's documents
//! - `projects`   creates a whole project in one transaction, rearranges, deletes; the overview
//! - `routes`     HTTP endpoints

pub mod deletion;
pub mod documents;
pub mod entities;
pub mod extension;
pub mod kinds;
pub mod links;
pub mod pack;
pub mod projects;
pub mod routes;
pub mod tools;

use sqlx::PgConnection;
use uuid::Uuid;

pub use self::entities::Entity;
pub use self::kinds::Kind;
use rejoin_graph::bounds::Bounds;
use rejoin_graph::{Actor, Error};

/// Maximum number of entities of a project, which are read or deleted at once.
pub const MAX_ENTITIES: i64 = 2_000;
/// Maximum length of a writer's name for itself, in bytes.
const MAX_SOURCE_BYTES: usize = 40;

/// The author, origin and call of a change.
#[derive(Debug, Clone)]
pub struct Change {
    pub actor: Actor,
    /// `chat`, `ui`, `api`, … ; stored with the written versions.
    pub source: String,
    /// The record of the tool call. Ids of created entities derive from it, and repeating it has no further effect.
    pub call: Option<Uuid>,
}

/// Returns the bounds of a conversation focused on one project: of the work graph, only that project and its entities
/// are visible.
pub fn bounds(project: Uuid) -> Bounds {
    Bounds {
        anchor: project,
        types: Kind::TEXTS.to_vec(),
        memberships: Kind::ALL.into_iter().filter_map(Kind::membership).collect(),
    }
}

/// Validates a writer's name for itself: a short word.
pub fn checked_source(source: &str) -> Result<String, String> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | ':');
    if source.is_empty() || source.len() > MAX_SOURCE_BYTES || !source.chars().all(allowed) {
        return Err(format!(
            "the source of a change must be one word of at most {MAX_SOURCE_BYTES} letters, digits and - _ . :"
        ));
    }
    Ok(source.to_owned())
}

impl Change {
    /// Attributes what this transaction writes from now on to this change.
    async fn begin(&self, db: &mut PgConnection) -> Result<(), Error> {
        sqlx::query!(
            "select set_config('rejoin.change_source', $1, true) as source, set_config('rejoin.change_id', $2, true) as call",
            self.source,
            self.call.map(|call| call.to_string()).unwrap_or_default(),
        )
        .fetch_one(db)
        .await
        .map_err(Error::database("say from where a change comes"))?;
        Ok(())
    }

    /// Returns the id of the `nth` entity that it creates.
    fn id(&self, nth: usize) -> Uuid {
        match self.call {
            Some(call) => rejoin_types::ids::derived(call, nth),
            None => rejoin_types::ids::new(),
        }
    }

    /// Returns whether this call has already written a version of the object or relationship: it is a repetition.
    pub(crate) async fn has_written(&self, db: &mut PgConnection, space: Uuid, id: Uuid) -> Result<bool, Error> {
        let Some(call) = self.call else { return Ok(false) };
        sqlx::query_scalar!(
            r#"select exists (select from kb.graph_objects where project_id = $1 and canonical_id = $2 and change_id = $3)
                   or exists (select from kb.graph_relationships where project_id = $1 and canonical_id = $2 and change_id = $3)
                   as "written!""#,
            space,
            id,
            call,
        )
        .fetch_one(db)
        .await
        .map_err(Error::database("look whether a change has been made"))
    }
}

/// Serializes writers of a project until the transaction ends: only so do they see each other's links.
async fn take_turn(db: &mut PgConnection, project: Uuid) -> Result<(), Error> {
    rejoin_graph::take_turns(db, project).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_one_short_word() {
        assert_eq!(checked_source("chat").unwrap(), "chat");
        for bad in ["", "two words", "é", &"x".repeat(MAX_SOURCE_BYTES + 1)] {
            assert!(checked_source(bad).is_err(), "{bad}");
        }
    }
}
