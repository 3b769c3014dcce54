-- Loses: how sessions were begun and in which browsers, which of them the identity provider can end, and which roles follow groups.
alter table kb.users drop column self_named;
alter table kb.project_members drop column from_groups;
drop table kb.sso_sessions;

create or replace function kb.key_used(p_key uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    update kb.api_keys set last_used_at = now()
    where id = (select k.id from kb.api_keys k
                where k.id = p_key and k.kind = 'key' and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute')
                -- Who finds it locked leaves it: somebody else is saying the same.
                for update skip locked)
$$;

drop index kb.api_keys_sessions;
alter table kb.api_keys drop column user_agent, drop column begun_by;
