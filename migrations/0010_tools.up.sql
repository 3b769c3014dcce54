-- Tools that a project adds: MCP servers, the web, and products, which are installed by a manifest.

-- MCP servers whose tools a project's agents may be given (docs/guide/mcp.md).
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
    -- A call that takes longer is ended with an error, in seconds; null: the worker's setting.
    timeout_s   integer check (timeout_s between 1 and 3600),
    -- first: what the server offers when it is first seen counts as approved. each: nothing does.
    approval    text not null default 'first' check (approval in ('first', 'each')),
    -- Whether its hints (read-only, idempotent) are believed: then its calls may be repeated after a crash, and run side by side.
    trust_hints boolean not null default false,
    -- The product that it came with.
    product     text,
    -- Counts changes of how it is reached: a connection of another revision is no longer used.
    revision    integer not null default 1,
    -- When its tools were last listed, and what it said of itself.
    seen_at     timestamptz,
    server_info jsonb,
    -- When it last could not be asked, and why; null since it could.
    failed_at   timestamptz,
    failure     text,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    -- http: how a token of an authorization server is got, by the client-credentials grant: {clientId, clientSecret, scopes?, tokenUrl?}. The
    -- secret is named, as ${NAME}, and never there. Null: no token is got.
    oauth       jsonb check (jsonb_typeof(oauth) = 'object'),
    -- Tools and pages of its list that were left out when it was last listed, each with the reason: [{"tool": null | text, "reason": text}].
    left_out    jsonb not null default '[]',
    unique (project_id, name),
    check ((transport = 'stdio') = (command is not null)),
    check ((transport = 'http') = (url is not null))
);
comment on table kb.project_mcp_servers is 'MCP servers of a project';
grant select, insert, update, delete on kb.project_mcp_servers to rejoin_app, rejoin_worker;
alter table kb.project_mcp_servers enable row level security;
create policy app on kb.project_mcp_servers to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.project_mcp_servers to rejoin_worker using (true);

create table kb.mcp_tools (
    server_id       uuid not null references kb.project_mcp_servers (id) on delete cascade,
    -- The server's own name of it.
    name            text not null,
    -- What the server says of it now: description, inputSchema, annotations.
    definition      jsonb not null,
    -- SHA-256 of that.
    digest          text not null,
    -- That of the definition that was approved. Another one than `digest`: the tool is held back from all agents.
    approved_digest text,
    approved_at     timestamptz,
    -- False: the server did not list it when it was last asked. What was approved stays pinned: it may come back as it was, and as nothing else.
    offered         boolean not null default true,
    first_seen_at   timestamptz not null default now(),
    changed_at      timestamptz not null default now(),
    primary key (server_id, name)
);
comment on table kb.mcp_tools is 'Tools that MCP servers offered when they were last asked';
grant select, insert, update, delete on kb.mcp_tools to rejoin_app, rejoin_worker;
alter table kb.mcp_tools enable row level security;
-- The servers that are seen here are those that the policy above lets through.
create policy app on kb.mcp_tools to rejoin_app
    using (exists (select from kb.project_mcp_servers s where s.id = server_id));
create policy worker on kb.mcp_tools to rejoin_worker using (true);

-- Programs that use Rejoin itself by MCP: what they said when they began, so that any API process goes on with them.
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

-- What agents may do on the web (docs/guide/web-tools.md): nothing in a project that has no row here.
create table kb.web_settings (
    project_id      uuid primary key references kb.projects (id) on delete cascade,
    -- The search provider; null: none, there is no web_search.
    provider        text check (provider in ('tavily', 'brave', 'searxng')),
    -- Where it is asked; null: at its own address.
    base_url        text,
    -- The secret of the project that holds its key; null: it takes none.
    key_secret      text,
    -- Whether there is web_visit.
    visit           boolean not null default false,
    -- The only domains that are visited and found, with all below them; empty: all.
    allowed_domains text[] not null default '{}',
    -- Domains that are neither visited nor found, with all below them.
    blocked_domains text[] not null default '{}',
    updated_at      timestamptz not null default now(),
    -- The last test of the provider, as reported by the worker that asked it. Nulls: it was never tested as it is set now.
    tried_at        timestamptz,
    -- How many pages it found, and how long that took.
    found           int check (found >= 0),
    took_ms         int check (took_ms >= 0),
    -- Why the test failed, in words without its key.
    failure         text,
    check (base_url is null or provider is not null),
    check (key_secret is null or provider is not null),
    check (provider is not null or visit)
);
grant select, insert, update, delete on kb.web_settings to rejoin_app;
grant select on kb.web_settings to rejoin_worker;
grant update (tried_at, found, took_ms, failure) on kb.web_settings to rejoin_worker;
alter table kb.web_settings enable row level security;
create policy app on kb.web_settings to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.web_settings to rejoin_worker using (true);

-- Pages as they were visited: shown again while they are fresh, and asked for with their validators afterwards.
create table kb.web_pages (
    project_id    uuid not null references kb.projects (id) on delete cascade,
    -- Of the URL as it was asked for, with how it was read.
    url_hash      bytea not null check (octet_length(url_hash) = 32),
    final_url     text not null,
    title         text,
    content       text not null,
    content_type  text not null,
    etag          text,
    last_modified text,
    fetched_at    timestamptz not null default now(),
    primary key (project_id, url_hash)
);
create index web_pages_age on kb.web_pages (fetched_at);
create index web_pages_of_project on kb.web_pages (project_id, fetched_at);
-- Only workers visit.
grant select, insert, update, delete on kb.web_pages to rejoin_worker;
alter table kb.web_pages enable row level security;
create policy worker on kb.web_pages to rejoin_worker using (true);

-- What was installed into a project by a manifest: packs, agents, MCP servers, prompts, jobs (docs/guide/products.md).
create table kb.products (
    project_id   uuid not null references kb.projects (id) on delete cascade,
    name         text not null check (name ~ '^[a-z][a-z0-9-]{0,63}$'),
    version      text not null check (version <> ''),
    -- As it was installed last: what it lists is the product's, by name.
    manifest     jsonb not null check (jsonb_typeof(manifest) = 'object'),
    installed_at timestamptz not null default now(),
    updated_at   timestamptz not null default now(),
    primary key (project_id, name)
);
comment on table kb.products is 'Products that a project has installed';
grant select, insert, update, delete on kb.products to rejoin_app;
grant select on kb.products to rejoin_worker;
alter table kb.products enable row level security;
create policy app on kb.products to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.products to rejoin_worker using (true);
