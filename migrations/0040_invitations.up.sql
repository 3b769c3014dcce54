-- Links with which users join a project (docs/operations/sign-in.md). Only the SHA-256 of the token in a link is stored.
create table kb.invitations (
    id         uuid primary key,
    project_id uuid not null references kb.projects (id) on delete cascade,
    hash       bytea not null unique check (octet_length(hash) = 32),
    -- The role of those who join.
    role       text not null check (role in ('owner', 'member', 'viewer', 'operator')),
    -- How many users may join with it, and how many have.
    max_uses   int not null check (max_uses > 0),
    uses       int not null default 0,
    -- For whom it is, in the words of the user who made it. Null: not stated.
    note       text,
    -- The owner who made it: it is valid while this user is an owner. Null: the user was deleted, and it is not valid.
    made_by    uuid references kb.users (id) on delete set null,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    revoked_at timestamptz,
    constraint invitations_uses check (uses between 0 and max_uses)
);
-- In the order of pages.
create index invitations_project on kb.invitations (project_id, id);
-- For the removal of a user.
create index invitations_made_by on kb.invitations (made_by);

grant select, insert, delete on kb.invitations to rejoin_gate;
grant update (uses, revoked_at) on kb.invitations to rejoin_gate;
alter table kb.invitations enable row level security;
-- An invitation is looked up before it is known who follows it.
create policy gate_looks on kb.invitations for select to rejoin_gate using (true);
-- A user who makes an invitation makes it for the project that the transaction is for, in their own name.
create policy gate_makes on kb.invitations for insert to rejoin_gate
    with check (project_id = kb.current_project() and made_by = kb.current_owner() and uses = 0 and revoked_at is null);
create policy gate_changes on kb.invitations for update to rejoin_gate
    using (project_id = kb.current_project()) with check (project_id = kb.current_project());
create policy gate_forgets on kb.invitations for delete to rejoin_gate
    using (project_id = kb.current_project() and expires_at < now());
