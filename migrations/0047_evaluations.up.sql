-- Evaluation sets: questions with the answers that are expected, and evaluations of agents with them (docs/guide/evaluations.md).

create table kb.evaluation_sets (
    id          uuid primary key,
    project_id  uuid not null references kb.projects (id) on delete cascade,
    name        text not null check (length(name) between 1 and 100),
    description text not null default '',
    created_by  uuid references kb.users (id) on delete set null,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    unique (project_id, name)
);
create index evaluation_sets_list on kb.evaluation_sets (project_id, created_at desc, id desc);
grant select, insert, update, delete on kb.evaluation_sets to rejoin_app;
alter table kb.evaluation_sets enable row level security;
create policy app on kb.evaluation_sets to rejoin_app using (project_id = kb.current_project());

create table kb.evaluation_cases (
    id         uuid primary key,
    set_id     uuid not null references kb.evaluation_sets (id) on delete cascade,
    project_id uuid not null references kb.projects (id) on delete cascade,
    question   text not null,
    -- Null: the judge decides by the question and the criteria alone.
    expected   text,
    -- The run that was asked the question. It may be deleted. Null: the case was written by hand.
    run_id     uuid,
    created_at timestamptz not null default now(),
    unique (set_id, run_id)
);
create index evaluation_cases_list on kb.evaluation_cases (set_id, created_at, id);
create index evaluation_cases_project on kb.evaluation_cases (project_id);
grant select, insert, update, delete on kb.evaluation_cases to rejoin_app;
alter table kb.evaluation_cases enable row level security;
create policy app on kb.evaluation_cases to rejoin_app using (project_id = kb.current_project());

-- An evaluation is a task DAG. The tasks `answer-1` and `judge-1` belong to the first of its cases, and so on.
create table kb.evaluations (
    id                  uuid primary key,
    set_id              uuid not null references kb.evaluation_sets (id) on delete cascade,
    project_id          uuid not null references kb.projects (id) on delete cascade,
    dag_id              uuid not null references kb.task_dags (id) on delete cascade,
    -- The agent as it was: it may be changed, renamed or deleted since.
    agent_definition_id uuid not null,
    agent_name          text not null,
    agent_version       int not null,
    judge_agent         text not null,
    criteria            text,
    -- The cases as they were: [{id, question, expected}]
    cases               jsonb not null,
    created_by          uuid references kb.users (id) on delete set null,
    created_at          timestamptz not null default now()
);
create index evaluations_list on kb.evaluations (set_id, created_at desc, id desc);
create index evaluations_project on kb.evaluations (project_id);
create index evaluations_dag on kb.evaluations (dag_id);
grant select, insert, delete on kb.evaluations to rejoin_app;
alter table kb.evaluations enable row level security;
create policy app on kb.evaluations to rejoin_app using (project_id = kb.current_project());
