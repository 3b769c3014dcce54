-- A step of a durable function is one statement (docs/reference/worker-protocol.md), and only the first one of an attempt writes the row of the
-- call's job: it is what gives the call further attempts.

create or replace function kb.record_remote_step(
    p_call         uuid,
    p_attempt      int,
    p_number       int,
    p_name         text,
    p_status       text,
    p_output       jsonb,
    p_error        text,
    p_max_attempts int
) returns text
language plpgsql as $$
declare
    v_job          queue.jobs.id%type;
    v_attempts_max int;
begin
    -- The fence: `attempt` is part of a unique key, so the next attempt waits for this transaction. A heartbeat does not.
    select j.id, j.max_attempts into v_job, v_attempts_max
    from kb.remote_calls c join queue.jobs j on j.id = c.job_id
    where c.id = p_call and c.status = 'running' and c.attempt = p_attempt and j.attempt = p_attempt and j.state = 'running'
    for key share of j;
    if not found then
        return 'stale';
    end if;
    if v_attempts_max < p_attempt + p_max_attempts - 1 then
        update queue.jobs j set max_attempts = greatest(j.max_attempts, p_attempt + p_max_attempts - 1) where j.id = v_job;
    end if;
    update kb.remote_calls c set repeatable = true where c.id = p_call and not c.repeatable;
    insert into kb.remote_steps as s (call_id, number, project_id, name, kind, status, output, error, attempt, ended_at)
    select p_call, p_number, c.project_id, p_name, 'function', p_status, p_output, p_error, p_attempt,
           case when p_status <> 'begun' then now() end
    from kb.remote_calls c where c.id = p_call
    on conflict (call_id, number) do update
    set status = excluded.status, output = excluded.output, error = excluded.error, attempt = excluded.attempt, ended_at = excluded.ended_at
    where s.name = excluded.name and s.kind = 'function' and s.status = 'begun';
    if found or exists (select from kb.remote_steps s
                        where s.call_id = p_call and s.number = p_number and s.name = p_name and s.kind = 'function'
                          and s.attempt = p_attempt and s.status = p_status) then
        return 'recorded';
    end if;
    return 'changed';
end
$$;

-- The same for a worker's attempt, as one statement. `unchecked`, if the step has written text that is to be kept or discarded first, and
-- nothing was done; null, if there is no such call.
create function kb.record_step_of_worker(
    p_call         uuid,
    p_worker       uuid,
    p_attempt      int,
    p_number       int,
    p_name         text,
    p_status       text,
    p_output       jsonb,
    p_error        text,
    p_max_attempts int
) returns text
language plpgsql as $$
declare
    v_call kb.remote_calls;
begin
    select * into v_call from kb.remote_calls c where c.id = p_call;
    if not found then
        return null;
    elsif v_call.worker_id is distinct from p_worker or v_call.attempt <> p_attempt then
        return 'stale';
    elsif v_call.writing_step is not null and p_status <> 'begun' then
        return 'unchecked';
    end if;
    return kb.record_remote_step(p_call, p_attempt, p_number, p_name, p_status, p_output, p_error, p_max_attempts);
end
$$;
