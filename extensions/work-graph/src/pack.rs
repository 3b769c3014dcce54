//! The template pack `work`: the types of `kinds` with their schemas, and the allowed links between them. Installed
//! with the first project, or manually.

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::kinds::Kind;
use rejoin_graph::Error;
use rejoin_graph::packs::{self, NewPack};

pub const PACK: &str = "work";
pub const PACK_VERSION: &str = "1.0.1";
/// From a document to a child.
pub const PARENT_OF: &str = "parent_of";
/// From a document to its subject.
pub const DOCUMENT_OF: &str = "document_of";

/// A link type: name, meaning, allowed kinds of source and target.
pub struct LinkType {
    pub name: &'static str,
    pub description: &'static str,
    pub from: &'static [Kind],
    pub to: &'static [Kind],
}

const fn link(name: &'static str, description: &'static str, from: &'static [Kind], to: &'static [Kind]) -> LinkType {
    LinkType {
        name,
        description,
        from,
        to,
    }
}

/// All links that users may create: neither memberships nor the document tree.
pub const LINKS: &[LinkType] = &[
    link(
        "supports_goal",
        "contributes to",
        &[Kind::Task, Kind::Plan, Kind::Milestone, Kind::Requirement, Kind::Output],
        &[Kind::Goal],
    ),
    link(
        "in_plan",
        "is part of",
        &[Kind::Task, Kind::Milestone, Kind::Event],
        &[Kind::Plan],
    ),
    link(
        "depends_on",
        "is finished only after",
        &[Kind::Task, Kind::Plan, Kind::Milestone],
        &[Kind::Task, Kind::Plan, Kind::Milestone],
    ),
    link(
        DOCUMENT_OF,
        "documents",
        &[Kind::Document],
        &[
            Kind::Task,
            Kind::Goal,
            Kind::Plan,
            Kind::Milestone,
            Kind::Risk,
            Kind::Requirement,
            Kind::Output,
            Kind::Event,
        ],
    ),
    link(
        "targets_milestone",
        "must be completed for",
        &[Kind::Task, Kind::Goal, Kind::Plan],
        &[Kind::Milestone],
    ),
    link(
        "mitigates",
        "reduces the probability or the impact of",
        &[Kind::Task, Kind::Plan],
        &[Kind::Risk],
    ),
    link(
        "fulfils",
        "satisfies",
        &[Kind::Task, Kind::Output],
        &[Kind::Requirement],
    ),
    link("produces", "creates", &[Kind::Task, Kind::Plan], &[Kind::Output]),
    link("references", "mentions", &[], &[]),
];

pub fn link_type(name: &str) -> Option<&'static LinkType> {
    LINKS.iter().find(|link| link.name == name)
}

/// All relationship types of the pack.
pub fn relationship_types() -> Vec<String> {
    let memberships = Kind::ALL.into_iter().filter_map(Kind::membership);
    let links = LINKS.iter().map(|link| link.name);
    memberships.chain(links).chain([PARENT_OF]).map(str::to_owned).collect()
}

fn pack() -> NewPack {
    let words = |kinds: &[Kind]| kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>();
    let object_types: Map<String, Value> = Kind::ALL
        .into_iter()
        .map(|kind| (kind.as_str().to_owned(), kind.schema()))
        .collect();
    let mut relationship_types = Map::new();
    for kind in Kind::ALL {
        if let Some(membership) = kind.membership() {
            let mut described =
                json!({"description": "contains", "from": [Kind::Project.as_str()], "to": [kind.as_str()]});
            if kind == Kind::Document {
                // Its position among its siblings.
                described["schema"] = json!({"type": "object", "properties": {"order": {"type": "integer"}}});
            }
            relationship_types.insert(membership.to_owned(), described);
        }
    }
    for link in LINKS {
        relationship_types.insert(
            link.name.to_owned(),
            json!({"description": link.description, "from": words(link.from), "to": words(link.to)}),
        );
    }
    let document = [Kind::Document.as_str()];
    relationship_types.insert(
        PARENT_OF.to_owned(),
        json!({"description": "is the parent of", "from": document, "to": document}),
    );
    NewPack {
        name: PACK.to_owned(),
        version: PACK_VERSION.to_owned(),
        description: "Projects with their tasks, goals, plans, documents, milestones, risks and requirements"
            .to_owned(),
        author: "Rejoin".to_owned(),
        object_types,
        relationship_types,
        ui: Map::new(),
        prompts: Map::new(),
    }
}

/// Installs the pack in a space that has no version of it.
pub async fn install(db: &mut PgConnection, space: Uuid) -> Result<(), Error> {
    if is_assigned(&mut *db, space).await? {
        return Ok(());
    }
    // Of several concurrent first projects one installs it; the others wait here until that one commits.
    let made = packs::create(&mut *db, space, &pack()).await?;
    if is_assigned(&mut *db, space).await? {
        return Ok(());
    }
    packs::assign(db, space, made.id, None, &[]).await?;
    Ok(())
}

/// Also if it is disabled: a user's decision to disable it is kept.
async fn is_assigned(db: &mut PgConnection, space: Uuid) -> Result<bool, Error> {
    sqlx::query_scalar!(
        r#"select exists (select from kb.template_assignments a join kb.template_packs p on p.id = a.pack_id
                          where a.project_id = $1 and p.name = $2) as "assigned!""#,
        space,
        PACK
    )
    .fetch_one(db)
    .await
    .map_err(Error::database("look whether the work pack is installed"))
}

/// Returns whether the pack is active in the space: its agents are then offered the work tools.
pub async fn is_active(db: impl sqlx::PgExecutor<'_>, space: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select exists (select from kb.template_assignments a join kb.template_packs p on p.id = a.pack_id
                          where a.project_id = $1 and p.name = $2 and a.active) as "active!""#,
        space,
        PACK
    )
    .fetch_one(db)
    .await
}
