//! The document tree of a project: `parent_of` links a parent to its children; the `order` of a document's membership
//! is its position among its siblings.
//!
//! Invariant: a document has at most one parent, of its own project, and is never its own descendant; the tree is no
//! deeper than [`MAX_DEPTH`].

use std::collections::HashMap;

use serde_json::{Map, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::entities::{self, Filter};
use super::kinds::Kind;
use super::links::{self, Link};
use super::{Change, Entity, MAX_ENTITIES, pack, take_turn};
use rejoin_graph::Error;
use rejoin_graph::relationships::{self, NewRelationship, RelationshipChange};

/// Maximum depth of a tree: it is read level by level.
pub const MAX_DEPTH: usize = 20;

/// A document, without its text, with its children.
#[derive(Debug, Clone)]
pub struct Node {
    pub document: Entity,
    pub children: Vec<Node>,
}

/// All documents of a project without their texts, with their parents.
struct Tree {
    documents: Vec<Entity>,
    parents: HashMap<Uuid, Uuid>,
    links: Vec<Link>,
}

impl Tree {
    async fn read(db: &mut PgConnection, space: Uuid, project: Uuid) -> Result<Self, Error> {
        let filter = Filter {
            kinds: &[Kind::Document],
            project: Some(project),
            without_texts: true,
            ..Filter::default()
        };
        let mut documents = entities::find(&mut *db, space, &filter, MAX_ENTITIES).await?;
        documents.sort_by_key(|document| (document.order, document.object.id));
        let graph = links::graph(db, space, project).await?;
        let links: Vec<Link> = graph
            .links
            .into_iter()
            .filter(|link| link.link_type == pack::PARENT_OF)
            .collect();
        let parents = links.iter().map(|link| (link.target.id, link.source.id)).collect();
        Ok(Self {
            documents,
            parents,
            links,
        })
    }

    /// Children of this document, or the top level.
    fn children(&self, parent: Option<Uuid>) -> impl Iterator<Item = &Entity> {
        let is_child = move |document: &&Entity| self.parents.get(&document.object.id).copied() == parent;
        self.documents.iter().filter(is_child)
    }

    fn nodes(&self, parent: Option<Uuid>, depth_left: usize) -> Vec<Node> {
        let node = |document: &Entity| Node {
            document: document.clone(),
            children: match depth_left {
                0 => Vec::new(),
                more => self.nodes(Some(document.object.id), more - 1),
            },
        };
        self.children(parent).map(node).collect()
    }

    /// The height of its subtree.
    fn height(&self, id: Uuid, depth_left: usize) -> usize {
        let below = match depth_left {
            0 => 0,
            more => {
                let heights = self
                    .children(Some(id))
                    .map(|child| self.height(child.object.id, more - 1));
                heights.max().unwrap_or(0)
            }
        };
        1 + below
    }

    /// The path from the top down to it.
    fn path(&self, id: Uuid) -> Vec<&Entity> {
        let mut path = Vec::new();
        let mut at = Some(id);
        // The graph's own routes could have created a cycle.
        while let Some(id) = at.filter(|_| path.len() <= self.documents.len()) {
            path.extend(self.documents.iter().find(|document| document.object.id == id));
            at = self.parents.get(&id).copied();
        }
        path.reverse();
        path
    }
}

pub async fn tree(db: &mut PgConnection, space: Uuid, project: Uuid) -> Result<Vec<Node>, Error> {
    let tree = Tree::read(db, space, project).await?;
    Ok(tree.nodes(None, MAX_DEPTH))
}

/// Returns the path from the top down to a document, without texts.
pub async fn path(db: &mut PgConnection, space: Uuid, id: Uuid) -> Result<Vec<Entity>, Error> {
    let document = entities::get(&mut *db, space, Kind::Document, id).await?;
    let tree = Tree::read(db, space, document.project).await?;
    Ok(tree.path(id).into_iter().cloned().collect())
}

/// A move of a document.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    pub document: Uuid,
    /// None: to the top level.
    pub parent: Option<Uuid>,
    /// Position among its siblings, from 0. None: last.
    pub position: Option<i64>,
}

/// In its own transaction. Idempotent.
pub async fn move_to(db: &mut PgConnection, space: Uuid, to: Move, change: &Change) -> Result<Entity, Error> {
    change.begin(&mut *db).await?;
    let project = entities::get(&mut *db, space, Kind::Document, to.document)
        .await?
        .project;
    take_turn(&mut *db, project).await?;
    place(&mut *db, space, to, change).await?;
    entities::get(db, space, Kind::Document, to.document).await
}

/// The project is locked.
pub(super) async fn place(db: &mut PgConnection, space: Uuid, to: Move, change: &Change) -> Result<(), Error> {
    let document = entities::get(&mut *db, space, Kind::Document, to.document).await?;
    let tree = Tree::read(&mut *db, space, document.project).await?;
    if let Some(parent) = to.parent {
        let above = entities::get(&mut *db, space, Kind::Document, parent).await?;
        if above.project != document.project {
            return Err(Error::Invalid(
                "a document cannot be moved to another project".to_owned(),
            ));
        }
        if tree.path(parent).iter().any(|above| above.object.id == to.document) {
            return Err(Error::Invalid("a document cannot be its own parent".to_owned()));
        }
        if tree.path(parent).len() + tree.height(to.document, MAX_DEPTH) > MAX_DEPTH {
            return Err(Error::Invalid(format!(
                "the document tree can have at most {MAX_DEPTH} levels"
            )));
        }
    }
    if tree.parents.get(&to.document).copied() != to.parent {
        for link in tree.links.iter().filter(|link| link.target.id == to.document) {
            relationships::delete(&mut *db, space, link.id, change.actor).await?;
        }
        if let Some(parent) = to.parent {
            let above = NewRelationship {
                relationship_type: pack::PARENT_OF.to_owned(),
                source_id: parent,
                target_id: to.document,
                properties: Map::new(),
                weight: None,
                valid_from: None,
                valid_to: None,
            };
            relationships::create(&mut *db, space, &above, change.actor).await?;
        }
    }
    let mut siblings: Vec<&Entity> = tree
        .children(to.parent)
        .filter(|sibling| sibling.object.id != to.document)
        .collect();
    let last = siblings.len();
    let position = to
        .position
        .and_then(|position| usize::try_from(position).ok())
        .unwrap_or(last)
        .min(last);
    siblings.insert(position, &document);
    number(db, space, &siblings, change).await
}

/// Numbers them 0, 1, 2, …
async fn number(db: &mut PgConnection, space: Uuid, siblings: &[&Entity], change: &Change) -> Result<(), Error> {
    for (order, sibling) in (0..).zip(siblings) {
        if sibling.order == order {
            continue;
        }
        let links = links::at(&mut *db, space, sibling.object.id).await?;
        let Some(membership) = links
            .iter()
            .find(|link| link.is_membership() && link.target.id == sibling.object.id)
        else {
            continue;
        };
        let placed = RelationshipChange {
            properties: Map::from_iter([("order".to_owned(), json!(order))]),
            ..RelationshipChange::default()
        };
        relationships::update(&mut *db, space, membership.id, &placed, change.actor).await?;
    }
    Ok(())
}

/// Moves the children of a document that is about to be deleted to its parent; the project is locked.
pub(super) async fn give_up_children(
    db: &mut PgConnection,
    space: Uuid,
    document: &Entity,
    change: &Change,
) -> Result<(), Error> {
    let tree = Tree::read(&mut *db, space, document.project).await?;
    let parent = tree.parents.get(&document.object.id).copied();
    for child in tree.children(Some(document.object.id)) {
        let to = Move {
            document: child.object.id,
            parent,
            position: None,
        };
        place(&mut *db, space, to, change).await?;
    }
    Ok(())
}
