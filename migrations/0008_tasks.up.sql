-- Work that is dispatched: DAGs of tasks, plans, schedules.

-- Task DAGs. What a task says and which ones block it is in the graph (objects of the type SpecTask, relationships `blocks`); its state is
-- here, and its object follows in the same transaction.
create table kb.task_dags (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    user_id         uuid references kb.users (id) on delete set null,
    name            text not null,
    state           text not null default 'active' check (state in ('active', 'paused', 'completed', 'failed', 'cancelled')),
    -- Tasks that run at the same time.
    max_concurrency int not null check (max_concurrency > 0),
    -- What becomes of the tasks behind one that failed: they are skipped, or the whole DAG is stopped.
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
    finished_at     timestamptz,
    -- The plan that it carries out (kb.agent_plans), and the log whose readers follow that.
    plan_id         uuid,
    log_id          uuid
);
create index task_dags_list on kb.task_dags (project_id, created_at desc, id desc);
create index task_dags_waiting on kb.task_dags (waiting_run_id) where waiting_run_id is not null;
create index task_dags_call on kb.task_dags (waiting_call_id) where waiting_call_id is not null;
grant select, insert, update, delete on kb.task_dags to rejoin_app, rejoin_worker;
alter table kb.task_dags enable row level security;
create policy app on kb.task_dags to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.task_dags to rejoin_worker using (true);

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
    -- The number of tasks before it that are not over.
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
grant select, insert, update, delete on kb.tasks to rejoin_app, rejoin_worker;
alter table kb.tasks enable row level security;
create policy app on kb.tasks to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.tasks to rejoin_worker using (true);

-- How many tasks of a project run at the same time. Nothing but that: a process that dispatches may not look at projects.
create function kb.parallel_tasks(p_project uuid) returns int
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select parallel_tasks from kb.projects where id = p_project
$$;
revoke all on function kb.parallel_tasks from public;
grant execute on function kb.parallel_tasks to rejoin_app, rejoin_worker;

-- Plans that agents make, and people may approve. While a plan is carried out its steps are the tasks of a DAG, which dispatches them
-- (docs/decisions/0022-plans.md).
create table kb.agent_plans (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    user_id         uuid references kb.users (id) on delete set null,
    conversation_id uuid references kb.chat_conversations (id) on delete cascade,
    -- The planner's run, and its call.
    run_id          uuid not null references kb.agent_runs (id) on delete cascade,
    call_id         uuid not null unique,
    -- The plan that it replaces.
    revises_plan_id uuid references kb.agent_plans (id) on delete set null,
    objective       text not null,
    user_message    text not null default '',
    strategy        text not null default 'planner_stream'
                    check (strategy in ('planner_stream', 'ask_clarifying_questions', 'project_creation')),
    execution_mode  text not null check (execution_mode in ('auto_execute', 'draft_only', 'agent_review')),
    status          text not null
                    check (status in ('pending', 'pending_review', 'executing', 'completed', 'completed_with_errors', 'failed')),
    version         int not null default 1,
    steps           jsonb not null,
    -- What was wanted of it, who reviewed it and what they said.
    metadata        jsonb not null default '{}',
    -- Named before it is made, within one transaction.
    dag_id          uuid references kb.task_dags (id) on delete set null deferrable initially deferred,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    finished_at     timestamptz
);
create index agent_plans_list on kb.agent_plans (project_id, created_at desc, id desc);
create index agent_plans_run on kb.agent_plans (run_id);
create index agent_plans_conversation on kb.agent_plans (conversation_id) where conversation_id is not null;
grant select, insert, update, delete on kb.agent_plans to rejoin_app, rejoin_worker;
alter table kb.agent_plans enable row level security;
-- As of runs: a plan outside a conversation is its user's.
create policy app on kb.agent_plans to rejoin_app
    using (project_id = kb.current_project()
           and (conversation_id is null and coalesce(user_id = kb.current_owner(), user_id is null)
                or exists (select from kb.chat_conversations c where c.id = conversation_id and c.owner_user_id = kb.current_owner())));
create policy worker on kb.agent_plans to rejoin_worker using (true);

-- Each text of a plan's steps, and whose it was.
create table kb.agent_plan_versions (
    plan_id    uuid not null references kb.agent_plans (id) on delete cascade,
    version    int not null,
    steps      jsonb not null,
    changed_by text not null check (changed_by in ('agent', 'user')),
    created_at timestamptz not null default now(),
    primary key (plan_id, version)
);
grant select, insert, update, delete on kb.agent_plan_versions to rejoin_app, rejoin_worker;
alter table kb.agent_plan_versions enable row level security;
create policy app on kb.agent_plan_versions to rejoin_app using (exists (select from kb.agent_plans p where p.id = plan_id));
create policy worker on kb.agent_plan_versions to rejoin_worker using (true);

-- What agents and DAGs of tasks do by the clock, without a request.
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
    -- What becomes of firings that no process was there for: none, the newest, or each.
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
