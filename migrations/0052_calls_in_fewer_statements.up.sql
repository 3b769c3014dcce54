-- Calls of users' programs cost fewer statements (docs/decisions/0091-calls-in-fewer-statements.md).

-- In a language whose plan is kept (0023).
create or replace function kb.has_due_steps(p_run_id uuid) returns boolean
language plpgsql stable as $$
begin
    return exists (
        select from kb.remote_calls c
        where c.run_id = p_run_id and c.status = 'suspended'
          and (exists (select from kb.remote_steps s where s.call_id = c.id and s.status = 'requested')
               or not exists (
                   select from kb.remote_steps s
                   where s.call_id = c.id and s.status = 'begun'
                     and (exists (select from kb.questions q where q.id = s.ref and q.status = 'pending')
                          or exists (select from kb.agent_runs a where a.id = s.ref and a.state in ('queued', 'running', 'waiting'))))));
end
$$;

-- Without format(), which depends on the session's settings as far as PostgreSQL knows: so that it becomes part of the statements that call it.
create or replace function kb.remote_queue(p_project uuid, p_queue text, p_tool text, p_version text) returns text
language sql immutable as $$
    select 'remote/' || p_project::text || '/' || p_queue || '/' || p_tool || '/' || p_version
$$;

-- As before, but the calls of a step begin by one statement. Calls have a further field, `answers`: what their run's events have besides their
-- type, as JSON, if the call executes the turn of an agent. Calls of the function with the parameters of before do what they did.
drop function kb.begin_remote_calls(uuid, int, int, uuid, uuid, bigint, uuid, uuid, jsonb, text[], text[]);
create function kb.begin_remote_calls(
    p_run_id          uuid,
    p_attempt         int,
    p_grant           int,
    p_log_id          uuid,
    p_root_run_id     uuid,
    p_seen            bigint,
    p_project         uuid,
    p_conversation_id uuid,
    p_calls           jsonb,
    -- Empty: nothing is published.
    p_types           text[],
    p_data            text[],
    -- The run is suspended until they have ended: they are all that it waits for. A repeated statement finds it so.
    p_suspends        boolean default false
) returns table (seq bigint, may_act boolean)
-- The calls are found by id, whatever a plan without statistics would cost.
language plpgsql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    v_is_cancelled boolean;
    v_seq          bigint;
begin
    if queue.fence(p_run_id, p_attempt, p_grant) is null then
        if p_suspends then
            return query
            select r.safe_seq, true from kb.agent_runs r
            where r.id = p_run_id and r.state = 'waiting'
              and not exists (select from jsonb_to_recordset(p_calls) n(id uuid)
                              where not exists (select from kb.remote_calls c
                                                where c.id = n.id and c.status in ('waiting', 'running', 'suspended')));
        end if;
        return;
    end if;
    if stream.lock(p_log_id) < p_seen then
        return;
    end if;
    select cancel_requested_at is not null, safe_seq into v_is_cancelled, v_seq
    from kb.agent_runs where id = p_run_id for no key update;
    if v_is_cancelled
       -- As for other calls: they were begun before that.
       and not exists (select from kb.remote_calls c
                       where c.id in (select n.id from jsonb_to_recordset(p_calls) n(id uuid))) then
        return query select v_seq, false;
        return;
    end if;
    with begun as (
        -- The note is what a later attempt knows the call by, whatever became of its tool.
        update kb.agent_run_tool_calls t
        set status = 'running', started_at = now(),
            output = jsonb_build_object('remote', jsonb_build_object('queue', n.queue, 'version', n.version))
        from jsonb_to_recordset(p_calls) n(id uuid, "callId" text, queue text, tool text, version text, input jsonb, "outputSchema" jsonb,
                                           repeatable boolean, "timeoutS" int, "maxAttempts" int, answers text)
        where t.id = n.id and t.status = 'pending'
        returning n.*
    )
    insert into kb.remote_calls (id, project_id, run_id, call_id, conversation_id, queue, tool, version, input, output_schema, repeatable,
                                 timeout_s, answers, job_id)
    select b.id, p_project, p_run_id, b."callId", p_conversation_id, b.queue, b.tool, b.version, b.input, b."outputSchema", b.repeatable,
           b."timeoutS", b.answers,
           queue.enqueue('remote_call', jsonb_build_object('callId', b.id),
                         p_queue => kb.remote_queue(p_project, b.queue, b.tool, b.version), p_project_id => p_project,
                         p_max_attempts => case when b.repeatable then b."maxAttempts" else 1 end)
    from begun b;
    if found and cardinality(p_types) > 0 then
        v_seq := stream.append(p_log_id, p_root_run_id, p_types, p_data);
        update kb.agent_runs set safe_seq = v_seq where id = p_run_id and not p_suspends;
    end if;
    if p_suspends then
        update kb.agent_runs set state = 'waiting', waiting_since = now(), safe_seq = v_seq where id = p_run_id;
        -- As rejoin_runs::run_dependencies::suspend.
        update queue.jobs
        set state = 'available', run_at = 'infinity', lease_until = null, worker_id = null, losses = 0,
            max_attempts = greatest(max_attempts, attempt + p_grant)
        where run_id = p_run_id and attempt = p_attempt;
    end if;
    return query select v_seq, true;
end
$$;

-- These calls, once all have ended or wait for their run; no row before.
create function kb.settled_remote_calls(p_ids uuid[]) returns setof kb.remote_calls
language plpgsql stable set enable_seqscan = off as $$
begin
    if not exists (select from kb.remote_calls c where c.id = any(p_ids) and c.status in ('waiting', 'running')) then
        return query select * from kb.remote_calls c where c.id = any(p_ids);
    end if;
end
$$;

-- As before, but a step that needs nothing else is one statement.
create or replace function kb.record_step_of_worker(
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
    -- As in kb.record_plain_steps: a call that is repeatable already, with attempts left, needs no change.
    insert into kb.remote_steps as s (call_id, number, project_id, name, kind, status, output, error, attempt, ended_at)
    select c.id, p_number, c.project_id, p_name, 'function', p_status, p_output, p_error, p_attempt,
           case when p_status <> 'begun' then now() end
    from kb.remote_calls c
    join queue.jobs j on j.id = c.job_id and j.attempt = p_attempt and j.state = 'running'
                         and j.max_attempts >= p_attempt + p_max_attempts - 1
    where c.id = p_call and c.worker_id = p_worker and c.attempt = p_attempt and c.status = 'running'
      and c.repeatable and c.writing_step is null
    for key share of j
    on conflict (call_id, number) do update
    set status = excluded.status, output = excluded.output, error = excluded.error, attempt = excluded.attempt, ended_at = excluded.ended_at
    where s.name = excluded.name and s.kind = 'function' and s.status = 'begun';
    if found then
        return 'recorded';
    end if;
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

-- As before, but the output of an agent's turn needs a check only if its function has written text.
create or replace function kb.complete_remote_call(p_call uuid, p_worker uuid, p_attempt int, p_output jsonb)
returns table (status text, resumed boolean, run_id uuid)
language plpgsql as $$
#variable_conflict use_column
declare
    v_call kb.remote_calls;
begin
    select * into v_call from kb.remote_calls c where c.id = p_call;
    if not found then
        return;
    elsif v_call.worker_id is distinct from p_worker or v_call.attempt <> p_attempt then
        return query select null::text, false, null::uuid;
    elsif v_call.output_schema is not null or v_call.writing_step is not null
          or v_call.answers is not null and exists (select from kb.remote_texts t where t.call_id = p_call) then
        return query select 'checked'::text, false, null::uuid;
    else
        return query select e.status, e.resumed, e.run_id from kb.end_remote_call(p_call, p_attempt, 'completed', p_output, null) e;
        if not found then
            return query select null::text, false, null::uuid;
        end if;
    end if;
end
$$;

-- Completes different calls by a few statements: those whose output needs no check. Records: as of kb.record_of_worker, null in the place of others. For
-- each: whether it has ended now, its run, and whether that is resumed; the others are left to kb.complete_remote_call. The caller has locked their logs
-- and jobs (kb.lock_remote_calls). Like kb.end_remote_call, it acts for any run of its project.
create function kb.complete_plain_calls(p_worker uuid, p_records jsonb) returns table (is_done boolean[], resumed boolean[], runs uuid[])
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_calls    uuid[];
    v_jobs     bigint[];
    v_attempts int[];
    v_outputs  jsonb[];
    v_of_runs  uuid[];
    -- Runs that are resumed.
    v_resumed  uuid[];
begin
    select array_agg(c.id order by j.id), array_agg(j.id order by j.id), array_agg(j.attempt order by j.id),
           array_agg(coalesce(w.output, 'null') order by j.id), array_agg(c.run_id order by j.id)
    into v_calls, v_jobs, v_attempts, v_outputs, v_of_runs
    from jsonb_to_recordset(p_records) w("callId" uuid, attempt int, step jsonb, output jsonb)
    join kb.remote_calls c on c.id = w."callId" and c.project_id = kb.current_project() and c.worker_id = p_worker
                              and c.attempt = w.attempt and c.status = 'running' and c.output_schema is null and c.writing_step is null
                              and (c.answers is null or not exists (select from kb.remote_texts t where t.call_id = c.id))
    join queue.jobs j on j.id = c.job_id and j.attempt = w.attempt and j.state = 'running'
    where w.step is null;
    if v_calls is not null then
        perform queue.finish(v_jobs, v_attempts, 'completed', null, false);
        update kb.remote_calls c
        set status = 'completed', output = v_outputs[array_position(v_calls, c.id)], error = null, ended_at = now()
        where c.id = any(v_calls);
        select array_agg(r.id) into v_resumed
        from (select distinct unnest(v_of_runs) as id offset 0) r
        where r.id is not null and kb.resume_if_met(r.id);
    end if;
    return query
    select array_agg(coalesce(w."callId" = any(v_calls), false) order by w.nth),
           array_agg(coalesce(d.run_id = any(v_resumed), false) order by w.nth),
           array_agg(d.run_id order by w.nth)
    from rows from (jsonb_to_recordset(p_records) as ("callId" uuid)) with ordinality w("callId", nth)
    left join lateral (select v_of_runs[array_position(v_calls, w."callId")] as run_id) d on true;
end
$$;
revoke all on function kb.complete_plain_calls from public;
grant execute on function kb.complete_plain_calls to rejoin_app;

-- As before, but completes plain calls together.
create or replace function kb.record_of_worker(p_worker uuid, p_records jsonb, p_max_attempts int)
returns table (outcomes text[], resumed boolean[], runs uuid[])
language plpgsql as $$
#variable_conflict use_column
declare
    v_calls   uuid[];
    -- Calls with an output, and those with several records.
    v_ended   uuid[];
    v_several uuid[];
    -- The records, null in the place of those of such calls: of these, the order counts.
    v_plain   jsonb := p_records;
    -- Steps that are recorded, and outputs with which calls have ended, with their runs.
    v_is_done boolean[];
    v_has_ended boolean[];
    v_let_go  boolean[];
    v_of_runs uuid[];
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
    if v_several is not null then
        select jsonb_agg(case when (r.value->>'callId')::uuid <> all(v_several) then r.value else '{}' end order by r.nth) into v_plain
        from jsonb_array_elements(p_records) with ordinality r(value, nth);
    end if;
    v_is_done := kb.record_plain_steps(p_worker, v_plain, p_max_attempts);
    if true = all(v_is_done) then
        return query select array_fill('recorded'::text, array[cardinality(v_is_done)]), array_fill(false, array[cardinality(v_is_done)]),
                            array_fill(null::uuid, array[cardinality(v_is_done)]);
        return;
    end if;
    if v_ended is not null then
        select e.is_done, e.resumed, e.runs into v_has_ended, v_let_go, v_of_runs from kb.complete_plain_calls(p_worker, v_plain) e;
        if true = all(v_has_ended) then
            return query select array_fill('completed'::text, array[cardinality(v_has_ended)]), v_let_go, v_of_runs;
            return;
        end if;
    end if;
    for v_record in
        select r.call, r.attempt, r.step, r.output, v_is_done[r.nth] as is_done, v_has_ended[r.nth] as has_ended, r.nth
        from rows from (jsonb_to_recordset(p_records) as ("callId" uuid, attempt int, step jsonb, output jsonb)) with ordinality
             r(call, attempt, step, output, nth)
        order by r.nth
    loop
        v_resumed := false;
        v_run := null;
        if v_record.is_done then
            v_outcome := 'recorded';
        elsif v_record.has_ended then
            v_outcome := 'completed';
            v_resumed := v_let_go[v_record.nth];
            v_run := v_of_runs[v_record.nth];
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
