-- What was installed into a project by a manifest: packs, agents, MCP servers, prompts, jobs.
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
