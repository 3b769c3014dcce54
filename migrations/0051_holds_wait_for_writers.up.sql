-- A transaction of a user that began before its project was held may still commit, however long its process was suspended: what it was accepted to write
-- must be copied. So it keeps a lock until it ends, and the rows are copied only when no such transaction is left (docs/operations/cells.md).

create or replace function cells.enter(p_project uuid) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_state text;
begin
    select h.state into v_state from cells.holds h where h.project_id = p_project;
    if v_state is null then
        -- "hold", in bytes. Two projects with the same hash wait for each other's transactions, which is harmless.
        perform pg_advisory_xact_lock_shared(x'686f6c64'::int, hashtext(p_project::text));
        -- It may have been held meanwhile: each statement sees what was committed before it.
        select h.state into v_state from cells.holds h where h.project_id = p_project;
    end if;
    if v_state = 'held' then
        perform set_config('transaction_read_only', 'on', true);
    elsif v_state = 'moved' then
        raise exception 'the project % has moved to another database', p_project using errcode = 'object_not_in_prerequisite_state';
    end if;
end
$$;

-- Whether all transactions that began before the project was held have ended. From then on none may change it: later ones see the hold.
create function cells.writers_are_gone(p_project uuid) returns boolean
language sql volatile set search_path = pg_catalog, pg_temp as $$
    select pg_try_advisory_xact_lock(x'686f6c64'::int, hashtext(p_project::text))
$$;
revoke all on function cells.writers_are_gone(uuid) from public;
