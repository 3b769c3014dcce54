-- Consoles: texts that a user and agents write together, such as queries. One row is the console as it is now; each change of its text is a
-- version, so that edits made on an older one can be merged, and undone.

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
    -- Not saved by anybody: swept when nobody has touched it for long.
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

-- The console that a conversation's agents work on.
alter table kb.chat_conversations
    add column pinned_console_id uuid references kb.consoles (id) on delete set null;
create index chat_conversations_pinned on kb.chat_conversations (pinned_console_id) where pinned_console_id is not null;

grant select, insert, update, delete on kb.consoles, kb.console_versions to rejoin_app, rejoin_worker;

alter table kb.consoles enable row level security;
create policy app on kb.consoles to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.consoles to rejoin_worker using (true);

alter table kb.console_versions enable row level security;
create policy app on kb.console_versions to rejoin_app
    using (exists (select from kb.consoles c where c.id = console_id));
create policy worker on kb.console_versions to rejoin_worker using (true);
