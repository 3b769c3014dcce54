-- What conversations are about. A context is {"contextType": …, "focus": {…} or absent}.

alter table kb.chat_conversations
    add column context   jsonb,
    -- What the newest turn was about, as the server saw it.
    add column last_turn jsonb;

-- As the run found it, or as a tool of its led it elsewhere; sub-agents and tasks have that of whoever started them.
alter table kb.agent_runs add column context jsonb;

-- What a call did to which thing, by name.
alter table kb.agent_run_tool_calls add column operation jsonb;

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
