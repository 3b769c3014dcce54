-- Databases of others that a project's people and agents may query (docs/guide/data-sources.md), the consoles in which they write queries, and
-- queries that were learned.

create table kb.data_sources (
    id            uuid primary key,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    name          text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$'),
    kind          text not null check (kind in ('postgresql', 'mysql', 'sqlite', 'duckdb', 'mongodb', 'bigquery')),
    -- How it is reached; never a password.
    settings      jsonb not null,
    -- Limits of one query; what is absent is the operator's default.
    limits        jsonb not null default '{}',
    -- Whether only reads pass.
    read_only     boolean not null default true,
    -- The user who added it.
    owner_user_id uuid references kb.users (id) on delete set null,
    -- Its password or key, sealed as kb.secrets are: all three or none.
    key_id        text check (length(key_id) between 1 and 32),
    wrapped_key   bytea check (octet_length(wrapped_key) = 60),
    ciphertext    bytea check (octet_length(ciphertext) between 29 and 65564),
    -- Counts changes of how it is reached: connections of an older one are no longer used.
    revision      integer not null default 1,
    -- When it was last tried, and why it failed then. Null failure: it answered.
    tested_at     timestamptz,
    failure       text,
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    unique (project_id, name),
    check ((key_id is null) = (wrapped_key is null) and (key_id is null) = (ciphertext is null))
);
-- The API connects to sources for its callers, and workers for agents; so both read what is sealed, and need master keys to open it.
grant select, insert, update, delete on kb.data_sources to rejoin_app;
grant select, update on kb.data_sources to rejoin_worker;
alter table kb.data_sources enable row level security;
create policy app on kb.data_sources to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.data_sources to rejoin_worker using (true);

-- What tables and collections of sources look like, as they were last read.
create table kb.data_source_schemas (
    data_source_id uuid not null references kb.data_sources (id) on delete cascade,
    project_id     uuid not null references kb.projects (id) on delete cascade,
    -- '': the source's own.
    database       text not null,
    table_name     text not null,
    -- Of the source when it was read: a schema of another revision does not count.
    revision       integer not null,
    schema         jsonb not null,
    read_at        timestamptz not null default now(),
    primary key (data_source_id, database, table_name)
);
grant select, insert, update, delete on kb.data_source_schemas to rejoin_app;
grant select, insert, update, delete on kb.data_source_schemas to rejoin_worker;
alter table kb.data_source_schemas enable row level security;
create policy app on kb.data_source_schemas to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.data_source_schemas to rejoin_worker using (true);

-- Consoles: texts that a user and agents write together, such as queries. One row is the console as it is now; each change of its text is a
-- version, so that edits made on an older one can be merged, and undone (docs/decisions/0021-consoles.md).
create table kb.consoles (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    owner_user_id   uuid not null references kb.users (id) on delete cascade,
    -- Where it was made, or first attached.
    conversation_id uuid references kb.chat_conversations (id) on delete set null,
    title           text not null,
    -- Of its database: `postgresql`, `mongodb`, …
    kind            text,
    -- Where it runs.
    data_source_id  uuid references kb.data_sources (id) on delete set null,
    database        text,
    content         text not null default '',
    version         int not null default 1,
    metadata        jsonb not null default '{}',
    -- Not saved by a user: removed when it was not touched for long.
    is_temporary    boolean not null default true,
    modified_by     text not null check (modified_by in ('user', 'agent')),
    modified_run_id uuid,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    -- Kept, so that a late save brings nothing back that was deleted.
    deleted_at      timestamptz
);
create index consoles_list on kb.consoles (project_id, owner_user_id, updated_at desc, id desc) where deleted_at is null;
create index consoles_of_conversation on kb.consoles (conversation_id) where conversation_id is not null;
create index consoles_sweep on kb.consoles (updated_at) where is_temporary or deleted_at is not null;
grant select, insert, update, delete on kb.consoles to rejoin_app, rejoin_worker;
alter table kb.consoles enable row level security;
create policy app on kb.consoles to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.consoles to rejoin_worker using (true);

-- Consoles and conversations refer to each other: this reference has to wait until both are there.
alter table kb.chat_conversations
    add constraint chat_conversations_pinned_console_id_fkey
        foreign key (pinned_console_id) references kb.consoles (id) on delete set null;

create table kb.console_versions (
    console_id  uuid not null references kb.consoles (id) on delete cascade,
    version     int not null,
    content     text not null,
    modified_by text not null check (modified_by in ('user', 'agent')),
    run_id      uuid,
    -- The tool call that made it: repeated after a crash, it finds that it has acted.
    call_id     uuid unique,
    created_at  timestamptz not null default now(),
    primary key (console_id, version)
);
grant select, insert, update, delete on kb.console_versions to rejoin_app, rejoin_worker;
alter table kb.console_versions enable row level security;
create policy app on kb.console_versions to rejoin_app
    using (exists (select from kb.consoles c where c.id = console_id));
create policy worker on kb.console_versions to rejoin_worker using (true);

-- Queries that answered questions, learned from runs: what was asked, and which query of an agent's succeeded last. The question and the
-- query are the asker's; the project shares the pattern alone, which is the query without its values and comments
-- (docs/decisions/0037-learned-queries.md).
create table kb.query_patterns (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    -- The asker.
    user_id         uuid not null references kb.users (id) on delete cascade,
    data_source_id  uuid not null references kb.data_sources (id) on delete cascade,
    -- '': the source's own.
    database        text not null,
    -- Forgotten with the conversation that it was learned in; null: a run without one.
    conversation_id uuid references kb.chat_conversations (id) on delete cascade,
    -- The newest run whose query it was.
    run_id          uuid not null,
    asked           text not null,
    query           text not null,
    pattern         text not null,
    -- In how many runs.
    times           int not null default 1,
    learned_at      timestamptz not null default now()
);
-- Long patterns are compared by their digest: an index entry has a maximum size.
create unique index query_patterns_once on kb.query_patterns (user_id, data_source_id, database, md5(pattern));
create index query_patterns_list on kb.query_patterns (project_id, user_id, learned_at desc, id desc);
create index query_patterns_of_run on kb.query_patterns (run_id);
create index query_patterns_of_conversation on kb.query_patterns (conversation_id) where conversation_id is not null;
grant select, delete on kb.query_patterns to rejoin_app;
grant select, insert, update, delete on kb.query_patterns to rejoin_worker;
alter table kb.query_patterns enable row level security;
-- A caller sees what was learned from the caller's own questions. Patterns of others reach agents by the workers, without question and values.
create policy app on kb.query_patterns to rejoin_app
    using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.query_patterns to rejoin_worker using (true);
