-- Plans that agents make, and people may approve. While a plan is carried out its steps are the tasks of a DAG, which dispatches them.

create table kb.agent_plans (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    user_id         uuid references kb.users (id) on delete set null,
    conversation_id uuid references kb.chat_conversations (id) on delete cascade,
    -- The planner's run, and its call.
    run_id          uuid not null references kb.agent_runs (id) on delete cascade,
    call_id         uuid not null unique,
    -- What it takes the place of.
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

-- Each text of a plan's steps, and whose it was.
create table kb.agent_plan_versions (
    plan_id    uuid not null references kb.agent_plans (id) on delete cascade,
    version    int not null,
    steps      jsonb not null,
    changed_by text not null check (changed_by in ('agent', 'user')),
    created_at timestamptz not null default now(),
    primary key (plan_id, version)
);

-- The plan that a DAG carries out, and the log in which that is told.
alter table kb.task_dags
    add column plan_id uuid,
    add column log_id  uuid;

-- What a run is: {"source": "planner"}, {"source": "suggestion"}, or {"source": "plan_step", "stepNumber", "planId", "tools"}.
alter table kb.agent_runs add column part jsonb;

-- A question may be whether a plan is carried out.
alter table kb.questions
    drop constraint questions_kind_check,
    add constraint questions_kind_check check (kind in ('ask', 'confirm', 'task', 'plan'));

grant select, insert, update, delete on kb.agent_plans, kb.agent_plan_versions to rejoin_app, rejoin_worker;

alter table kb.agent_plans enable row level security;
create policy app on kb.agent_plans to rejoin_app
    using (project_id = kb.current_project()
           and (conversation_id is null
                or exists (select from kb.chat_conversations c where c.id = conversation_id and c.owner_user_id = kb.current_owner())));
create policy worker on kb.agent_plans to rejoin_worker using (true);
alter table kb.agent_plan_versions enable row level security;
create policy app on kb.agent_plan_versions to rejoin_app using (exists (select from kb.agent_plans p where p.id = plan_id));
create policy worker on kb.agent_plan_versions to rejoin_worker using (true);
