-- Secrets of projects (envelope encryption): each value is sealed under a data key of its own, and that one under a master key, which is
-- never in the database (docs/operations/secrets.md).
create table kb.secrets (
    project_id  uuid not null references kb.projects (id) on delete cascade,
    name        text not null check (name ~ '^[A-Za-z][A-Za-z0-9_.-]{0,127}$'),
    -- Which master key seals the data key.
    key_id      text not null check (length(key_id) between 1 and 32),
    -- The data key, sealed: 12 bytes of nonce, 32 of key, 16 of tag.
    wrapped_key bytea not null check (octet_length(wrapped_key) = 60),
    -- The value, sealed under the data key: nonce, value, tag. A value has 1 byte to 64 KiB.
    ciphertext  bytea not null check (octet_length(ciphertext) between 29 and 65564),
    -- How often it was set.
    version     integer not null default 1,
    created_at  timestamptz not null default now(),
    -- When it was set last. Another master key does not count.
    updated_at  timestamptz not null default now(),
    primary key (project_id, name)
);

-- The API sets, lists and removes what is its caller's project's, and can't read it back; workers open it.
grant insert, update, delete on kb.secrets to rejoin_app;
grant select (project_id, name, key_id, version, created_at, updated_at) on kb.secrets to rejoin_app;
grant select on kb.secrets to rejoin_worker;
alter table kb.secrets enable row level security;
create policy app on kb.secrets to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.secrets to rejoin_worker using (true);
