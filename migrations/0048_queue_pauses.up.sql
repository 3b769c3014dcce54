-- A project that has the database to itself pauses queues and lets them go on. Queues belong to all projects: with others in the database, only an
-- operator does (rejoin queue pause).

create function queue.is_of_one_project() returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select not exists (select from kb.projects where id is distinct from kb.current_project())
$$;
revoke all on function queue.is_of_one_project from public;
grant execute on function queue.is_of_one_project to rejoin_app;

-- Returns false, and does nothing, if there are other projects.
create function queue.set_paused(p_queue text, p_is_paused boolean) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not queue.is_of_one_project() then
        return false;
    end if;
    if p_is_paused then
        insert into queue.queues (name, paused_at) values (p_queue, now())
        on conflict (name) do update set paused_at = coalesce(queue.queues.paused_at, now());
    else
        update queue.queues set paused_at = null where name = p_queue;
    end if;
    return true;
end
$$;
revoke all on function queue.set_paused from public;
grant execute on function queue.set_paused to rejoin_app;
