-- What members may do, browsers that are signed in, and what a project may use up in a day.

-- Whoever is a member already goes on as before; new members are told what they are.
alter table kb.project_members
    add column role text not null default 'owner'
        check (role in ('owner', 'member', 'viewer', 'operator', 'service'));
alter table kb.project_members alter column role set default 'member';

-- A browser's session is a key that came into being with another key or a token, and ends with it. It is shown in a cookie only.
alter table kb.api_keys
    add column kind text not null default 'key' check (kind in ('key', 'session')),
    -- The key that the session was begun with.
    add column parent_id uuid references kb.api_keys (id) on delete cascade,
    add constraint api_keys_session check (kind = 'session' or parent_id is null);
create index api_keys_parent on kb.api_keys (parent_id) where parent_id is not null;

-- The gate begins and ends sessions, never keys.
grant insert, delete on kb.api_keys to rejoin_gate;
grant update (revoked_at) on kb.api_keys to rejoin_gate;
drop policy gate on kb.api_keys;
create policy gate_reads on kb.api_keys for select to rejoin_gate using (true);
create policy gate_begins on kb.api_keys for insert to rejoin_gate with check (kind = 'session');
create policy gate_ends on kb.api_keys for update to rejoin_gate using (kind = 'session');
create policy gate_forgets on kb.api_keys for delete to rejoin_gate using (kind = 'session');
-- Owners take members in and out.
grant delete on kb.project_members to rejoin_gate;

-- From midnight to midnight, UTC. Null: no bound.
alter table kb.projects
    add column runs_per_day   bigint check (runs_per_day >= 0),
    add column tokens_per_day bigint check (tokens_per_day >= 0);

-- What a project has used up today, over all of its users: more than a caller of the API may see.
create function kb.used_today(p_project uuid, out runs bigint, out tokens bigint, out day_left_s double precision)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select count(*) filter (where r.parent_run_id is null),
           coalesce(sum((r.usage ->> 'totalTokens')::bigint), 0)::bigint,
           extract(epoch from date_trunc('day', now() at time zone 'utc') + interval '1 day' - now() at time zone 'utc')
    from kb.agent_runs r
    where r.project_id = p_project and r.created_at >= date_trunc('day', now() at time zone 'utc') at time zone 'utc'
$$;
revoke all on function kb.used_today from public;
grant execute on function kb.used_today to rejoin_gate;
