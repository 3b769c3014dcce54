drop function kb.record_step_of_worker(uuid, uuid, int, int, text, text, jsonb, text, int);
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
begin
    update queue.jobs j set max_attempts = greatest(j.max_attempts, j.attempt + p_max_attempts - 1)
    from kb.remote_calls c
    where c.id = p_call and c.status = 'running' and c.attempt = p_attempt
      and j.id = c.job_id and j.attempt = p_attempt and j.state = 'running';
    if not found then
        return 'stale';
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
