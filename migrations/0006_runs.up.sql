-- Conversations, agents, and what agents did in their runs.

create table kb.agent_definitions (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    name            text not null,
    description     text not null default '',
    system_prompt   text not null,
    -- {name, temperature?, maxTokens?}; null: the deployment's default model.
    model           jsonb,
    -- Allowed tools, with globs over the project's tool pool; an empty list means none.
    tools           text[] not null default '{}',
    flow_type       text not null default 'single' check (flow_type in ('single', 'sequential', 'loop', 'parallel', 'discussion')),
    is_default      boolean not null default false,
    -- Null: no limit of its own (the total over all resumes still holds).
    max_steps       int check (max_steps > 0),
    -- In seconds.
    default_timeout int check (default_timeout > 0),
    visibility      text not null default 'project' check (visibility in ('external', 'project', 'internal')),
    max_depth       int check (max_depth >= 0),
    config          jsonb not null default '{}',
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    unique (project_id, name)
);
comment on column kb.agent_definitions.default_timeout is 'seconds';
grant select, insert, update, delete on kb.agent_definitions to rejoin_app, rejoin_worker;
alter table kb.agent_definitions enable row level security;
create policy app on kb.agent_definitions to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.agent_definitions to rejoin_worker using (true);

-- What a chat UI shows.
create table kb.chat_conversations (
    id                  uuid primary key,
    project_id          uuid not null references kb.projects (id) on delete cascade,
    owner_user_id       uuid not null references kb.users (id),
    title               text not null,
    -- A client's stored choice of tools. Never read: an agent is configured by its definition alone.
    enabled_tools       text[],
    metadata            jsonb not null default '{}',
    created_at          timestamptz not null default now(),
    updated_at          timestamptz not null default now(),
    -- The agent that the conversation is bound to for its whole life. Null: a plain conversation.
    agent_definition_id uuid references kb.agent_definitions (id),
    -- The console that its agents work on (kb.consoles).
    pinned_console_id   uuid,
    -- What the conversation is about: {"contextType": …, "focus": {…} or absent}.
    context             jsonb,
    -- What the newest turn was about, as the server saw it.
    last_turn           jsonb
);
create index chat_conversations_list on kb.chat_conversations (project_id, owner_user_id, updated_at desc, id desc);
create index chat_conversations_pinned on kb.chat_conversations (pinned_console_id) where pinned_console_id is not null;
grant select, insert, update, delete on kb.chat_conversations to rejoin_app, rejoin_worker;
alter table kb.chat_conversations enable row level security;
create policy app on kb.chat_conversations to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.chat_conversations to rejoin_worker using (true);

create table kb.chat_messages (
    id                uuid primary key,
    conversation_id   uuid not null references kb.chat_conversations (id) on delete cascade,
    role              text not null check (role in ('user', 'assistant', 'system')),
    content           text not null,
    citations         jsonb,
    -- {"agent_run_id": …} on an assistant's message: the full trace of how it came about.
    retrieval_context jsonb,
    metadata          jsonb not null default '{}',
    -- Position in the log of the conversation: orders messages as every reader saw them.
    seq               bigint not null,
    created_at        timestamptz not null default now(),
    unique (conversation_id, seq)
);
grant select, insert, update, delete on kb.chat_messages to rejoin_app, rejoin_worker;
-- What belongs to a conversation is seen where the conversation is.
alter table kb.chat_messages enable row level security;
create policy app on kb.chat_messages to rejoin_app
    using (exists (select from kb.chat_conversations c where c.id = conversation_id));
create policy worker on kb.chat_messages to rejoin_worker using (true);

-- Long conversations: summaries of their older messages, for models. The messages themselves stay.
create table kb.chat_compressions (
    conversation_id uuid not null references kb.chat_conversations (id) on delete cascade,
    version         int not null,
    -- The number of the last message's event that the summary covers.
    through_seq     bigint not null,
    summary         text not null,
    -- The number of messages that it covers in total.
    messages        int not null,
    -- Estimates, of what it took the place of, and of itself.
    tokens_before   int not null,
    tokens_after    int not null,
    created_at      timestamptz not null default now(),
    primary key (conversation_id, version)
);
grant select on kb.chat_compressions to rejoin_app;
grant select, insert on kb.chat_compressions to rejoin_worker;
alter table kb.chat_compressions enable row level security;
create policy app on kb.chat_compressions to rejoin_app
    using (exists (select from kb.chat_conversations c where c.id = conversation_id and c.owner_user_id = kb.current_owner()));
create policy worker on kb.chat_compressions to rejoin_worker using (true);

create table kb.agent_runs (
    id                  uuid primary key,
    project_id          uuid not null references kb.projects (id) on delete cascade,
    -- Null for runs outside a conversation.
    conversation_id     uuid references kb.chat_conversations (id) on delete cascade,
    -- The user who made it, and for whom it acts. Outside a conversation nobody else sees more of it than kb.listed_runs. Null: nobody, as for a
    -- product's job.
    user_id             uuid references kb.users (id),
    agent_definition_id uuid references kb.agent_definitions (id) on delete set null,
    -- What the run was called with, kept when the definition is gone.
    agent_name          text,
    parent_run_id       uuid references kb.agent_runs (id) on delete cascade,
    root_run_id         uuid not null,
    depth               int not null default 0,
    -- The log that its events go to.
    log_id              uuid not null,
    -- The user's message that it answers; null for triggered runs.
    message_id          uuid,
    input               text not null,
    state               text not null default 'queued'
                        check (state in ('queued', 'running', 'waiting', 'paused', 'completed', 'failed', 'cancelled')),
    -- Set by a cancellation; the executor races every await against it.
    cancel_requested_at timestamptz,
    -- The newest attempt that has worked on it.
    attempt             int not null default 0,
    model               text,
    step_count          int not null default 0,
    -- Over all resumes.
    total_steps         int not null default 0,
    -- The log's number just before the run's first event: where its readers begin.
    first_seq           bigint not null,
    -- Up to here the run's events agree with its stored messages and tool calls: a new attempt discards what lies behind it.
    safe_seq            bigint,
    -- The number of its `done`.
    done_seq            bigint,
    summary             text,
    error               text,
    error_code          text,
    usage               jsonb not null default '{}',
    final_message_id    uuid,
    timeout_s           int,
    created_at          timestamptz not null default now(),
    started_at          timestamptz,
    finished_at         timestamptz,
    -- The call of the parent's that started it, and its place there.
    spawn_call_id       uuid,
    spawn_position      int,
    -- Steps before this turn: limits of steps count from here. A run that is resumed begins a new turn.
    turn_step           int not null default 0,
    -- Since when it waits for other runs or a person (docs/decisions/0019-suspended-runs.md); and how long it has waited in this turn, in
    -- seconds, which its timeout does not count.
    waiting_since       timestamptz,
    waited_s            double precision not null default 0,
    -- The same for the whole tree, on its root: the time in which a person was asked.
    questions_open      int not null default 0,
    questions_since     timestamptz,
    person_s            double precision not null default 0,
    -- What the whole tree has used, on its root: tokens, money, sub-agents that were started.
    tree_tokens         bigint not null default 0,
    tree_cost_usd       double precision not null default 0,
    tree_runs           int not null default 0,
    -- The task that it works on, or decides about (kb.tasks).
    task_id             uuid,
    -- The run, and its step, up to which this run began with that run's records.
    forked_from_run_id  uuid,
    forked_from_step    int,
    -- The choice that its conversation began with: agent, confidence, score, reason, because, tookUs.
    routing             jsonb,
    -- The conversation's context as the run found it, or as one of its tools changed it; sub-agents and tasks have that of the run that started
    -- them.
    context             jsonb,
    -- What the run is: {"source": "planner"}, {"source": "suggestion"}, or {"source": "plan_step", "stepNumber", "planId", "tools"}.
    part                jsonb,
    -- The JSON Schema that its answer has to fit: of its request, else of its agent's definition when the run was made; null: any text.
    output_schema       jsonb
) with (fillfactor = 70);
comment on column kb.agent_runs.user_id is
    'Who made it, and as whom it acts. Outside a conversation nobody else sees more of it than kb.listed_runs. Null: nobody, as a product''s job';
create index agent_runs_list on kb.agent_runs (project_id, created_at desc, id desc);
create index agent_runs_conversation on kb.agent_runs (conversation_id, created_at) where conversation_id is not null;
create index agent_runs_parent on kb.agent_runs (parent_run_id) where parent_run_id is not null;
create index agent_runs_live on kb.agent_runs (log_id) where state in ('queued', 'running', 'waiting');
create index agent_runs_spawned on kb.agent_runs (spawn_call_id, spawn_position) where spawn_call_id is not null;
-- Sub-agents that are at work in a project.
create index agent_runs_sub_agents on kb.agent_runs (project_id)
    where parent_run_id is not null and state in ('queued', 'running', 'waiting');
-- Compaction and retention take the trees of runs in the order of their end.
create index agent_runs_finished on kb.agent_runs (finished_at, id) where finished_at is not null and parent_run_id is null;
-- By the moment they begin and end, so that a look at the last hour reads the last hour alone.
create index agent_runs_begun on kb.agent_runs (project_id, started_at) where started_at is not null;
create index agent_runs_ended on kb.agent_runs (project_id, finished_at) where finished_at is not null;
create index agent_runs_routed on kb.agent_runs (project_id, created_at) where routing is not null;
grant select, insert, update, delete on kb.agent_runs to rejoin_app, rejoin_worker;
alter table kb.agent_runs enable row level security;
-- A run outside a conversation acts for the user who made it, with their calendars and consoles: it is theirs alone. One that nobody made (a
-- product's job) has no private tools, and is the project's. (docs/decisions/0025-private-runs.md)
create policy app on kb.agent_runs to rejoin_app
    using (project_id = kb.current_project()
           and (conversation_id is null and coalesce(user_id = kb.current_owner(), user_id is null)
                or exists (select from kb.chat_conversations c where c.id = conversation_id)));
create policy worker on kb.agent_runs to rejoin_worker using (true);

-- What every member may know of the project's runs: which agent, whose, in which tree, how it stands, and when. With the rights of the
-- tables' owner, so that the policy above does not hide the rows; the conditions here are its own.
create view kb.listed_runs with (security_barrier) as
select r.id, r.project_id, r.conversation_id, r.user_id, r.agent_definition_id, r.agent_name, r.parent_run_id, r.root_run_id, r.depth,
       r.state, r.created_at, r.started_at, r.finished_at
from kb.agent_runs r
where r.project_id = kb.current_project()
  and (r.conversation_id is null
       or exists (select from kb.chat_conversations c where c.id = r.conversation_id and c.owner_user_id = kb.current_owner()));
grant select on kb.listed_runs to rejoin_app;

create table kb.agent_run_messages (
    id          uuid primary key,
    run_id      uuid not null references kb.agent_runs (id) on delete cascade,
    -- Order within the run.
    position    int not null,
    role        text not null check (role in ('system', 'user', 'assistant', 'tool_result')),
    -- As it was sent to or came from the model: a run can be rebuilt from these rows exactly.
    content     jsonb not null,
    step_number int not null,
    created_at  timestamptz not null default now(),
    unique (run_id, position)
);
grant select, insert, update, delete on kb.agent_run_messages to rejoin_app, rejoin_worker;
alter table kb.agent_run_messages enable row level security;
create policy app on kb.agent_run_messages to rejoin_app using (exists (select from kb.agent_runs r where r.id = run_id));
create policy worker on kb.agent_run_messages to rejoin_worker using (true);

create table kb.agent_run_tool_calls (
    id           uuid primary key,
    run_id       uuid not null references kb.agent_runs (id) on delete cascade,
    -- The assistant's message that asked for it.
    message_id   uuid not null references kb.agent_run_messages (id) on delete cascade,
    -- The model's id of the call, as events and messages carry it.
    call_id      text not null,
    step_number  int not null,
    -- Order within the step.
    position     int not null,
    tool_name    text not null,
    input        jsonb not null,
    output       jsonb,
    error        text,
    status       text not null default 'pending'
                 check (status in ('pending', 'running', 'completed', 'error', 'outcome_unknown')),
    duration_ms  int,
    created_at   timestamptz not null default now(),
    started_at   timestamptz,
    completed_at timestamptz,
    -- What the call did to which thing, by name.
    operation    jsonb,
    unique (run_id, step_number, position)
);
create index agent_run_tool_calls_message on kb.agent_run_tool_calls (message_id);
grant select, insert, update, delete on kb.agent_run_tool_calls to rejoin_app, rejoin_worker;
alter table kb.agent_run_tool_calls enable row level security;
create policy app on kb.agent_run_tool_calls to rejoin_app using (exists (select from kb.agent_runs r where r.id = run_id));
create policy worker on kb.agent_run_tool_calls to rejoin_worker using (true);

-- The same key and body: the same run.
create table kb.idempotency_keys (
    project_id      uuid not null references kb.projects (id) on delete cascade,
    user_id         uuid not null references kb.users (id) on delete cascade,
    key             text not null,
    body_hash       bytea not null,
    conversation_id uuid,
    message_id      uuid,
    run_id          uuid not null,
    cursor          bigint not null default 0,
    created_at      timestamptz not null default now(),
    primary key (project_id, user_id, key)
);
create index idempotency_keys_created on kb.idempotency_keys (created_at);
grant select, insert, update, delete on kb.idempotency_keys to rejoin_app, rejoin_worker;
alter table kb.idempotency_keys enable row level security;
create policy app on kb.idempotency_keys to rejoin_app using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.idempotency_keys to rejoin_worker using (true);

-- What a run asks a person: an agent's question, whether a call may act, or whether a plan is carried out.
create table kb.questions (
    id               uuid primary key,
    project_id       uuid not null references kb.projects (id) on delete cascade,
    run_id           uuid not null references kb.agent_runs (id) on delete cascade,
    -- The call that asks, or that may act once it is approved. Null: the question is not a call's.
    tool_call_id     uuid references kb.agent_run_tool_calls (id) on delete cascade,
    kind             text not null check (kind in ('ask', 'confirm', 'task', 'plan')),
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
grant select, insert, update, delete on kb.questions to rejoin_app, rejoin_worker;
alter table kb.questions enable row level security;
create policy app on kb.questions to rejoin_app using (exists (select from kb.agent_runs r where r.id = run_id));
create policy worker on kb.questions to rejoin_worker using (true);

-- Steering messages: messages for a run that is at work, until its next step takes them.
create table kb.run_inbox (
    id          bigint generated always as identity primary key,
    run_id      uuid not null references kb.agent_runs (id) on delete cascade,
    content     text not null,
    user_id     uuid references kb.users (id) on delete set null,
    created_at  timestamptz not null default now(),
    -- Files that came with it: a list of {fileId, name, mediaType, sizeBytes, sha256}. Null: none.
    attachments jsonb
);
create index run_inbox_run on kb.run_inbox (run_id, id);
grant select, insert, update, delete on kb.run_inbox to rejoin_app, rejoin_worker;
alter table kb.run_inbox enable row level security;
create policy app on kb.run_inbox to rejoin_app using (exists (select from kb.agent_runs r where r.id = run_id));
create policy worker on kb.run_inbox to rejoin_worker using (true);

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
grant select, insert, update, delete on kb.model_prices to rejoin_app, rejoin_worker;
alter table kb.model_prices enable row level security;
create policy app on kb.model_prices to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.model_prices to rejoin_worker using (true);

-- How a project wants a type of context, where it is not as shipped.
create table kb.project_contexts (
    project_id   uuid not null references kb.projects (id) on delete cascade,
    context_type text not null,
    -- Null: as shipped.
    prompt       text,
    -- Names and globs.
    tools        jsonb,
    updated_at   timestamptz not null default now(),
    primary key (project_id, context_type)
);
grant select, insert, update, delete on kb.project_contexts to rejoin_app;
grant select on kb.project_contexts to rejoin_worker;
alter table kb.project_contexts enable row level security;
create policy app on kb.project_contexts to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.project_contexts to rejoin_worker using (true);

-- What a project has used today, over all of its users: more than a caller of the API may see.
create function kb.used_today(p_project uuid, out runs bigint, out tokens bigint, out day_left_s double precision)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select count(*) filter (where r.parent_run_id is null),
           coalesce(sum((r.usage ->> 'totalTokens')::bigint), 0)::bigint,
           extract(epoch from date_trunc('day', now() at time zone 'utc') + interval '1 day' - now() at time zone 'utc')
    from kb.agent_runs r
    where r.project_id = p_project and r.created_at >= date_trunc('day', now() at time zone 'utc') at time zone 'utc'
$$;
revoke all on function kb.used_today from public;
grant execute on function kb.used_today to rejoin_gate;

-- Which part of its daily quota a project has used up, if any: `runs` or `tokens`. Nothing but that: workers may not look at projects.
create function kb.exhausted(p_project uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select case when u.runs >= p.runs_per_day then 'runs' when u.tokens >= p.tokens_per_day then 'tokens' end
    from kb.projects p cross join lateral kb.used_today(p.id) u
    where p.id = p_project and (p.runs_per_day is not null or p.tokens_per_day is not null)
$$;
revoke all on function kb.exhausted from public;
grant execute on function kb.exhausted to rejoin_worker;

-- The runs of the caller's project minute by minute, for its administrators: how many begin and end, and how long that takes; over all minutes
-- in the row without a minute. Over all users' runs, which a caller may not see: numbers alone. A run's wait is until it is begun for the first
-- time; what it took, from then to its end, includes its waits on the way (for sub-agents, for people).
create function kb.run_pace(p_minutes int)
returns table (
    minute       timestamptz,
    started      bigint,
    completed    bigint,
    failed       bigint,
    cancelled    bigint,
    waited_p50_s double precision,
    waited_p95_s double precision,
    took_p50_s   double precision,
    took_p95_s   double precision
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with minutes as (
        select m.minute
        from generate_series(date_trunc('minute', now()) - (p_minutes - 1) * interval '1 minute',
                             date_trunc('minute', now()), interval '1 minute') m(minute)
    ), moments as (
        select r.started_at as at, 'started' as what,
               extract(epoch from r.started_at - r.created_at)::float8 as waited_s, null::float8 as took_s
        from kb.agent_runs r
        where r.project_id = kb.current_project() and r.started_at >= (select min(minute) from minutes)
        union all
        select r.finished_at, r.state, null, extract(epoch from r.finished_at - r.started_at)::float8
        from kb.agent_runs r
        where r.project_id = kb.current_project() and r.finished_at >= (select min(minute) from minutes)
          and r.state in ('completed', 'failed', 'cancelled')
    )
    select m.minute,
           count(*) filter (where e.what = 'started'),
           count(*) filter (where e.what = 'completed'),
           count(*) filter (where e.what = 'failed'),
           count(*) filter (where e.what = 'cancelled'),
           percentile_cont(0.5) within group (order by e.waited_s),
           percentile_cont(0.95) within group (order by e.waited_s),
           percentile_cont(0.5) within group (order by e.took_s),
           percentile_cont(0.95) within group (order by e.took_s)
    from minutes m
    left join moments e on date_trunc('minute', e.at) = m.minute
    group by grouping sets ((m.minute), ())
    order by m.minute nulls first
$$;
revoke all on function kb.run_pace from public;
grant execute on function kb.run_pace to rejoin_app;
