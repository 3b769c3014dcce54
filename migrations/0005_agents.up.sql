-- Agents and what they did.
create table kb.agent_definitions (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    name            text not null,
    description     text not null default '',
    system_prompt   text not null,
    -- {name, temperature?, maxTokens?}; null: the deployment's default model.
    model           jsonb,
    -- Whitelist with globs over the project's tool pool; an empty list means none.
    tools           text[] not null default '{}',
    flow_type       text not null default 'single' check (flow_type in ('single', 'sequential', 'loop', 'parallel')),
    is_default      boolean not null default false,
    -- Null: no limit of its own (the total over all resumes still holds).
    max_steps       int check (max_steps > 0),
    default_timeout int check (default_timeout > 0),
    visibility      text not null default 'project' check (visibility in ('external', 'project', 'internal')),
    max_depth       int check (max_depth >= 0),
    config          jsonb not null default '{}',
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    unique (project_id, name)
);
comment on column kb.agent_definitions.default_timeout is 'seconds';

create table kb.agent_runs (
    id                  uuid primary key,
    project_id          uuid not null references kb.projects (id) on delete cascade,
    -- Null for runs outside a conversation.
    conversation_id     uuid references kb.chat_conversations (id) on delete cascade,
    -- The user on whose behalf it acts; null for scheduled ones.
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
    -- Set by whoever cancels; the executor races every await against it.
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
    finished_at         timestamptz
) with (fillfactor = 70);
create index agent_runs_list on kb.agent_runs (project_id, created_at desc, id desc);
create index agent_runs_conversation on kb.agent_runs (conversation_id, created_at) where conversation_id is not null;
create index agent_runs_parent on kb.agent_runs (parent_run_id) where parent_run_id is not null;
create index agent_runs_live on kb.agent_runs (log_id) where state in ('queued', 'running', 'waiting');

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
    unique (run_id, step_number, position)
);
create index agent_run_tool_calls_message on kb.agent_run_tool_calls (message_id);

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

-- Single-use passes for a browser's EventSource, which can't send headers. Only the SHA-256 of a ticket is stored.
create table kb.stream_tickets (
    hash       bytea primary key,
    key_id     uuid not null references kb.api_keys (id) on delete cascade,
    project_id uuid not null references kb.projects (id) on delete cascade,
    user_id    uuid not null references kb.users (id) on delete cascade,
    -- The log it opens: a conversation's or a run's id, as in the path.
    target_id  uuid not null,
    expires_at timestamptz not null
);
