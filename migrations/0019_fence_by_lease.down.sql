create or replace function queue.fence(
    p_run_id  uuid,
    p_attempt int,
    -- For progress of the run: the attempts that a job has from here on if workers were lost before. Null: no progress.
    p_grant   int default null
) returns bigint
language plpgsql as $$
declare
    v_id bigint;
begin
    select id into v_id from queue.jobs
    where run_id = p_run_id and attempt = p_attempt and state = 'running'
    for key share;
    -- A job that kills workers makes no progress, unlike one that is killed by other causes.
    if v_id is not null and p_attempt > 1 and p_grant is not null then
        update queue.jobs set losses = 0, max_attempts = greatest(max_attempts, attempt + p_grant)
        where id = v_id and losses > 0;
    end if;
    return v_id;
end
$$;
