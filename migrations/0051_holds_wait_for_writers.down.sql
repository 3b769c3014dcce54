drop function cells.writers_are_gone(uuid);

create or replace function cells.enter(p_project uuid) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_state text;
begin
    select h.state into v_state from cells.holds h where h.project_id = p_project;
    if v_state = 'held' then
        perform set_config('transaction_read_only', 'on', true);
    elsif v_state = 'moved' then
        raise exception 'the project % has moved to another database', p_project using errcode = 'object_not_in_prerequisite_state';
    end if;
end
$$;
