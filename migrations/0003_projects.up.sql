-- Tenants, their users and their keys. Everything else hangs off a project.
create schema if not exists kb;

create table kb.projects (
    id         uuid primary key,
    name       text not null,
    created_at timestamptz not null default now()
);

create table kb.users (
    id         uuid primary key,
    -- How people name the user: an e-mail address or a login.
    handle     text not null unique,
    created_at timestamptz not null default now()
);

create table kb.project_members (
    project_id uuid not null references kb.projects (id) on delete cascade,
    user_id    uuid not null references kb.users (id) on delete cascade,
    created_at timestamptz not null default now(),
    primary key (project_id, user_id)
);
create index project_members_user on kb.project_members (user_id);

-- API keys: 256 random bits with a prefix; only their SHA-256 is stored.
create table kb.api_keys (
    id           uuid primary key,
    user_id      uuid not null references kb.users (id) on delete cascade,
    -- The one project that the key opens; null: every project of its user (X-Project-ID chooses).
    project_id   uuid references kb.projects (id) on delete cascade,
    name         text not null,
    -- The key's first characters, to recognise it in a list.
    prefix       text not null,
    hash         bytea not null unique,
    -- read: GET; write: everything else outside /api/admin; admin: /api/admin.
    scopes       text[] not null default '{read,write,admin}',
    created_at   timestamptz not null default now(),
    expires_at   timestamptz,
    revoked_at   timestamptz
);
create index api_keys_user on kb.api_keys (user_id);
