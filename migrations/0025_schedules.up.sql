-- What agents and DAGs of tasks do by the clock, without anybody asking.

create table kb.schedules (
    id          uuid primary key,
    project_id  uuid not null references kb.projects (id) on delete cascade,
    name        text not null,
    -- When: five fields of cron as the clocks of a time zone show them; or once.
    cron        text,
    at          timestamptz,
    time_zone   text not null default 'UTC',
    -- What: an agent, by name, and what it is asked; or a DAG of tasks, as it is written.
    agent       text,
    input       text,
    dag         jsonb,
    -- What becomes of firings that nobody was there for: none, the newest, or each.
    missed      text not null default 'once' check (missed in ('skip', 'once', 'all')),
    enabled     boolean not null default true,
    -- The next firing. Null: it is switched off, or over.
    next_at     timestamptz,
    -- The newest firing: the moment it was due, and what came of it. The run or the DAG may be gone since.
    last_at     timestamptz,
    last_run_id uuid,
    last_dag_id uuid,
    last_error  text,
    -- Whose runs they are.
    created_by  uuid references kb.users (id) on delete set null,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    unique (project_id, name),
    check ((cron is null) <> (at is null)),
    check ((agent is null) <> (dag is null)),
    check (enabled or next_at is null)
);
create index schedules_due on kb.schedules (next_at) where next_at is not null;

grant select, insert, update, delete on kb.schedules to rejoin_app, rejoin_worker;

alter table kb.schedules enable row level security;
create policy app on kb.schedules to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.schedules to rejoin_worker using (true);

-- Another run's records up to a step, which a run began with.
alter table kb.agent_runs
    add column forked_from_run_id uuid,
    add column forked_from_step   int;

-- What of its quota a project has used up today, if anything: `runs` or `tokens`. That alone: workers may not look at projects.
create function kb.exhausted(p_project uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select case when u.runs >= p.runs_per_day then 'runs' when u.tokens >= p.tokens_per_day then 'tokens' end
    from kb.projects p cross join lateral kb.used_today(p.id) u
    where p.id = p_project and (p.runs_per_day is not null or p.tokens_per_day is not null)
$$;
revoke all on function kb.exhausted from public;
grant execute on function kb.exhausted to rejoin_worker;
