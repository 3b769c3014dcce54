-- Projects (tenants), their users, and how a caller shows who it is. Everything else belongs to a project.
create schema kb;

-- Row-level security (docs/decisions/0014-row-level-security.md): processes work as roles that own nothing, and the policies of these roles
-- decide what they see, behind the conditions of the queries. The owner of the tables, who migrates and administers, is not bound by them.
-- rejoin_app: the API on behalf of one user, in one project; rejoin_gate: the API while it finds out who calls; rejoin_worker: workers,
-- which serve everybody.
do $$
declare
    role text;
    may_be_taken boolean;
begin
    foreach role in array array['rejoin_app', 'rejoin_gate', 'rejoin_worker'] loop
        -- Roles belong to the server, not to a database: another one's migration may have made them, or be doing it now.
        if not exists (select from pg_roles where rolname = role) then
            begin
                execute format('create role %I nologin', role);
            exception
                when duplicate_object or unique_violation then null;
            end;
        end if;
        -- A process that logs in as the owner switches to them. From PostgreSQL 16 on, the one who makes a role may not do so by that alone.
        if current_setting('server_version_num')::int >= 160000 then
            may_be_taken := pg_has_role(current_user, role, 'set');
        else
            may_be_taken := pg_has_role(current_user, role, 'member');
        end if;
        if not may_be_taken then
            execute format('grant %I to current_user', role);
        end if;
    end loop;
end
$$;

grant usage on schema kb, queue, stream to rejoin_app, rejoin_gate, rejoin_worker;

-- The queue and the logs have no policies: a log is found through its conversation or run, a job through its run.
grant select, insert, update, delete on all tables in schema queue, stream to rejoin_app, rejoin_worker;
grant usage on all sequences in schema queue, stream to rejoin_app, rejoin_worker;
alter default privileges in schema queue, stream grant select, insert, update, delete on tables to rejoin_app, rejoin_worker;
alter default privileges in schema queue, stream grant usage on sequences to rejoin_app, rejoin_worker;

-- API and workers look at the list of applied migrations when they start. Those that log in as members of their own role alone may, too.
-- (A schema that was made without `rejoin migrate` has no such list.)
do $$
begin
    if to_regclass('_sqlx_migrations') is not null then
        grant select on _sqlx_migrations to rejoin_app, rejoin_gate, rejoin_worker;
    end if;
end
$$;

-- Whose rows are asked for, set for one transaction (`set local`); null, and so nobody's, where it is not.
create function kb.current_project() returns uuid
language sql stable parallel safe
return nullif(current_setting('rejoin.project', true), '')::uuid;

create function kb.current_owner() returns uuid
language sql stable parallel safe
return nullif(current_setting('rejoin.owner', true), '')::uuid;

create table kb.projects (
    id             uuid primary key,
    name           text not null,
    created_at     timestamptz not null default now(),
    -- What it may use from midnight to midnight, UTC. Null: no limit.
    runs_per_day   bigint check (runs_per_day >= 0),
    tokens_per_day bigint check (tokens_per_day >= 0),
    -- Tasks that run at the same time, over all of its DAGs.
    parallel_tasks int not null default 50 check (parallel_tasks > 0)
);
grant select on kb.projects to rejoin_gate;
-- Workers look for projects that have objects and no vectors.
grant select (id) on kb.projects to rejoin_worker;

create table kb.users (
    id         uuid primary key,
    -- How people name the user: an e-mail address or a login.
    handle     text not null unique,
    created_at timestamptz not null default now()
);
-- Who calls is found out before it is known. Nobody else sees keys, identities, members.
grant select, insert, update on kb.users to rejoin_gate;

create table kb.project_members (
    project_id uuid not null references kb.projects (id) on delete cascade,
    user_id    uuid not null references kb.users (id) on delete cascade,
    created_at timestamptz not null default now(),
    -- What the member may do.
    role       text not null default 'member' check (role in ('owner', 'member', 'viewer', 'operator', 'service')),
    primary key (project_id, user_id)
);
create index project_members_user on kb.project_members (user_id);
-- Owners add and remove members.
grant select, insert, update, delete on kb.project_members to rejoin_gate;
-- A calendar of a user who has left the project is not synchronised any more.
grant select (project_id, user_id) on kb.project_members to rejoin_worker;
alter table kb.project_members enable row level security;
create policy gate on kb.project_members to rejoin_gate using (true);
create policy worker on kb.project_members for select to rejoin_worker using (true);

-- A user's role in a project, for processes that start work in the user's name. Null: no member. Nothing but that: neither the API nor
-- workers see the roles of members. The API, which serves one project at a time, is told of that one only.
create function kb.member_role(p_project uuid, p_user uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select m.role from kb.project_members m
    where m.project_id = p_project and m.user_id = p_user
      and (p_project = kb.current_project() or current_setting('role', true) is distinct from 'rejoin_app')
$$;
revoke all on function kb.member_role from public;
grant execute on function kb.member_role to rejoin_app, rejoin_worker;

-- API keys: 256 random bits with a prefix; only their SHA-256 is stored. A browser's session is a key, too: it was made with another key or a
-- token, ends with it, and is sent in a cookie only.
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
    revoked_at   timestamptz,
    kind         text not null default 'key' check (kind in ('key', 'session')),
    -- The key that the session was begun with.
    parent_id    uuid references kb.api_keys (id) on delete cascade,
    -- The user who made it over HTTP; null: an operator, with `rejoin keys`.
    made_by      uuid references kb.users (id) on delete set null,
    -- To the minute; null: never.
    last_used_at timestamptz,
    constraint api_keys_session check (kind = 'session' or parent_id is null)
);
create index api_keys_user on kb.api_keys (user_id);
create index api_keys_parent on kb.api_keys (parent_id) where parent_id is not null;
create index api_keys_project on kb.api_keys (project_id) where kind = 'key';

grant select, insert, delete on kb.api_keys to rejoin_gate;
grant update (revoked_at) on kb.api_keys to rejoin_gate;
alter table kb.api_keys enable row level security;
create policy gate_reads on kb.api_keys for select to rejoin_gate using (true);
-- Without saying for whom it works, the gate begins and ends sessions only.
create policy gate_begins on kb.api_keys for insert to rejoin_gate with check (kind = 'session');
create policy gate_ends on kb.api_keys for update to rejoin_gate using (kind = 'session');
create policy gate_forgets on kb.api_keys for delete to rejoin_gate using (kind = 'session');
-- It makes and revokes keys of the project that it says it is for, and of no other. A user who makes a key makes it for themselves.
create policy gate_makes on kb.api_keys for insert to rejoin_gate
    with check (kind = 'key' and project_id = kb.current_project() and user_id = kb.current_owner()
                and made_by = kb.current_owner() and revoked_at is null);
-- With their sessions. What is revoked stays so.
create policy gate_revokes on kb.api_keys for update to rejoin_gate
    using (project_id = kb.current_project())
    with check (project_id = kb.current_project() and revoked_at is not null);

-- Records that a key was used. All that the gate may change of keys without saying for whom.
create function kb.key_used(p_key uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    update kb.api_keys set last_used_at = now()
    where id = (select k.id from kb.api_keys k
                where k.id = p_key and k.kind = 'key' and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute')
                -- Who finds it locked leaves it: somebody else is saying the same.
                for update skip locked)
$$;
revoke all on function kb.key_used from public;
grant execute on function kb.key_used to rejoin_gate;

-- Users who come with tokens of an identity provider (OpenID Connect).
create table kb.identities (
    -- The identity provider, as its tokens name it.
    issuer     text not null,
    -- The user's name there, which never changes and is given to nobody else.
    subject    text not null,
    user_id    uuid not null references kb.users (id) on delete cascade,
    created_at timestamptz not null default now(),
    primary key (issuer, subject),
    -- A handle may be given to another person one day: that person is not the user who had it.
    unique (issuer, user_id)
);
create index identities_user on kb.identities (user_id);
grant select, insert, update on kb.identities to rejoin_gate;
alter table kb.identities enable row level security;
create policy gate on kb.identities to rejoin_gate using (true);

-- Single-use passes for a browser's EventSource, which can't send headers. Only the SHA-256 of a ticket is stored.
create table kb.stream_tickets (
    hash             bytea primary key,
    -- Null: the ticket was made with a token, and opens nothing once the token has expired.
    key_id           uuid references kb.api_keys (id) on delete cascade,
    project_id       uuid not null references kb.projects (id) on delete cascade,
    user_id          uuid not null references kb.users (id) on delete cascade,
    -- The log that it opens: a conversation's or a run's id, as in the path.
    target_id        uuid not null,
    expires_at       timestamptz not null,
    token_expires_at timestamptz,
    constraint stream_tickets_credential check ((key_id is null) = (token_expires_at is not null))
);
grant select, delete on kb.stream_tickets to rejoin_gate;
grant select, insert, update, delete on kb.stream_tickets to rejoin_app, rejoin_worker;
alter table kb.stream_tickets enable row level security;
create policy gate on kb.stream_tickets to rejoin_gate using (true);
create policy app on kb.stream_tickets to rejoin_app using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.stream_tickets to rejoin_worker using (true);

-- Codes with which a browser signs in once, in place of an API key in a link (docs/operations/identity.md). Only the SHA-256 of a code is
-- stored.
create table kb.sign_in_codes (
    hash       bytea primary key check (octet_length(hash) = 32),
    -- The API key that the code was made with: the session that it begins may do what this key may, and ends with it.
    key_id     uuid not null references kb.api_keys (id) on delete cascade,
    project_id uuid not null references kb.projects (id) on delete cascade,
    user_id    uuid not null references kb.users (id) on delete cascade,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null
);
create index sign_in_codes_user on kb.sign_in_codes (user_id, created_at);
-- Who signs in is found out before it is known.
grant select, insert, delete on kb.sign_in_codes to rejoin_gate;
alter table kb.sign_in_codes enable row level security;
create policy gate_looks on kb.sign_in_codes for select to rejoin_gate using (true);
create policy gate_uses_up on kb.sign_in_codes for delete to rejoin_gate using (true);
-- A user who makes a code makes it for themselves.
create policy gate_makes on kb.sign_in_codes for insert to rejoin_gate
    with check (project_id = kb.current_project() and user_id = kb.current_owner());
