-- Template packs: which types of objects and relationships a project's graph is made of, and what their properties must be.
create table kb.template_packs (
    id                   uuid primary key,
    -- Whose pack it is; null: it came with the product, and everybody may install it.
    project_id           uuid references kb.projects (id) on delete cascade,
    name                 text not null check (name <> ''),
    version              text not null check (version <> ''),
    description          text not null default '',
    author               text not null default '',
    status               text not null default 'published' check (status in ('draft', 'published', 'deprecated')),
    -- By type: a JSON Schema of the properties, and what else is to be known of the type.
    object_types         jsonb not null default '{}' check (jsonb_typeof(object_types) = 'object'),
    -- By type: which types of objects it connects (from, to), and a JSON Schema of its properties.
    relationship_types   jsonb not null default '{}' check (jsonb_typeof(relationship_types) = 'object'),
    -- For user interfaces: how things of a type are shown.
    ui                   jsonb not null default '{}' check (jsonb_typeof(ui) = 'object'),
    -- For models: how things of a type are found in texts.
    prompts              jsonb not null default '{}' check (jsonb_typeof(prompts) = 'object'),
    -- SHA-256 of types, ui and prompts: the same pack has the same, wherever it came from.
    checksum             text not null,
    created_at           timestamptz not null default now(),
    -- Packs of the product share one name space.
    owner                uuid not null generated always as (coalesce(project_id, '00000000-0000-0000-0000-000000000000'::uuid)) stored,
    unique (owner, name, version)
);
comment on table kb.template_packs is 'Sets of types for the graph; a pack that is published does not change any more';

create table kb.template_assignments (
    id             uuid primary key,
    project_id     uuid not null references kb.projects (id) on delete cascade,
    pack_id        uuid not null references kb.template_packs (id),
    -- Types that count; null: all of the pack.
    enabled_types  text[],
    -- Of those, types that don't.
    disabled_types text[] not null default '{}',
    -- Switched off: its schemas hold nobody any more.
    active         boolean not null default true,
    created_at     timestamptz not null default now(),
    updated_at     timestamptz not null default now(),
    unique (project_id, pack_id)
);
comment on table kb.template_assignments is 'Packs that a project has installed';
create index template_assignments_pack on kb.template_assignments (pack_id);

grant select, insert, update, delete on kb.template_packs, kb.template_assignments to rejoin_app, rejoin_worker;

-- No walls of their own, like the graph: a write that did not see what is installed would be held against nothing.
