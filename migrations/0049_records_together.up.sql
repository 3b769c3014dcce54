-- A program that executes many calls has much to record at once: steps and outputs of different calls, in one request and one transaction
-- (docs/reference/worker-protocol.md#several-records-at-once).

-- Locks what belongs to several calls: the logs of those in p_ended, which are about to end, then the jobs of all, each in order of id, as all who lock
-- several do. It sees runs that the user of a worker's key may not see: so it is the owner's, and checks the project.
create function kb.lock_remote_calls(p_calls uuid[], p_ended uuid[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform stream.lock(l.log_id) from (
        select distinct r.log_id from kb.remote_calls c join kb.agent_runs r on r.id = c.run_id
        where c.id = any(p_ended) and c.project_id = kb.current_project()
        order by r.log_id
        offset 0) l;
    perform from queue.jobs j
    where j.id in (select c.job_id from kb.remote_calls c where c.id = any(p_calls) and c.project_id = kb.current_project())
    order by j.id
    for no key update;
end
$$;
revoke all on function kb.lock_remote_calls from public;
grant execute on function kb.lock_remote_calls to rejoin_app;

-- Records steps of different calls by one statement: those of which nothing has to be looked at first. Records: as of kb.record_of_worker, null in the place
-- of others. For each: whether it was recorded; the others are left to kb.record_step_of_worker.
create function kb.record_plain_steps(p_worker uuid, p_records jsonb, p_max_attempts int) returns boolean[]
language plpgsql as $$
declare
    v_is_done boolean[];
begin
    with wanted as (
        select r.call, r.attempt, s.number, s.name, s.status, r.step->'output' as output, s.error, r.nth
        from rows from (jsonb_to_recordset(p_records) as ("callId" uuid, attempt int, step jsonb)) with ordinality r(call, attempt, step, nth)
        cross join lateral jsonb_to_record(coalesce(r.step, '{}')) s(number int, name text, status text, error text)
    ), held as (
        -- The fence: as in kb.record_remote_step. A call that is repeatable already, with attempts left, needs no change.
        select w.*, c.project_id
        from wanted w
        join kb.remote_calls c on c.id = w.call and c.worker_id = p_worker and c.attempt = w.attempt and c.status = 'running'
                                  and c.repeatable and c.writing_step is null
        join queue.jobs j on j.id = c.job_id and j.attempt = w.attempt and j.state = 'running'
                             and j.max_attempts >= w.attempt + p_max_attempts - 1
        where w.number is not null
        order by j.id
        for key share of j
    ), recorded as (
        insert into kb.remote_steps as s (call_id, number, project_id, name, kind, status, output, error, attempt, ended_at)
        select h.call, h.number, h.project_id, h.name, 'function', h.status, h.output, h.error, h.attempt,
               case when h.status <> 'begun' then now() end
        from held h
        on conflict (call_id, number) do update
        set status = excluded.status, output = excluded.output, error = excluded.error, attempt = excluded.attempt, ended_at = excluded.ended_at
        where s.name = excluded.name and s.kind = 'function' and s.status = 'begun'
        returning s.call_id, s.number
    )
    select array_agg(r.call_id is not null order by w.nth) into v_is_done
    from wanted w left join recorded r on r.call_id = w.call and r.number = w.number;
    return v_is_done;
end
$$;

-- Records what a worker's attempts have to record, each as if it were alone: as kb.record_step_of_worker (if it has a `step`) or
-- kb.complete_remote_call does. Records: [{callId, attempt, step: {number, name, status, output?, error?}} or {callId, attempt, output}].
-- For each record, in their order: its outcome (`missing`: there is no such call; `stale`; `unchecked`: nothing was done, nor with later records of the
-- call; else that of the step, or the status of the call), whether a run is resumed, and the run of a call that has ended.
create function kb.record_of_worker(p_worker uuid, p_records jsonb, p_max_attempts int)
returns table (outcomes text[], resumed boolean[], runs uuid[])
language plpgsql as $$
#variable_conflict use_column
declare
    v_calls   uuid[];
    -- Calls with an output, and those with several records.
    v_ended   uuid[];
    v_several uuid[];
    v_is_done boolean[];
    v_record  record;
    -- Of a call that has ended.
    v_status  text;
    v_resumed boolean;
    v_run     uuid;
    v_outcome text;
    -- Calls of which nothing more is recorded.
    v_left    uuid[] := '{}';
begin
    select array_agg(c.id), array_agg(c.id) filter (where c.steps < c.records), array_agg(c.id) filter (where c.records > 1)
    into v_calls, v_ended, v_several
    from (select r."callId" as id, count(r.step) as steps, count(*) as records
          from jsonb_to_recordset(p_records) r("callId" uuid, step jsonb) group by r."callId") c;
    if v_ended is not null or v_several is not null then
        perform kb.lock_remote_calls(v_calls, v_ended);
    end if;
    -- Of a call with several records, the order counts.
    v_is_done := kb.record_plain_steps(p_worker, case when v_several is null then p_records else (
        select jsonb_agg(case when (r.value->>'callId')::uuid <> all(v_several) then r.value else '{}' end order by r.nth)
        from jsonb_array_elements(p_records) with ordinality r(value, nth)) end, p_max_attempts);
    if true = all(v_is_done) then
        return query select array_fill('recorded'::text, array[cardinality(v_is_done)]), array_fill(false, array[cardinality(v_is_done)]),
                            array_fill(null::uuid, array[cardinality(v_is_done)]);
        return;
    end if;
    for v_record in
        select r.call, r.attempt, r.step, r.output, v_is_done[r.nth] as is_done
        from rows from (jsonb_to_recordset(p_records) as ("callId" uuid, attempt int, step jsonb, output jsonb)) with ordinality
             r(call, attempt, step, output, nth)
        order by r.nth
    loop
        v_resumed := false;
        v_run := null;
        if v_record.is_done then
            v_outcome := 'recorded';
        elsif v_record.call = any(v_left) then
            v_outcome := 'unchecked';
        elsif v_record.step is not null then
            v_outcome := kb.record_step_of_worker(v_record.call, p_worker, v_record.attempt, (v_record.step->>'number')::int,
                                                  v_record.step->>'name', v_record.step->>'status', v_record.step->'output',
                                                  v_record.step->>'error', p_max_attempts);
            v_outcome := coalesce(v_outcome, 'missing');
        else
            select e.status, e.resumed, e.run_id into v_status, v_resumed, v_run
            from kb.complete_remote_call(v_record.call, p_worker, v_record.attempt, coalesce(v_record.output, 'null')) e;
            v_outcome := case when not found then 'missing' when v_status = 'checked' then 'unchecked' else coalesce(v_status, 'stale') end;
        end if;
        if v_outcome = 'unchecked' then
            v_left := v_left || v_record.call;
        end if;
        outcomes := outcomes || v_outcome;
        resumed := resumed || coalesce(v_resumed, false);
        runs := runs || v_run;
    end loop;
    return next;
end
$$;

-- As before, but jobs are locked in order of id.
create or replace function kb.renew_remote_calls(p_worker uuid, p_calls uuid[], p_attempts int[], p_lease interval)
returns table (id uuid, state text)
language sql as $$
    with named as (
        select n.id, n.attempt, c.job_id, c.status, c.handed_out_at + make_interval(secs => c.timeout_s) > now() as in_time
        from unnest(p_calls, p_attempts) n(id, attempt)
        left join kb.remote_calls c on c.id = n.id and c.attempt = n.attempt and c.worker_id = p_worker
    ), locked as materialized (
        select j.id from queue.jobs j
        where j.id in (select n.job_id from named n where n.status = 'running' and n.in_time)
        order by j.id
        for no key update
    ), renewed as (
        update queue.jobs j set lease_until = now() + p_lease
        from named n join locked l on l.id = n.job_id
        where j.id = n.job_id and j.attempt = n.attempt and j.state = 'running'
        returning n.id
    )
    select n.id,
           case when n.status = 'cancelled' then 'cancelled'
                when exists (select from renewed r where r.id = n.id) then 'held'
                else 'lost' end
    from named n
$$;
