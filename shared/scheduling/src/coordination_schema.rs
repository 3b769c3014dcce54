//! The template pack `emergent-coordination`: the object types by which agents coordinate (tasks, sessions,
//! discussions), and its installation in a workspace.

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use rejoin_graph::Error;
use rejoin_graph::packs::{self, NewPack};

pub const PACK: &str = "emergent-coordination";
/// The version for workspaces that have none yet. Others keep theirs.
const PACK_VERSION: &str = "1.0.1";
/// The type of a task's object.
pub const TASK: &str = "SpecTask";
/// The type of an agent's work on a task: its object has the run's id.
pub const SESSION: &str = "Session";
pub const SESSION_MESSAGE: &str = "SessionMessage";
/// From a task to its sessions.
pub const HAS_SESSION: &str = "has_session";
/// From a session to its messages.
pub const HAS_MESSAGE: &str = "has_message";
pub const DISCUSSION: &str = "Discussion";
pub const DISCUSSION_ENTRY: &str = "DiscussionEntry";
/// From the origin of a discussion to it.
pub const SPAWNED_DISCUSSION: &str = "spawned_discussion";
/// From a discussion to its entries.
pub const HAS_ENTRY: &str = "has_entry";
/// From a task to its successor.
pub const BLOCKS: &str = "blocks";

/// The types by which agents coordinate.
fn pack() -> NewPack {
    let object = |description: &str, required: &[&str], properties: Value| json!({"type": "object", "description": description, "required": required, "properties": properties});
    let text = json!({"type": "string"});
    let one_of = |words: &[&str]| json!({"type": "string", "enum": words});
    let types = [
        (
            TASK,
            object(
                "A unit of work that belongs to a DAG",
                &["title", "status"],
                json!({
                    "title": text, "description": text, "status": one_of(&["pending", "in_progress", "completed", "failed", "skipped"]),
                    "priority": one_of(&["low", "medium", "high", "critical"]),
                    "complexity": {"type": ["integer", "null"], "minimum": 1, "maximum": 10},
                    "assigned_agent": {"type": ["string", "null"]}, "requires_collaboration": {"type": "boolean"},
                    "retry_count": {"type": "integer"}, "max_retries": {"type": "integer"},
                    "failure_context": {"type": ["string", "null"]}, "metrics": {"type": "object"},
                }),
            ),
        ),
        (
            SESSION,
            object(
                "The run of an agent that works on a task",
                &["status"],
                json!({"status": one_of(&["active", "completed", "failed", "cancelled"])}),
            ),
        ),
        (
            SESSION_MESSAGE,
            object(
                "A message of a session",
                &["role", "content"],
                json!({"role": text, "content": text, "tool_calls": {"type": "array"}, "timestamp": text}),
            ),
        ),
        (
            DISCUSSION,
            object(
                "A discussion in which agents decide a question",
                &["title", "status"],
                json!({
                    "title": text, "status": one_of(&["active", "resolved", "escalated", "abandoned"]),
                    "kind": one_of(&["consensus", "debate", "brainstorm", "problem_solving"]),
                    "consensus_threshold": {"type": "number", "minimum": 0, "maximum": 1},
                }),
            ),
        ),
        (
            DISCUSSION_ENTRY,
            object(
                "A contribution of an agent to a discussion",
                &["type", "content"],
                json!({
                    "type": one_of(&["argument", "proposal", "vote", "question", "clarification"]), "content": text, "agent": text,
                }),
            ),
        ),
    ];
    let relationship =
        |description: &str, from: &str, to: &str| json!({"description": description, "from": [from], "to": [to]});
    let relationships = [
        (BLOCKS, relationship("must be finished before", TASK, TASK)),
        ("assigned_to_agent", json!({"description": "is assigned to"})),
        (HAS_SESSION, relationship("is executed in", TASK, SESSION)),
        (HAS_MESSAGE, relationship("contains", SESSION, SESSION_MESSAGE)),
        (
            SPAWNED_DISCUSSION,
            json!({"description": "started", "to": [DISCUSSION]}),
        ),
        (HAS_ENTRY, relationship("contains", DISCUSSION, DISCUSSION_ENTRY)),
        ("resulted_in_task", relationship("resulted in", DISCUSSION, TASK)),
        ("follows_up", json!({"description": "continues"})),
        ("informed_by", json!({"description": "is based on"})),
    ];
    let map = |entries: Vec<(&str, Value)>| -> Map<String, Value> {
        entries
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    };
    NewPack {
        name: PACK.to_owned(),
        version: PACK_VERSION.to_owned(),
        description: "Tasks, sessions and discussions of cooperating agents".to_owned(),
        author: "Rejoin".to_owned(),
        object_types: map(types.into()),
        relationship_types: map(relationships.into()),
        ui: Map::new(),
        prompts: Map::new(),
    }
}

/// Installs the pack in a workspace that has no version of it.
pub async fn install(db: &mut PgConnection, workspace_id: Uuid) -> Result<(), Error> {
    if is_installed(&mut *db, workspace_id).await? {
        return Ok(());
    }
    // Of several concurrent first DAGs one installs it; the others wait here until that one commits.
    let made = packs::create(&mut *db, workspace_id, &pack()).await?;
    if is_installed(&mut *db, workspace_id).await? {
        return Ok(());
    }
    packs::assign(db, workspace_id, made.id, None, &[]).await?;
    Ok(())
}

/// The schema of the pack's objects in a workspace, as `pack@version`. None: the pack is not installed.
pub(crate) async fn schema_version(
    db: impl sqlx::PgExecutor<'_>,
    workspace_id: Uuid,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select p.name || '@' || p.version as "schema_version!"
           from kb.template_assignments a join kb.template_packs p on p.id = a.pack_id
           where a.project_id = $1 and p.name = $2
           order by a.active desc, a.created_at desc limit 1"#,
        workspace_id,
        PACK
    )
    .fetch_optional(db)
    .await
}

async fn is_installed(db: &mut PgConnection, workspace_id: Uuid) -> Result<bool, Error> {
    let installed = packs::installed(db, workspace_id).await?;
    Ok(installed.iter().any(|pack| pack.name == PACK))
}
