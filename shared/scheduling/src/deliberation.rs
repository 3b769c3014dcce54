//! Agents' discussions as objects of the knowledge graph: one `Discussion`, and one `DiscussionEntry` per proposal,
//! argument or vote. They are written as the discussion proceeds; writing is idempotent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sqlx::{Acquire, PgConnection};
use uuid::Uuid;

use crate::coordination_schema::{self, DISCUSSION, DISCUSSION_ENTRY, HAS_ENTRY, SPAWNED_DISCUSSION};
use rejoin_graph::objects::{self, NewObject, ObjectChange};
use rejoin_graph::relationships::{self, NewRelationship};
use rejoin_graph::{Actor, ActorKind, Error};
use rejoin_types::ids;

rejoin_types::text_enum! {
    /// active -> resolved (by votes), or escalated (to a user) -> resolved | abandoned.
    pub enum Status {
        Active = "active",
        Resolved = "resolved",
        Escalated = "escalated",
        Abandoned = "abandoned",
    }
}

rejoin_types::text_enum! {
    /// The kind of an entry.
    pub enum EntryKind {
        Proposal = "proposal",
        Argument = "argument",
        Vote = "vote",
    }
}

/// An agent's statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub kind: EntryKind,
    pub agent: String,
    pub content: String,
}

/// The state of a discussion, and the new entries since the last note.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    pub topic: String,
    pub status: Status,
    /// The share of all votes needed to settle it.
    pub threshold: f64,
    /// The number of earlier entries.
    pub noted: usize,
    pub entries: Vec<Entry>,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
}

/// Maximum length of a title, and of a stored text, in characters.
const TITLE_MAX_CHARS: usize = 200;
const TEXT_MAX_CHARS: usize = 50_000;

/// The id of the discussion object led by this run.
pub fn id_of(run_id: Uuid) -> Uuid {
    ids::derived(run_id, 0)
}

/// Updates the discussion's object, and writes the entries.
pub async fn write(db: &mut PgConnection, workspace_id: Uuid, run_id: Uuid, note: &Note) -> Result<Uuid, Error> {
    let actor = Actor {
        kind: ActorKind::Agent,
        id: Some(run_id),
    };
    let id = id_of(run_id);
    let mut tx = db.begin().await.map_err(Error::database("begin a discussion's note"))?;
    coordination_schema::install(&mut tx, workspace_id).await?;
    let discussion = new(
        DISCUSSION,
        Status::Active.as_str(),
        json!({
            "title": first(&note.topic, TITLE_MAX_CHARS), "description": first(&note.topic, TEXT_MAX_CHARS),
            "status": Status::Active.as_str(), "kind": "consensus", "consensus_threshold": note.threshold, "run_id": run_id,
        }),
    );
    let stands = objects::create_once(&mut tx, workspace_id, id, &discussion, actor).await?;
    if stands.version == 1 {
        for (nth, task) in tasks_of_run(&mut tx, run_id).await?.into_iter().enumerate() {
            let link = link(SPAWNED_DISCUSSION, task, id);
            relationships::create_once(&mut tx, workspace_id, ids::derived(id, nth), &link, actor).await?;
        }
    }
    for (nth, entry) in note.entries.iter().enumerate() {
        let number = note.noted + nth + 1;
        let new_entry = new(
            DISCUSSION_ENTRY,
            entry.kind.as_str(),
            json!({
                "title": format!("{} of {}", entry.kind.as_str(), entry.agent), "type": entry.kind.as_str(), "agent": entry.agent,
                "content": first(&entry.content, TEXT_MAX_CHARS), "number": number,
            }),
        );
        let entry_id = ids::derived(run_id, number);
        objects::create_once(&mut tx, workspace_id, entry_id, &new_entry, actor).await?;
        let link = link(HAS_ENTRY, id, entry_id);
        relationships::create_once(&mut tx, workspace_id, ids::derived(entry_id, 0), &link, actor).await?;
    }
    if stands.status.as_deref() != Some(note.status.as_str()) {
        let mut properties = Map::from_iter([("status".to_owned(), json!(note.status))]);
        if let Some(decision) = &note.decision {
            properties.insert("decision".to_owned(), json!(first(decision, TEXT_MAX_CHARS)));
        }
        let change = ObjectChange {
            properties,
            status: Some(note.status.as_str().to_owned()),
            ..ObjectChange::default()
        };
        objects::update(&mut tx, workspace_id, id, &change, actor).await?;
    }
    tx.commit()
        .await
        .map_err(Error::database("commit a discussion's note"))?;
    Ok(id)
}

/// Returns the objects of the tasks of this run, or of the run that started it.
async fn tasks_of_run(db: &mut PgConnection, run_id: Uuid) -> Result<Vec<Uuid>, Error> {
    sqlx::query_scalar!(
        "select t.id from kb.tasks t join kb.agent_runs r on t.run_id in (r.id, r.parent_run_id) where r.id = $1 order by t.id",
        run_id
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("read a discussion's task"))
}

fn new(object_type: &str, status: &str, properties: Value) -> NewObject {
    NewObject {
        object_type: object_type.to_owned(),
        key: None,
        status: Some(status.to_owned()),
        labels: vec![],
        properties: match properties {
            Value::Object(properties) => properties,
            _ => Map::new(),
        },
        schema_version: None,
    }
}

fn link(relationship_type: &str, source_id: Uuid, target_id: Uuid) -> NewRelationship {
    NewRelationship {
        relationship_type: relationship_type.to_owned(),
        source_id,
        target_id,
        properties: Map::new(),
        weight: None,
        valid_from: None,
        valid_to: None,
    }
}

fn first(text: &str, chars: usize) -> String {
    text.replace('\0', " ").chars().take(chars).collect()
}
