//! Mirrors tasks as objects of the knowledge graph ([`crate::coordination_schema`]): creates the objects of a new DAG and updates
//! them with their tasks. Agents and users can read and search them, and see each state as a version.

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::spec::{DagSpec, Ordered};
use super::{Dag, DagTask};
use crate::coordination_schema::{self, BLOCKS, TASK};
use rejoin_graph::objects::{self, ObjectChange};
use rejoin_graph::{Actor, Error, embedding_backlog};

/// Creates the objects of a new DAG and their `blocks` relationships, in two statements. `ids` are the tasks', in the
/// spec's order.
pub async fn create(
    db: &mut PgConnection,
    dag: &Dag,
    spec: &DagSpec,
    ordered: &Ordered,
    ids: &[Uuid],
    actor: Actor,
) -> Result<(), Error> {
    coordination_schema::install(db, dag.workspace_id).await?;
    let mut keys = Vec::with_capacity(ids.len());
    let mut properties = Vec::with_capacity(ids.len());
    let mut hashes = Vec::with_capacity(ids.len());
    for (task, id) in spec.tasks.iter().zip(ids) {
        let key = format!("{}/{}", dag.id, task.id);
        let content = json!({
            "title": task.title(), "description": task.description, "status": "pending", "priority": task.priority.as_str(),
            "complexity": task.complexity, "assigned_agent": task.agent, "requires_collaboration": task.requires_collaboration,
            "retry_count": 0, "max_retries": task.max_retries.unwrap_or(super::spec::RETRIES), "failure_context": null,
            "dag": dag.id, "task_id": id, "metrics": {},
        });
        hashes.push(objects::object_hash(TASK, &key, Some("pending"), &[], &content));
        keys.push(key);
        properties.push(content);
    }
    write(
        db,
        dag.workspace_id,
        TASK,
        "pending",
        ids,
        &keys,
        &properties,
        &hashes,
        actor,
    )
    .await
    .map_err(Error::database("write a DAG's tasks"))?;
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for (after, before) in ordered.after.iter().enumerate() {
        for before in before {
            from.push(ids[*before]);
            to.push(ids[after]);
        }
    }
    relate(db, dag.workspace_id, BLOCKS, &from, &to, actor)
        .await
        .map_err(Error::database("write what blocks what"))
}

/// Creates objects of one type of the pack, in one statement.
#[expect(clippy::too_many_arguments, reason = "a table's columns")]
pub(super) async fn write(
    db: &mut PgConnection,
    workspace_id: Uuid,
    object_type: &str,
    status: &str,
    ids: &[Uuid],
    keys: &[String],
    properties: &[Value],
    hashes: &[Vec<u8>],
    actor: Actor,
) -> Result<(), sqlx::Error> {
    let schema_version = coordination_schema::schema_version(&mut *db, workspace_id).await?;
    sqlx::query!(
        "insert into kb.graph_objects
             (id, project_id, canonical_id, version, type, key, status, labels, properties, content_hash, schema_version, actor_type, actor_id)
         select t.id, $1, t.id, 1, $2, t.key, $3, '{}', t.properties, t.hash, $4, $5, $6
         from unnest($7::uuid[], $8::text[], $9::jsonb[], $10::bytea[]) t(id, key, properties, hash)
         on conflict do nothing",
        workspace_id,
        object_type,
        status,
        schema_version,
        actor.kind.as_str(),
        actor.id,
        ids,
        keys,
        properties,
        hashes
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Creates relationships of one type, in one statement.
pub(super) async fn relate(
    db: &mut PgConnection,
    workspace_id: Uuid,
    relationship_type: &str,
    from: &[Uuid],
    to: &[Uuid],
    actor: Actor,
) -> Result<(), sqlx::Error> {
    let edge_ids: Vec<Uuid> = from.iter().map(|_| Uuid::now_v7()).collect();
    sqlx::query!(
        "insert into kb.graph_relationships
             (id, project_id, canonical_id, version, type, source_id, target_id, properties, content_hash, actor_type, actor_id)
         select e.id, $1, e.id, 1, $2, e.source, e.target, '{}', $3, $4, $5
         from unnest($6::uuid[], $7::uuid[], $8::uuid[]) e(id, source, target)",
        workspace_id,
        relationship_type,
        rejoin_graph::relationships::relationship_hash(&json!({}), None, None, None),
        actor.kind.as_str(),
        actor.id,
        &edge_ids,
        from,
        to
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Suppresses embedding marks of many single objects: the workspace is marked once, at the end.
pub async fn in_bulk(db: &mut PgConnection) -> Result<(), Error> {
    sqlx::query!("select set_config('rejoin.bulk', 'on', true)")
        .fetch_one(db)
        .await
        .map_err(Error::database("begin a DAG"))?;
    Ok(())
}

pub async fn bulk_is_over(db: &mut PgConnection, workspace_id: Uuid) -> Result<(), Error> {
    embedding_backlog::mark_all(&mut *db, workspace_id)
        .await
        .map_err(Error::database("mark a DAG's tasks"))?;
    sqlx::query!("select set_config('rejoin.bulk', 'off', true)")
        .fetch_one(db)
        .await
        .map_err(Error::database("end a DAG"))?;
    Ok(())
}

/// Updates the objects of tasks from their rows, and other objects by `more`: a new version each. A deleted object, or one that would violate
/// the workspace's own rules for its type, stays unchanged: the row is authoritative. Returns the ids of those of `more` that were written.
pub async fn follow(
    db: &mut PgConnection,
    workspace_id: Uuid,
    tasks: &[DagTask],
    more: Vec<(Uuid, ObjectChange)>,
    actor: Actor,
) -> Result<Vec<Uuid>, sqlx::Error> {
    let mut changes: Vec<(Uuid, ObjectChange)> = tasks.iter().map(|task| (task.id, change(task))).collect();
    changes.extend(more);
    let results = match objects::update_many(db, workspace_id, &changes, actor).await {
        Ok(results) => results,
        Err(Error::Database { source, .. }) => return Err(source),
        Err(error) => {
            tracing::warn!(%error, "mirroring tasks in the graph failed");
            return Ok(Vec::new());
        }
    };
    let mut written = Vec::new();
    for ((id, _), result) in changes.iter().zip(results) {
        match result {
            Ok(()) => written.push(*id),
            Err(error) => tracing::warn!(object = %id, %error, "mirroring a task or its session in the graph failed"),
        }
    }
    Ok(written
        .into_iter()
        .filter(|id| tasks.iter().all(|task| task.id != *id))
        .collect())
}

/// What of its row is shown in a task's object.
fn change(task: &DagTask) -> ObjectChange {
    let seconds = task
        .started_at
        .zip(task.finished_at)
        .map(|(from, to)| (to - from).num_milliseconds() as f64 / 1000.0);
    let mut properties = Map::new();
    let mut set = |name: &str, value: Value| properties.insert(name.to_owned(), value);
    set("status", json!(task.state));
    set("assigned_agent", json!(task.assigned_agent));
    set("retry_count", json!(task.retry_count));
    set("failure_context", json!(task.failure_context));
    set(
        "metrics",
        json!({"start_time": task.started_at, "completion_time": task.finished_at, "duration_seconds": seconds, "run_id": task.run_id}),
    );
    if let Some(summary) = &task.summary {
        set("summary", json!(summary));
    }
    ObjectChange {
        properties,
        status: Some(task.state.clone()),
        change_summary: task.assigned_because.clone(),
        ..ObjectChange::default()
    }
}
