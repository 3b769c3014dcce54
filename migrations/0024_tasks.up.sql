-- Task DAGs: what dispatches tasks. What a task says and which ones block it is in the graph (objects of the type SpecTask, relationships
-- `blocks`); its state is here, and its object follows in the same transaction.

create table kb.task_dags (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    user_id         uuid references kb.users (id) on delete set null,
    name            text not null,
    state           text not null default 'active' check (state in ('active', 'paused', 'completed', 'failed', 'cancelled')),
    -- Tasks that run at the same time.
    max_concurrency int not null check (max_concurrency > 0),
    -- What becomes of the tasks behind one that failed: they are skipped, or the whole DAG is.
    on_failure      text not null check (on_failure in ('skip', 'stop')),
    -- Which agent a task gets: [{pattern, agent} | {field, value, agent}]
    rules           jsonb not null default '[]',
    -- Agents that decide: which agent a task gets, whether an output is good, what becomes of a failure. Null: rules do.
    selector_agent  text,
    judge_agent     text,
    triage_agent    text,
    -- The run that waits for its end; the call that made it.
    waiting_run_id  uuid references kb.agent_runs (id) on delete set null,
    waiting_call_id uuid,
    created_at      timestamptz not null default now(),
    finished_at     timestamptz
);
create index task_dags_list on kb.task_dags (project_id, created_at desc, id desc);
create index task_dags_waiting on kb.task_dags (waiting_run_id) where waiting_run_id is not null;
create index task_dags_call on kb.task_dags (waiting_call_id) where waiting_call_id is not null;

create table kb.tasks (
    -- The object's.
    id               uuid primary key,
    dag_id           uuid not null references kb.task_dags (id) on delete cascade,
    project_id       uuid not null references kb.projects (id) on delete cascade,
    -- Its name in the DAG.
    ref              text not null,
    title            text not null,
    description      text not null default '',
    state            text not null default 'pending' check (state in ('pending', 'in_progress', 'completed', 'failed', 'skipped')),
    -- 0 critical … 3 low: smaller ones first.
    priority         smallint not null default 2,
    -- Tasks before it that are not over.
    waits_for        int not null default 0,
    -- The agent that was asked for, and the one that it got, with the reason.
    wanted_agent     text,
    assigned_agent   text,
    assigned_because text,
    -- What is under way: the task itself, or an agent that decides about it.
    run_id           uuid references kb.agent_runs (id) on delete set null,
    role             text check (role in ('select', 'work', 'judge', 'triage')),
    retry_count      int not null default 0,
    max_retries      int not null default 1,
    failure_context  text,
    -- What came out of it.
    summary          text,
    created_at       timestamptz not null default now(),
    started_at       timestamptz,
    finished_at      timestamptz,
    unique (dag_id, ref)
);
-- What may start now, the most urgent first; and what runs.
create index tasks_ready on kb.tasks (dag_id, priority, id) where state = 'pending' and waits_for = 0;
create index tasks_running on kb.tasks (project_id, dag_id) where state = 'in_progress';
create index tasks_open on kb.tasks (dag_id) where state in ('pending', 'in_progress');
create index tasks_run on kb.tasks (run_id) where run_id is not null;

-- The task that a run works on, or decides about.
alter table kb.agent_runs add column task_id uuid;

-- Tasks of a project that run at the same time, over all of its DAGs.
alter table kb.projects add column parallel_tasks int not null default 50 check (parallel_tasks > 0);

grant select, insert, update, delete on kb.task_dags, kb.tasks to rejoin_app, rejoin_worker;

-- That number alone: whoever dispatches may not look at projects.
create function kb.parallel_tasks(p_project uuid) returns int
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select parallel_tasks from kb.projects where id = p_project
$$;
revoke all on function kb.parallel_tasks from public;
grant execute on function kb.parallel_tasks to rejoin_app, rejoin_worker;

alter table kb.task_dags enable row level security;
create policy app on kb.task_dags to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.task_dags to rejoin_worker using (true);
alter table kb.tasks enable row level security;
create policy app on kb.tasks to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.tasks to rejoin_worker using (true);
