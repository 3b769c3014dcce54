-- The number of a log's newest event is read from its events, no longer counted in stream.logs: a counter leaves a dead row behind with
-- every append, and while somebody's transaction is open nothing removes them. The row's lock stays what makes numbers gapless.
-- (Dropped at once, against the rule: no release has ever read it.)
alter table stream.logs drop column last_seq;

create view stream.log_ends as
    select l.log_id,
           l.oldest_seq,
           -- Retention moves oldest_seq past what it removes: without events, the next one has that number.
           coalesce((select e.seq from stream.events e
                     where e.log_id = l.log_id and e.seq >= l.oldest_seq
                     order by e.seq desc limit 1), l.oldest_seq - 1) as last_seq
    from stream.logs l;

-- Appends a few events to one log within the caller's transaction, and returns the number of the last one.
-- The log's row lock is held until that transaction ends. A log that is missing is an error.
create or replace function stream.append(p_log_id uuid, p_run_id uuid, p_types text[], p_data text[]) returns bigint
language plpgsql as $$
declare
    v_last bigint;
begin
    perform from stream.logs where log_id = p_log_id for no key update;
    if not found then
        raise foreign_key_violation using message = format('there is no log %s', p_log_id);
    end if;
    -- A statement of its own after the lock: it sees what the lock's last holder has committed.
    select last_seq into v_last from stream.log_ends where log_id = p_log_id;
    insert into stream.events (log_id, seq, run_id, type, data)
    select p_log_id, v_last + i, p_run_id, t, d
    from unnest(p_types, p_data) with ordinality e(t, d, i);
    return v_last + cardinality(p_types);
end
$$;
