-- Codes with which a browser signs in once, in place of an API key in a link (docs/IDENTITY.md). Only the SHA-256 of a code is stored.

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
-- Whoever makes a code makes it for themselves.
create policy gate_makes on kb.sign_in_codes for insert to rejoin_gate
    with check (project_id = kb.current_project() and user_id = kb.current_owner());
