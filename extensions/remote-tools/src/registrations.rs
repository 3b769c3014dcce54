//! Workers and the tools that they serve: rows of `kb.remote_workers`, `kb.remote_tools` and `kb.remote_worker_tools`.
//!
//! Invariant: all live workers that serve one version of a tool have announced it with the same definition.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rejoin_types::ids;
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::announcement::{NewRemoteWorker, RemoteToolBody};

/// Why a worker can't register.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error(
        "the worker {other} ({other_id}) serves version {version} of {tool} {how}; give yours another version, or stop that worker first"
    )]
    Conflict {
        tool: String,
        version: String,
        other: String,
        other_id: Uuid,
        how: &'static str,
    },
    #[error("{0} workers of this project are registered, and there can be no more; stop some first")]
    TooMany(i64),
    #[error("registering the worker failed")]
    Database(#[from] sqlx::Error),
}

/// Registers a worker, or replaces its registration. Returns its id.
///
/// # Errors
/// A live worker serves the same version of a tool in another way, or there are too many workers.
pub async fn register(
    db: &mut PgConnection,
    workspace_id: Uuid,
    queue: &str,
    worker: &NewRemoteWorker,
    alive_s: f64,
    max_workers: i64,
) -> Result<Uuid, RegisterError> {
    // One registration of a workspace at a time: two that conflict would not see each other.
    sqlx::query!(
        "select pg_advisory_xact_lock(hashtextextended('remote-tools:' || $1::uuid::text, 0))",
        workspace_id
    )
    .execute(&mut *db)
    .await?;
    let replaced = match worker.worker_id {
        Some(known) => replace(db, queue, known, worker, alive_s).await?,
        None => None,
    };
    let others = sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.remote_workers where project_id = $1 and id is distinct from $2 and alive_until > now()"#,
        workspace_id,
        replaced as _
    )
    .fetch_one(&mut *db)
    .await?;
    if others >= max_workers {
        return Err(RegisterError::TooMany(others));
    }
    let id = match replaced {
        Some(id) => id,
        None => insert(db, workspace_id, queue, worker, alive_s).await?,
    };
    for tool in &worker.tools {
        let tool_id = announce(db, workspace_id, queue, tool).await?;
        sqlx::query!(
            "insert into kb.remote_worker_tools (worker_id, tool_id, project_id) values ($1, $2, $3)",
            id,
            tool_id,
            workspace_id
        )
        .execute(&mut *db)
        .await?;
    }
    Ok(id)
}

/// Replaces the registration of a worker, without its tools. None: it is not registered in this queue.
async fn replace(
    db: &mut PgConnection,
    queue: &str,
    id: Uuid,
    worker: &NewRemoteWorker,
    alive_s: f64,
) -> Result<Option<Uuid>, sqlx::Error> {
    let replaced = sqlx::query_scalar!(
        "update kb.remote_workers
         set name = $3, version = $4, language = $5, slots = $6, draining = false, revision = revision + 1, seen_at = now(),
             alive_until = now() + make_interval(secs => $7)
         where id = $1 and queue = $2
         returning id",
        id,
        queue,
        worker.name,
        worker.version,
        worker.language,
        worker.slots,
        alive_s
    )
    .fetch_optional(&mut *db)
    .await?;
    if replaced.is_some() {
        sqlx::query!("delete from kb.remote_worker_tools where worker_id = $1", id)
            .execute(db)
            .await?;
    }
    Ok(replaced)
}

async fn insert(
    db: &mut PgConnection,
    workspace_id: Uuid,
    queue: &str,
    worker: &NewRemoteWorker,
    alive_s: f64,
) -> Result<Uuid, sqlx::Error> {
    sqlx::query_scalar!(
        "insert into kb.remote_workers (id, project_id, queue, name, version, language, slots, alive_until)
         values ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8))
         returning id",
        ids::new(),
        workspace_id,
        queue,
        worker.name,
        worker.version,
        worker.language,
        worker.slots,
        alive_s
    )
    .fetch_one(db)
    .await
}

/// Stores a tool's definition, which may replace that of workers that are gone.
async fn announce(
    db: &mut PgConnection,
    workspace_id: Uuid,
    queue: &str,
    tool: &RemoteToolBody,
) -> Result<Uuid, RegisterError> {
    let other = sqlx::query!(
        r#"select w.id, w.name, t.queue <> $4 as "elsewhere!"
           from kb.remote_tools t
           join kb.remote_worker_tools s on s.tool_id = t.id
           join kb.remote_workers w on w.id = s.worker_id
           where t.project_id = $1 and t.name = $2 and w.alive_until > now()
             and (t.queue <> $4
                  or t.version = $3
                     and (t.description, t.input_schema, t.read_only, t.idempotent, t.confirm, t.timeout_s, t.when_absent)
                         is distinct from ($5, $6::jsonb, $8::boolean, $9::boolean, $10::boolean, $11::int, $12)
                  or t.version = $3 and t.output_schema is distinct from $7::jsonb)
           limit 1"#,
        workspace_id,
        tool.name,
        tool.version,
        queue,
        tool.description,
        tool.input_schema,
        tool.output_schema as _,
        tool.read_only,
        tool.idempotent,
        tool.confirm,
        tool.timeout_s,
        tool.when_absent.as_str()
    )
    .fetch_optional(&mut *db)
    .await?;
    if let Some(other) = other {
        return Err(RegisterError::Conflict {
            tool: tool.name.clone(),
            version: tool.version.clone(),
            other: other.name,
            other_id: other.id,
            how: if other.elsewhere {
                "in another queue"
            } else {
                "with another description, schema or mark"
            },
        });
    }
    Ok(sqlx::query_scalar!(
        "insert into kb.remote_tools (id, project_id, name, version, queue, description, input_schema, output_schema, read_only,
                                      idempotent, confirm, timeout_s, when_absent)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         on conflict (project_id, name, version) do update
         set queue = excluded.queue, description = excluded.description, input_schema = excluded.input_schema,
             output_schema = excluded.output_schema, read_only = excluded.read_only, idempotent = excluded.idempotent,
             confirm = excluded.confirm, timeout_s = excluded.timeout_s, when_absent = excluded.when_absent, registered_at = now()
         returning id",
        ids::new(),
        workspace_id,
        tool.name,
        tool.version,
        queue,
        tool.description,
        tool.input_schema,
        tool.output_schema as _,
        tool.read_only,
        tool.idempotent,
        tool.confirm,
        tool.timeout_s,
        tool.when_absent.as_str()
    )
    .fetch_one(db)
    .await?)
}

/// A registered worker.
#[derive(Debug, Clone)]
pub struct RemoteWorker {
    pub id: Uuid,
    pub queue: String,
    pub name: String,
    pub version: String,
    pub language: String,
    pub slots: i32,
    pub draining: bool,
    pub started_at: DateTime<Utc>,
    pub seen_at: DateTime<Utc>,
    pub alive: bool,
    /// `name@version` of each tool that it serves, in order.
    pub tools: Vec<String>,
    /// Number of calls that it has.
    pub calls: i64,
}

/// Returns the workers of a workspace, the oldest first.
pub async fn list(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<RemoteWorker>, sqlx::Error> {
    sqlx::query_as!(
        RemoteWorker,
        r#"select w.id, w.queue, w.name, w.version, w.language, w.slots, w.draining, w.started_at, w.seen_at,
                  w.alive_until > now() as "alive!",
                  array(select t.name || '@' || t.version from kb.remote_worker_tools s join kb.remote_tools t on t.id = s.tool_id
                        where s.worker_id = w.id order by 1) as "tools!",
                  (select count(*) from kb.remote_calls c where c.worker_id = w.id and c.status = 'running') as "calls!"
           from kb.remote_workers w where w.project_id = $1 order by w.id"#,
        workspace_id
    )
    .fetch_all(db)
    .await
}

/// A tool that agents may be given.
#[derive(Debug, Clone)]
pub struct OfferedTool {
    pub name: String,
    pub version: String,
    pub queue: String,
    pub description: String,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub read_only: bool,
    pub idempotent: bool,
    pub confirm: bool,
    pub timeout_s: i32,
}

/// Returns the tools of a workspace: of each the newest version that a live worker serves, else the newest one that waits for a worker.
pub async fn offered(db: &mut PgConnection, workspace_id: Uuid) -> Result<Vec<OfferedTool>, sqlx::Error> {
    sqlx::query_as!(
        OfferedTool,
        r#"select distinct on (t.name) t.name, t.version, t.queue, t.description, t.input_schema, t.output_schema, t.read_only,
                  t.idempotent, t.confirm, t.timeout_s
           from kb.remote_tools t
           cross join lateral (
               select exists (select from kb.remote_worker_tools s join kb.remote_workers w on w.id = s.worker_id
                              where s.tool_id = t.id and w.alive_until > now()) as served) l
           where t.project_id = $1 and (l.served or t.when_absent = 'wait')
           order by t.name, l.served desc, t.created_at desc, t.id desc"#,
        workspace_id
    )
    .fetch_all(db)
    .await
}

/// Returns the names of a worker's tools.
pub async fn tools_of(db: impl PgExecutor<'_>, worker_id: Uuid) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "select distinct t.name from kb.remote_worker_tools s join kb.remote_tools t on t.id = s.tool_id where s.worker_id = $1",
        worker_id
    )
    .fetch_all(db)
    .await
}

/// Records that a worker is there for this long. False: it is not registered in this queue.
pub async fn seen(
    db: &mut PgConnection,
    queue: &str,
    worker_id: Uuid,
    alive_s: f64,
    draining: bool,
) -> Result<bool, sqlx::Error> {
    let seen = sqlx::query!(
        "update kb.remote_workers
         set seen_at = now(), alive_until = greatest(alive_until, now() + make_interval(secs => $3)), draining = $4
         where id = $1 and queue = $2",
        worker_id,
        queue,
        alive_s,
        draining
    )
    .execute(db)
    .await?;
    Ok(seen.rows_affected() > 0)
}

/// Renews the registrations of workers of any workspace for this long, and ends those of workers that closed their connection (id, seconds ago),
/// unless something was heard of them since. Returns the number of the registration of each of the former; one that is missing is not registered.
pub async fn renew(
    db: impl PgExecutor<'_>,
    here: &[Uuid],
    alive: Duration,
    gone: &[(Uuid, f64)],
) -> Result<HashMap<Uuid, i32>, sqlx::Error> {
    let (gone, gone_s): (Vec<Uuid>, Vec<f64>) = gone.iter().copied().unzip();
    let renewed = sqlx::query!(
        r#"select id as "id!", revision as "revision!" from kb.renew_remote_workers($1, make_interval(secs => $2), $3, $4)"#,
        here,
        alive.as_secs_f64(),
        &gone,
        &gone_s
    )
    .fetch_all(db)
    .await?;
    Ok(renewed.into_iter().map(|row| (row.id, row.revision)).collect())
}

/// Removes a worker, and ends the leases of its calls. False: it is not registered in this queue.
pub async fn leave(db: &mut PgConnection, queue: &str, worker_id: Uuid) -> Result<bool, sqlx::Error> {
    let removed = sqlx::query!(
        "delete from kb.remote_workers where id = $1 and queue = $2",
        worker_id,
        queue
    )
    .execute(&mut *db)
    .await?;
    if removed.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!(
        "update queue.jobs set lease_until = now() where state = 'running' and worker_id = $1 and kind = $2",
        worker_id,
        rejoin_runs::remote_calls::KIND
    )
    .execute(db)
    .await?;
    Ok(true)
}

/// Removes workers that were not seen, and tools that were not registered, for these many seconds.
pub async fn sweep(db: impl PgExecutor<'_> + Copy, workers_s: f64, tools_s: f64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from kb.remote_workers where alive_until < now() - make_interval(secs => $1)",
        workers_s
    )
    .execute(db)
    .await?;
    sqlx::query!(
        "delete from kb.remote_tools t
         where registered_at < now() - make_interval(secs => $1)
           and not exists (select from kb.remote_worker_tools s where s.tool_id = t.id)",
        tools_s
    )
    .execute(db)
    .await?;
    Ok(())
}
