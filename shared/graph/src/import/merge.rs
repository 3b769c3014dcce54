//! Merges the staged rows of an import into the graph, by a handful of set-based statements. Called by the import, in
//! its transaction.

use sqlx::Executor as _;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use super::{BadLine, Counts, MAX_REPORTED_BAD_LINES, OnError, Report};
use crate::{Actor, Error, embedding_backlog};

/// Number of written rows from which an import refreshes the planner's statistics.
const ANALYZE_FROM_ROWS: u64 = 500;
/// Number of lines from which an import is merged by hash joins; shorter ones look up their few rows.
const HASH_FROM_LINES: u64 = 1000;

/// Merges the staged rows. Nothing is written if a bad line already refuses the import.
pub(super) async fn merge(
    db: &mut PgConnection,
    workspace_id: Uuid,
    on_error: OnError,
    actor: Actor,
    report: &mut Report,
) -> Result<(), Error> {
    let refused = |report: &Report| report.bad_lines > 0 && on_error == OnError::Refuse;
    // Two imports into one workspace would both create the same keys; the second waits.
    sqlx::query("select pg_advisory_xact_lock(hashtextextended('graph import ' || $1::text, 0))")
        .bind(workspace_id)
        .execute(&mut *db)
        .await
        .map_err(Error::database("wait for another import into the project"))?;
    if report.lines >= HASH_FROM_LINES {
        // The planner treats three equal columns as independent, expects hardly any match, and would look up each
        // staged row by itself: ten times slower than a hash join. The setting ends with the transaction.
        db.execute("set local enable_nestloop = off")
            .await
            .map_err(Error::database("set up the merge of an import"))?;
    }
    db.execute(PREPARE_OBJECTS)
        .await
        .map_err(Error::database("prepare the objects of an import"))?;
    // Relationships are resolved even if the import is already refused, so that one run reports all bad lines.
    sqlx::query(RESOLVE_ENDS)
        .bind(workspace_id)
        .execute(&mut *db)
        .await
        .map_err(Error::database("resolve the relationships of an import"))?;
    report_unresolved(db, report).await?;
    db.execute(PREPARE_RELATIONSHIPS)
        .await
        .map_err(Error::database("prepare the relationships of an import"))?;
    if refused(report) {
        return Ok(());
    }
    report.objects = Counts {
        updated: run(db, UPDATE_OBJECTS, workspace_id, actor, "update objects from an import").await?,
        created: run(db, CREATE_OBJECTS, workspace_id, actor, "create objects from an import").await?,
        unchanged: 0,
    };
    report.objects.unchanged =
        count(db, "select count(*) from import_objects").await? - report.objects.updated - report.objects.created;
    report.relationships = Counts {
        updated: run(
            db,
            UPDATE_RELATIONSHIPS,
            workspace_id,
            actor,
            "update relationships from an import",
        )
        .await?,
        created: run(
            db,
            CREATE_RELATIONSHIPS,
            workspace_id,
            actor,
            "create relationships from an import",
        )
        .await?,
        unchanged: 0,
    };
    report.relationships.unchanged = count(db, "select count(*) from import_resolved").await?
        - report.relationships.updated
        - report.relationships.created;
    let Report {
        objects, relationships, ..
    } = report;
    if objects.created + objects.updated > 0 {
        embedding_backlog::mark_all(db, workspace_id)
            .await
            .map_err(Error::database("mark what an import changed"))?;
    }
    if objects.created + objects.updated + relationships.created + relationships.updated >= ANALYZE_FROM_ROWS {
        // Until autovacuum runs, the planner would assume empty tables and use nested loops: minutes, not milliseconds.
        // The tables belong to another role.
        db.execute("select kb.analyze_graph()")
            .await
            .map_err(Error::database("analyze the graph after an import"))?;
    }
    Ok(())
}

async fn run(
    db: &mut PgConnection,
    sql: &'static str,
    workspace_id: Uuid,
    actor: Actor,
    attempted: &'static str,
) -> Result<u64, Error> {
    let done = sqlx::query(sql)
        .bind(workspace_id)
        .bind(actor.kind.as_str())
        .bind(actor.id)
        .execute(db)
        .await
        .map_err(Error::database(attempted))?;
    Ok(done.rows_affected())
}

async fn count(db: &mut PgConnection, sql: &'static str) -> Result<u64, Error> {
    let count: i64 = sqlx::query_scalar(sql)
        .fetch_one(db)
        .await
        .map_err(Error::database("count the lines of an import"))?;
    Ok(count as u64)
}

async fn report_unresolved(db: &mut PgConnection, report: &mut Report) -> Result<(), Error> {
    let unresolved = count(
        db,
        "select count(*) from import_ends where source_id is null or target_id is null",
    )
    .await?;
    let room = MAX_REPORTED_BAD_LINES.saturating_sub(report.bad.len()) as i64;
    let named: Vec<(i64, String)> = sqlx::query_as(
        "select line,
            case when source_id is null
                then 'there is no source object ' || coalesce(source_type || ':' || source_key, source_ref::text)
                else 'there is no target object ' || coalesce(target_type || ':' || target_key, target_ref::text)
            end
         from import_ends
         where source_id is null or target_id is null
         order by line
         limit $1",
    )
    .bind(room)
    .fetch_all(db)
    .await
    .map_err(Error::database(
        "report the relationships of an import that lead nowhere",
    ))?;
    report.bad_lines += unresolved;
    report.bad.extend(named.into_iter().map(|(line, reason)| BadLine {
        line: line as u64,
        reason,
    }));
    Ok(())
}

/// Of several lines about one object the last one wins; the id of the first makes the file's order the order of
/// creation.
const PREPARE_OBJECTS: &str = "
create temporary table import_objects on commit drop as
    select distinct on (type, key)
        first_value(id) over (partition by type, key order by line) as id,
        type, key, status, array(select jsonb_array_elements_text(labels)) as labels, properties, content_hash,
        schema_version
    from import_lines_objects
    order by type, key, line desc;
create index on import_objects (type, key);
create index on import_lines_objects (file_id) where file_id is not null;
analyze import_objects;
analyze import_lines_objects;
analyze import_lines_relationships";

/// An end is an object of the file or a live object of the workspace. A live object's id takes precedence over the id
/// under which its line would create it.
const RESOLVE_ENDS: &str = "
create temporary table import_ends on commit drop as
    with
    known as materialized (
        select i.type, i.key, coalesce(o.canonical_id, i.id) as id
        from import_objects i
        left join kb.graph_objects o
          on o.project_id = $1 and o.type = i.type and o.key = i.key and o.superseded_at is null and o.deleted_at is null
    ),
    by_file_id as (
        select distinct on (l.file_id) l.file_id, known.id
        from import_lines_objects l
        join known on known.type = l.type and known.key = l.key
        where l.file_id is not null
        order by l.file_id, l.line desc
    )
    select r.*,
        coalesce(ks.id, os.canonical_id, fs.id, is_.canonical_id) as source_id,
        coalesce(kt.id, ot.canonical_id, ft.id, it.canonical_id) as target_id
    from import_lines_relationships r
    left join known ks on ks.type = r.source_type and ks.key = r.source_key
    left join known kt on kt.type = r.target_type and kt.key = r.target_key
    left join kb.graph_objects os
      on ks.id is null and os.project_id = $1 and os.type = r.source_type and os.key = r.source_key
     and os.superseded_at is null and os.deleted_at is null
    left join kb.graph_objects ot
      on kt.id is null and ot.project_id = $1 and ot.type = r.target_type and ot.key = r.target_key
     and ot.superseded_at is null and ot.deleted_at is null
    left join by_file_id fs on fs.file_id = r.source_ref
    left join by_file_id ft on ft.file_id = r.target_ref
    left join kb.graph_objects is_
      on fs.id is null and is_.project_id = $1 and is_.canonical_id = r.source_ref
     and is_.superseded_at is null and is_.deleted_at is null
    left join kb.graph_objects it
      on ft.id is null and it.project_id = $1 and it.canonical_id = r.target_ref
     and it.superseded_at is null and it.deleted_at is null";

/// Of several lines about one relationship the last one wins.
const PREPARE_RELATIONSHIPS: &str = "
create temporary table import_resolved on commit drop as
    select distinct on (source_id, type, target_id)
        first_value(id) over (partition by source_id, type, target_id order by line) as id,
        type, source_id, target_id, properties, weight, valid_from, valid_to, content_hash
    from import_ends
    where source_id is not null and target_id is not null
    order by source_id, type, target_id, line desc;
analyze import_resolved";

/// $1 workspace, $2 actor's kind, $3 actor's id; so too in the three statements below.
const UPDATE_OBJECTS: &str = "
with superseded as (
    update kb.graph_objects o
    set superseded_at = now()
    from import_objects i
    where o.project_id = $1 and o.type = i.type and o.key = i.key and o.superseded_at is null and o.deleted_at is null
      and o.content_hash <> i.content_hash
    returning o.canonical_id, o.version, o.schema_version as former_schema, o.created_at, i.*
)
insert into kb.graph_objects
    (id, project_id, canonical_id, version, type, key, status, labels, properties, change_summary, content_hash,
     schema_version, actor_type, actor_id, created_at)
select id, $1, canonical_id, version + 1, type, key, status, labels, properties, 'import', content_hash,
    coalesce(schema_version, former_schema), $2, $3, created_at
from superseded";

const CREATE_OBJECTS: &str = "
insert into kb.graph_objects
    (id, project_id, canonical_id, version, type, key, status, labels, properties, change_summary, content_hash,
     schema_version, actor_type, actor_id)
select i.id, $1, i.id, 1, i.type, i.key, i.status, i.labels, i.properties, 'import', i.content_hash,
    i.schema_version, $2, $3
from import_objects i
where not exists (
    select from kb.graph_objects o
    where o.project_id = $1 and o.type = i.type and o.key = i.key and o.superseded_at is null and o.deleted_at is null
)
order by i.id";

const UPDATE_RELATIONSHIPS: &str = "
with superseded as (
    update kb.graph_relationships r
    set superseded_at = now()
    from import_resolved i
    where r.project_id = $1 and r.source_id = i.source_id and r.type = i.type and r.target_id = i.target_id
      and r.superseded_at is null and r.deleted_at is null and r.content_hash <> i.content_hash
    returning r.canonical_id, r.version, r.created_at, i.*
)
insert into kb.graph_relationships
    (id, project_id, canonical_id, version, type, source_id, target_id, properties, weight, valid_from, valid_to,
     content_hash, change_summary, actor_type, actor_id, created_at)
select id, $1, canonical_id, version + 1, type, source_id, target_id, properties, weight, valid_from, valid_to,
    content_hash, 'import', $2, $3, created_at
from superseded";

const CREATE_RELATIONSHIPS: &str = "
insert into kb.graph_relationships
    (id, project_id, canonical_id, version, type, source_id, target_id, properties, weight, valid_from, valid_to,
     content_hash, change_summary, actor_type, actor_id)
select i.id, $1, i.id, 1, i.type, i.source_id, i.target_id, i.properties, i.weight, i.valid_from, i.valid_to,
    i.content_hash, 'import', $2, $3
from import_resolved i
where not exists (
    select from kb.graph_relationships r
    where r.project_id = $1 and r.source_id = i.source_id and r.type = i.type and r.target_id = i.target_id
      and r.superseded_at is null and r.deleted_at is null
)
order by i.id";
