//! The work graph over HTTP: projects with their tasks, goals, plans, documents and so on. Their rules are in the
//! other files of the crate, which the work tools use, too.
//!
//! - `entities`   one entity of any kind: create, list, read, change, delete, history
//! - `projects`   whole projects: create, rearrange, read
//! - `edges`      links between two entities
//! - `documents`  the document tree of a project
//!
//! Invariant: everything is in the caller's project (tenant), its space; ids of others are not found. Fields may be
//! spelled `dueAt` or `due_at`, and a name may be called `name` or `title`.

pub mod documents;
pub mod edges;
pub mod entities;
pub mod projects;

use axum::http::{HeaderMap, StatusCode};
use chrono::{DateTime, Utc};
use rejoin_graph::{Actor, ActorKind};
use rejoin_http::authorization::Routes;
use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Change;
use crate::entities::Entity;
use crate::links::{End, Link};

/// The origin of a change: `chat`, `ui`, … ; stored with its versions.
const CHANGE_SOURCE: &str = "x-change-source";
/// The default: a program.
const DEFAULT_SOURCE: &str = "api";

pub fn routes() -> Routes {
    Routes::new()
        .merge(projects::routes())
        .merge(edges::routes())
        .merge(documents::routes())
        .merge(entities::routes())
}

/// A project or one of its entities.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkEntity)]
pub struct EntityBody {
    pub id: Uuid,
    /// `project`, `task`, `goal`, `plan`, `document`, `milestone`, `risk`, `requirement`, `output` or `event`
    pub r#type: String,
    pub name: String,
    /// The project that it belongs to; for a project, its own id
    pub project_id: Uuid,
    pub state_key: String,
    /// Version number, incremented by each change; contained in ETag
    pub version: i32,
    /// All its fields: `description`, `due_at`, …
    #[schema(value_type = Object)]
    pub properties: Value,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

impl From<Entity> for EntityBody {
    fn from(entity: Entity) -> Self {
        Self {
            id: entity.object.id,
            r#type: entity.kind.as_str().to_owned(),
            name: entity.object.name.clone(),
            project_id: entity.project,
            state_key: entity.state().to_owned(),
            version: entity.object.version,
            properties: entity.object.properties,
            created_at: entity.object.created_at,
            updated_at: entity.object.updated_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkEnd)]
pub struct EndBody {
    pub id: Uuid,
    pub r#type: String,
    pub name: String,
}

impl From<End> for EndBody {
    fn from(end: End) -> Self {
        Self {
            id: end.id,
            r#type: end.kind,
            name: end.name,
        }
    }
}

/// A link between two entities, read from source to target.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkLink)]
pub struct LinkBody {
    pub id: Uuid,
    pub r#type: String,
    pub source: EndBody,
    pub target: EndBody,
}

impl From<Link> for LinkBody {
    fn from(link: Link) -> Self {
        Self {
            id: link.id,
            r#type: link.link_type,
            source: link.source.into(),
            target: link.target.into(),
        }
    }
}

/// Returns the caller's change, with the origin in its header.
fn change(caller: &Caller, headers: &HeaderMap) -> Result<Change, Problem> {
    let refused = |words: String| Problem::bad_request("invalid_change_source", words);
    let source = match headers.get(CHANGE_SOURCE) {
        None => DEFAULT_SOURCE.to_owned(),
        Some(value) => {
            let word = value
                .to_str()
                .map_err(|_| refused("X-Change-Source must be one word".to_owned()))?;
            crate::checked_source(word).map_err(refused)?
        }
    };
    Ok(Change {
        actor: Actor {
            kind: ActorKind::User,
            id: Some(caller.user_id),
        },
        source,
        call: None,
    })
}

fn invalid(words: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid_graph_data", words)
}
