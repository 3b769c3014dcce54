//! A witness inside the database: a trigger on `queue.jobs` that records each job's history, claim by claim. It exists
//! in the chaos run's databases only, and records in the same transactions. It is in the schema `public`, whose tables do not move with a project.

use anyhow::Result;
use sqlx::PgPool;
use sqlx::types::chrono::{DateTime, Utc};
use uuid::Uuid;

/// One change of a job's row, after it; `state` is `gone` if the row was deleted.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Seen {
    pub n: i64,
    pub at: DateTime<Utc>,
    pub job_id: i64,
    #[sqlx(rename = "project_id")]
    pub workspace_id: Option<Uuid>,
    pub run_id: Option<Uuid>,
    pub state: String,
    pub attempt: i32,
    pub worker_id: Option<Uuid>,
    pub held: bool,
    pub run_at: DateTime<Utc>,
    pub lease_until: Option<DateTime<Utc>>,
    pub had_lease: Option<DateTime<Utc>>,
    pub last_error: Option<String>,
}

const INSTALL: &str = "
create table public.witness_jobs (
    n           bigint generated always as identity primary key,
    at          timestamptz not null default clock_timestamp(),
    job_id      bigint not null,
    project_id  uuid,
    run_id      uuid,
    state       text not null,
    attempt     int not null,
    worker_id   uuid,
    held        boolean not null,
    run_at      timestamptz not null,
    lease_until timestamptz,
    -- Of the row before this change: a lease that was taken away.
    had_lease   timestamptz,
    last_error  text
);
create function public.witness_job() returns trigger language plpgsql security definer as $$
begin
    if tg_op = 'DELETE' then
        insert into public.witness_jobs (job_id, project_id, run_id, state, attempt, worker_id, held, run_at, lease_until)
        values (old.id, old.project_id, old.run_id, 'gone', old.attempt, old.worker_id, old.held, old.run_at, old.lease_until);
    elsif tg_op = 'INSERT' or (old.state, old.attempt, old.held, old.worker_id) is distinct from (new.state, new.attempt, new.held, new.worker_id) then
        insert into public.witness_jobs (job_id, project_id, run_id, state, attempt, worker_id, held, run_at, lease_until, had_lease, last_error)
        values (new.id, new.project_id, new.run_id, new.state, new.attempt, new.worker_id, new.held, new.run_at, new.lease_until, old.lease_until, new.last_error);
    end if;
    return null;
end
$$;
create trigger witness after insert or update or delete on queue.jobs for each row execute function public.witness_job();
-- Who the workers were: their rows leave with them.
create table public.witness_workers (id uuid primary key, pid int not null, seen_at timestamptz not null default clock_timestamp());
create function public.witness_worker() returns trigger language plpgsql security definer as $$
begin
    insert into public.witness_workers (id, pid) values (new.id, new.pid) on conflict do nothing;
    return null;
end
$$;
create trigger witness after insert on queue.workers for each row execute function public.witness_worker();
";

pub async fn install(db: &PgPool) -> Result<()> {
    sqlx::raw_sql(INSTALL).execute(db).await?;
    Ok(())
}

/// Returns the newest worker with this process id.
pub async fn worker(db: &PgPool, pid: u32) -> Result<Option<Uuid>> {
    let id = sqlx::query_scalar("select id from public.witness_workers where pid = $1 order by seen_at desc limit 1")
        .bind(i32::try_from(pid)?)
        .fetch_optional(db)
        .await?;
    Ok(id)
}

/// Returns all observations, job by job, in order. None without a witness.
pub async fn seen(db: &PgPool) -> Result<Option<Vec<Seen>>> {
    let is_there: bool = sqlx::query_scalar("select to_regclass('public.witness_jobs') is not null")
        .fetch_one(db)
        .await?;
    if !is_there {
        return Ok(None);
    }
    let seen = sqlx::query_as(
        "select n, at, job_id, project_id, run_id, state, attempt, worker_id, held,
                -- a parked job is due never, which no clock of ours knows
                case when isfinite(run_at) then run_at else '9999-01-01' end as run_at, lease_until, had_lease, last_error
         from public.witness_jobs order by job_id, n",
    )
    .fetch_all(db)
    .await?;
    Ok(Some(seen))
}
