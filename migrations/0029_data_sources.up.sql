-- Databases of others that a project's people and agents may ask (docs/SOURCES.md).

create table kb.data_sources (
    id            uuid primary key,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    name          text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$'),
    kind          text not null check (kind in ('postgresql', 'mysql', 'sqlite', 'mongodb', 'bigquery')),
    -- How it is reached; never a password.
    settings      jsonb not null,
    -- Bounds of one query; what is absent is the operator's default.
    limits        jsonb not null default '{}',
    -- Whether only reads pass.
    read_only     boolean not null default true,
    -- Who added it.
    owner_user_id uuid references kb.users (id) on delete set null,
    -- Its password or key, sealed as kb.secrets are: all three or none.
    key_id        text check (length(key_id) between 1 and 32),
    wrapped_key   bytea check (octet_length(wrapped_key) = 60),
    ciphertext    bytea check (octet_length(ciphertext) between 29 and 65564),
    -- Counts changes of how it is reached: connections of an older one are not used any more.
    revision      integer not null default 1,
    -- When it was last tried, and why it failed then. Null failure: it answered.
    tested_at     timestamptz,
    failure       text,
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    unique (project_id, name),
    check ((key_id is null) = (wrapped_key is null) and (key_id is null) = (ciphertext is null))
);

-- What tables and collections of sources look like, as somebody last looked.
create table kb.data_source_schemas (
    data_source_id uuid not null references kb.data_sources (id) on delete cascade,
    project_id     uuid not null references kb.projects (id) on delete cascade,
    -- '': the source's own.
    database       text not null,
    table_name     text not null,
    -- Of the source when it was read: another one's is not this one's.
    revision       integer not null,
    schema         jsonb not null,
    read_at        timestamptz not null default now(),
    primary key (data_source_id, database, table_name)
);

-- The API connects to sources for its callers, and workers for agents; so both read what is sealed, and need master keys to open it.
grant select, insert, update, delete on kb.data_sources, kb.data_source_schemas to rejoin_app;
grant select, update on kb.data_sources to rejoin_worker;
grant select, insert, update, delete on kb.data_source_schemas to rejoin_worker;

alter table kb.data_sources enable row level security;
create policy app on kb.data_sources to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.data_sources to rejoin_worker using (true);
alter table kb.data_source_schemas enable row level security;
create policy app on kb.data_source_schemas to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.data_source_schemas to rejoin_worker using (true);
