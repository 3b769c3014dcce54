-- Runs that wait for other runs or for a person, and hold no worker while they do.
--
-- A run that waits keeps its job: available, due at 'infinity'. So its conversation stays its own (the job is the head of its concurrency
-- key), its fencing number goes on, and waking it is one update, which happens once.

alter table kb.agent_runs
    -- The call of the parent's that started it, and its place there.
    add column spawn_call_id  uuid,
    add column spawn_position int,
    -- Steps before this turn: limits of steps count from here. A run that is resumed begins a new turn.
    add column turn_step      int not null default 0,
    -- Since when it waits; and how long it has waited in this turn, which its timeout does not count [seconds].
    add column waiting_since  timestamptz,
    add column waited_s       double precision not null default 0,
    -- The same for the whole tree, on its root: the time in which a person was asked.
    add column questions_open  int not null default 0,
    add column questions_since timestamptz,
    add column person_s        double precision not null default 0,
    -- What the whole tree has used, on its root: tokens, money, sub-agents that were started.
    add column tree_tokens   bigint not null default 0,
    add column tree_cost_usd double precision not null default 0,
    add column tree_runs     int not null default 0;

create index agent_runs_spawned on kb.agent_runs (spawn_call_id, spawn_position) where spawn_call_id is not null;
-- Sub-agents that are at work in a project.
create index agent_runs_sub_agents on kb.agent_runs (project_id)
    where parent_run_id is not null and state in ('queued', 'running', 'waiting');

-- What a run asks a person: an agent's question, or whether a call may act.
create table kb.questions (
    id               uuid primary key,
    project_id       uuid not null references kb.projects (id) on delete cascade,
    run_id           uuid not null references kb.agent_runs (id) on delete cascade,
    -- The call that asks, or that may act once it is approved. Null: something else asks.
    tool_call_id     uuid references kb.agent_run_tool_calls (id) on delete cascade,
    kind             text not null check (kind in ('ask', 'confirm', 'task')),
    question         text not null,
    -- [{label, value, description?}]
    options          jsonb not null default '[]',
    interaction_type text not null check (interaction_type in ('buttons', 'select', 'multi_select', 'text', 'confirm')),
    placeholder      text,
    max_length       int,
    status           text not null default 'pending' check (status in ('pending', 'answered', 'expired', 'cancelled')),
    answer           jsonb,
    answered_by      uuid references kb.users (id) on delete set null,
    created_at       timestamptz not null default now(),
    answered_at      timestamptz,
    unique (tool_call_id)
);
create index questions_run on kb.questions (run_id);
create index questions_pending on kb.questions (project_id, created_at, id) where status = 'pending';

-- Messages for a run that is at work, until its next step takes them.
create table kb.run_inbox (
    id         bigint generated always as identity primary key,
    run_id     uuid not null references kb.agent_runs (id) on delete cascade,
    content    text not null,
    user_id    uuid references kb.users (id) on delete set null,
    created_at timestamptz not null default now()
);
create index run_inbox_run on kb.run_inbox (run_id, id);

-- What models cost in a project, where it differs from what is built in.
create table kb.model_prices (
    project_id   uuid not null references kb.projects (id) on delete cascade,
    -- A model's name, or a glob: openai:gpt-4o, ollama:*
    model        text not null,
    -- Dollars for a million tokens.
    input_usd    double precision not null check (input_usd >= 0),
    output_usd   double precision not null check (output_usd >= 0),
    updated_at   timestamptz not null default now(),
    primary key (project_id, model)
);

grant select, insert, update, delete on kb.questions, kb.run_inbox, kb.model_prices to rejoin_app, rejoin_worker;

alter table kb.questions enable row level security;
create policy app on kb.questions to rejoin_app using (exists (select from kb.agent_runs r where r.id = run_id));
create policy worker on kb.questions to rejoin_worker using (true);
alter table kb.run_inbox enable row level security;
create policy app on kb.run_inbox to rejoin_app using (exists (select from kb.agent_runs r where r.id = run_id));
create policy worker on kb.run_inbox to rejoin_worker using (true);
alter table kb.model_prices enable row level security;
create policy app on kb.model_prices to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.model_prices to rejoin_worker using (true);
