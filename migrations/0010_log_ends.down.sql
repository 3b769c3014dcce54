alter table stream.logs add column last_seq bigint not null default 0;
update stream.logs l set last_seq = e.last_seq from stream.log_ends e where e.log_id = l.log_id;
drop view stream.log_ends;

create or replace function stream.append(p_log_id uuid, p_run_id uuid, p_types text[], p_data text[]) returns bigint
language plpgsql as $$
declare
    v_last bigint;
begin
    update stream.logs set last_seq = last_seq + cardinality(p_types) where log_id = p_log_id returning last_seq into v_last;
    if not found then
        raise foreign_key_violation using message = format('there is no log %s', p_log_id);
    end if;
    insert into stream.events (log_id, seq, run_id, type, data)
    select p_log_id, v_last - cardinality(p_types) + i, p_run_id, t, d
    from unnest(p_types, p_data) with ordinality e(t, d, i);
    return v_last;
end
$$;
