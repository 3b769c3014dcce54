-- Users' accounts at MCP servers that act for each user by itself (docs/decisions/0069-accounts-at-mcp-servers.md): the tokens that an authorization
-- server has issued with the user's consent, and the consents that are under way.

create table kb.mcp_accounts (
    id               uuid primary key,
    project_id       uuid not null references kb.projects (id) on delete cascade,
    server_id        uuid not null references kb.project_mcp_servers (id) on delete cascade,
    user_id          uuid not null references kb.users (id) on delete cascade,
    -- The revision of the server's settings that the user has agreed to: after a change, the tokens go nowhere.
    revision         integer not null,
    -- The authorization server that has issued the tokens.
    issuer           text not null,
    -- What was asked for with the last consent, what was granted, and what the server has required since.
    requested_scopes text[] not null,
    scopes           text[] not null,
    missing_scopes   text[] not null default '{}',
    -- The tokens, with the client that they were issued to, sealed as kb.secrets are.
    key_id           text not null check (length(key_id) between 1 and 32),
    wrapped_key      bytea not null check (octet_length(wrapped_key) = 60),
    ciphertext       bytea not null check (octet_length(ciphertext) between 29 and 65564),
    -- Until when the access token is used; null: until it is refused.
    fresh_until      timestamptz,
    -- One more with each change of the tokens.
    version          bigint not null default 1,
    -- A worker renews the tokens until then: a refresh token may count once.
    renewing_until   timestamptz,
    -- When the user has agreed. Not now(): it differs for each consent.
    authorized_at    timestamptz not null default clock_timestamp(),
    -- The user has disconnected the account: a worker revokes the tokens, and removes the row.
    disconnected_at  timestamptz
);
comment on table kb.mcp_accounts is 'Users'' accounts at MCP servers';
create unique index mcp_accounts_connected on kb.mcp_accounts (server_id, user_id) where disconnected_at is null;
create index mcp_accounts_of_server on kb.mcp_accounts (server_id);
create index mcp_accounts_of_user on kb.mcp_accounts (user_id);
create index mcp_accounts_of_project on kb.mcp_accounts (project_id);
create index mcp_accounts_disconnected on kb.mcp_accounts (disconnected_at) where disconnected_at is not null;
-- The API lists and disconnects what is its caller's, and can't read tokens.
grant select (id, project_id, server_id, user_id, revision, issuer, scopes, missing_scopes, authorized_at, disconnected_at)
    on kb.mcp_accounts to rejoin_app;
grant update (disconnected_at) on kb.mcp_accounts to rejoin_app;
grant select, insert, update, delete on kb.mcp_accounts to rejoin_worker;
alter table kb.mcp_accounts enable row level security;
create policy app on kb.mcp_accounts to rejoin_app using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.mcp_accounts to rejoin_worker using (true);

-- Users who are asked by an authorization server. Each is used once, soon.
create table kb.mcp_consents (
    id           uuid primary key,
    -- SHA-256 of what the authorization server gives back with its answer.
    state_hash   bytea not null unique check (octet_length(state_hash) = 32),
    project_id   uuid not null references kb.projects (id) on delete cascade,
    server_id    uuid not null references kb.project_mcp_servers (id) on delete cascade,
    user_id      uuid not null references kb.users (id) on delete cascade,
    -- The revision of the server's settings.
    revision     integer not null,
    -- The code verifier of RFC 7636 (PKCE).
    verifier     text not null,
    redirect_url text not null,
    -- Where this installation publishes its client metadata document.
    client_url   text not null,
    -- What a worker has found out, for the URL to which the user is sent: {issuer, authorizationEndpoint, tokenEndpoint, revocationEndpoint, clientId,
    -- secretInBody, resource, scopes, needsIssuer}. Null: none has yet.
    plan         jsonb check (jsonb_typeof(plan) = 'object'),
    -- The secret of a client that the authorization server has registered, sealed as kb.secrets are. Nulls: it has none.
    key_id       text check (length(key_id) between 1 and 32),
    wrapped_key  bytea check (octet_length(wrapped_key) = 60),
    ciphertext   bytea check (octet_length(ciphertext) between 29 and 65564),
    -- The authorization code that the user came back with; a worker exchanges it.
    code         text check (length(code) <= 4000),
    -- Why it failed, in words.
    failure      text,
    expires_at   timestamptz not null,
    check ((key_id is null) = (ciphertext is null) and (key_id is null) = (wrapped_key is null))
);
comment on table kb.mcp_consents is 'Users who were sent to an authorization server';
create index mcp_consents_expired on kb.mcp_consents (expires_at);
create index mcp_consents_of_server on kb.mcp_consents (server_id, user_id);
create index mcp_consents_of_user on kb.mcp_consents (user_id);
create index mcp_consents_of_project on kb.mcp_consents (project_id);
grant insert, delete on kb.mcp_consents to rejoin_app;
grant select (id, state_hash, project_id, server_id, user_id, plan, code, failure, expires_at) on kb.mcp_consents to rejoin_app;
grant update (code) on kb.mcp_consents to rejoin_app;
grant select, update, delete on kb.mcp_consents to rejoin_worker;
alter table kb.mcp_consents enable row level security;
create policy app on kb.mcp_consents to rejoin_app using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.mcp_consents to rejoin_worker using (true);
