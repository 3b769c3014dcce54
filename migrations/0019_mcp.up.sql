-- MCP servers whose tools a project's agents may be given, and what those servers offer.
create table kb.project_mcp_servers (
    id          uuid primary key,
    project_id  uuid not null references kb.projects (id) on delete cascade,
    -- Its tools are called `name_tool`. No underscore, so that one can tell where the name ends.
    name        text not null check (name ~ '^[a-z][a-z0-9-]{0,31}$'),
    transport   text not null check (transport in ('stdio', 'http')),
    -- stdio: the name of a command in the operator's configuration, never a command itself.
    command     text,
    -- stdio: variables of the process. Values may name secrets: ${NAME}.
    env         jsonb not null default '{}' check (jsonb_typeof(env) = 'object'),
    -- http: where it is. May name secrets.
    url         text,
    -- http: headers of each request. Values may name secrets.
    headers     jsonb not null default '{}' check (jsonb_typeof(headers) = 'object'),
    enabled     boolean not null default true,
    -- Globs over the server's own names of its tools; what none matches is not offered.
    tools       text[] not null default '{*}',
    -- A call that takes longer is ended with an error [s]; null: the worker's setting.
    timeout_s   integer check (timeout_s between 1 and 3600),
    -- first: what the server offers when it is first seen counts as approved. each: nothing does.
    approval    text not null default 'first' check (approval in ('first', 'each')),
    -- Whether its hints (read-only, idempotent) are believed: then its calls may be repeated after a crash, and run side by side.
    trust_hints boolean not null default false,
    -- The product that it came with.
    product     text,
    -- Counts changes of how it is reached: a connection of another revision is not used any more.
    revision    integer not null default 1,
    -- When its tools were last listed, and what it said of itself.
    seen_at     timestamptz,
    server_info jsonb,
    -- When it last could not be asked, and why; null since it could.
    failed_at   timestamptz,
    failure     text,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    unique (project_id, name),
    check ((transport = 'stdio') = (command is not null)),
    check ((transport = 'http') = (url is not null))
);
comment on table kb.project_mcp_servers is 'MCP servers of a project';

create table kb.mcp_tools (
    server_id       uuid not null references kb.project_mcp_servers (id) on delete cascade,
    -- The server's own name of it.
    name            text not null,
    -- What the server says of it now: description, inputSchema, annotations.
    definition      jsonb not null,
    -- SHA-256 of that.
    digest          text not null,
    -- That of the definition that was approved. Another one than `digest`: held, nobody is given it.
    approved_digest text,
    approved_at     timestamptz,
    -- Not when it was last asked. What was approved stays pinned: it may come back as it was, and as nothing else.
    offered         boolean not null default true,
    first_seen_at   timestamptz not null default now(),
    changed_at      timestamptz not null default now(),
    primary key (server_id, name)
);
comment on table kb.mcp_tools is 'Tools that MCP servers offered when they were last asked';

grant select, insert, update, delete on kb.project_mcp_servers, kb.mcp_tools to rejoin_app, rejoin_worker;
alter table kb.project_mcp_servers enable row level security;
create policy app on kb.project_mcp_servers to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.project_mcp_servers to rejoin_worker using (true);
alter table kb.mcp_tools enable row level security;
-- The servers that are seen here are those that the policy above lets through.
create policy app on kb.mcp_tools to rejoin_app
    using (exists (select from kb.project_mcp_servers s where s.id = server_id));
create policy worker on kb.mcp_tools to rejoin_worker using (true);

-- Programs that use the product itself by MCP: what they said when they began, so that any API goes on with them.
create table kb.mcp_sessions (
    id          text primary key check (length(id) between 1 and 200),
    project_id  uuid not null references kb.projects (id) on delete cascade,
    user_id     uuid not null references kb.users (id) on delete cascade,
    state       jsonb not null,
    created_at  timestamptz not null default now(),
    -- About when it was last used.
    used_at     timestamptz not null default now()
);
comment on table kb.mcp_sessions is 'Sessions of MCP clients';
create index mcp_sessions_user on kb.mcp_sessions (user_id, used_at);

grant select, insert, update, delete on kb.mcp_sessions to rejoin_app;
alter table kb.mcp_sessions enable row level security;
create policy app on kb.mcp_sessions to rejoin_app
    using (project_id = kb.current_project() and user_id = kb.current_owner());
