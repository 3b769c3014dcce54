-- Browsers sign in at an identity provider, and users see and end their sessions (docs/decisions/0078-browser-sign-in.md).

alter table kb.api_keys
    -- How a browser's session was begun: with a key, a token or a sign-in code, at the identity provider (sso), or with an invitation. Null: it
    -- is not a session, or an earlier release began it.
    add column begun_by   text check (begun_by in ('key', 'token', 'code', 'sso', 'invitation')),
    -- The browser's name for itself (User-Agent), truncated. Null: it is not a session, or none was sent.
    add column user_agent text;
-- The sessions of a project, for its admins.
create index api_keys_sessions on kb.api_keys (project_id) where kind = 'session';

-- The same as before, also for sessions.
create or replace function kb.key_used(p_key uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    update kb.api_keys set last_used_at = now()
    where id = (select k.id from kb.api_keys k
                where k.id = p_key and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute')
                -- A caller that finds it locked leaves it: another one records the same.
                for update skip locked)
$$;

-- Sessions begun at an identity provider, with its names for them: it may end them (OpenID Connect Back-Channel Logout).
create table kb.sso_sessions (
    session_id       uuid primary key references kb.api_keys (id) on delete cascade,
    issuer           text not null,
    subject          text not null,
    -- The provider's id for the session there (`sid`). Null: it has sent none.
    provider_session text
);
create index sso_sessions_subject on kb.sso_sessions (issuer, subject);
grant select, insert on kb.sso_sessions to rejoin_gate;
alter table kb.sso_sessions enable row level security;
create policy gate on kb.sso_sessions to rejoin_gate using (true);

alter table kb.project_members
    -- The role follows the user's groups at the identity provider, and is set again at each sign-in. False: it was given here.
    add column from_groups boolean not null default false;

alter table kb.users
    -- The user chose the handle, with an invitation. No identity is linked to such a user by the handle alone.
    add column self_named boolean not null default false;
