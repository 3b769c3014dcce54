-- API keys that admins of a project make and revoke over HTTP, and when keys were last used.

alter table kb.api_keys
    -- The user who made it over HTTP; null: an operator, with `rejoin keys`.
    add column made_by      uuid references kb.users (id) on delete set null,
    -- To the minute; null: never since this column is there.
    add column last_used_at timestamptz;
create index api_keys_project on kb.api_keys (project_id) where kind = 'key';

-- The gate makes and revokes keys of the project that it says it is for, and of no other: without saying so, sessions only, as before.
-- Whoever makes a key makes it for themselves.
create policy gate_makes on kb.api_keys for insert to rejoin_gate
    with check (kind = 'key' and project_id = kb.current_project() and user_id = kb.current_owner()
                and made_by = kb.current_owner() and revoked_at is null);
-- With their sessions. What is revoked stays so.
create policy gate_revokes on kb.api_keys for update to rejoin_gate
    using (project_id = kb.current_project())
    with check (project_id = kb.current_project() and revoked_at is not null);

-- Says that a key was used. All that the gate may change of keys without saying for whom.
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
