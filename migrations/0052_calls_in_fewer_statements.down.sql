drop function kb.settled_remote_calls(uuid[]);
drop function kb.complete_plain_calls(uuid, jsonb);
drop function kb.begin_remote_calls(uuid, int, int, uuid, uuid, bigint, uuid, uuid, jsonb, text[], text[], boolean);

create or replace function kb.has_due_steps(p_run_id uuid) returns boolean
language sql stable as $$
    select exists (
        select from kb.remote_calls c
        where c.run_id = p_run_id and c.status = 'suspended'
          and (exists (select from kb.remote_steps s where s.call_id = c.id and s.status = 'requested')
               or not exists (
                   select from kb.remote_steps s
                   where s.call_id = c.id and s.status = 'begun'
                     and (exists (select from kb.questions q where q.id = s.ref and q.status = 'pending')
                          or exists (select from kb.agent_runs a where a.id = s.ref and a.state in ('queued', 'running', 'waiting'))))))
$$;

create or replace function kb.remote_queue(p_project uuid, p_queue text, p_tool text, p_version text) returns text
language sql immutable as $$
    select format('remote/%s/%s/%s/%s', p_project, p_queue, p_tool, p_version)
$$;

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
    p_data            text[]
) returns table (seq bigint, may_act boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_is_cancelled boolean;
    v_seq          bigint;
    v_call         record;
    v_begins       boolean := false;
begin
    if queue.fence(p_run_id, p_attempt, p_grant) is null then
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
    for v_call in
        select * from jsonb_to_recordset(p_calls) n(id uuid, "callId" text, queue text, tool text, version text, input jsonb, "outputSchema" jsonb,
                                                    repeatable boolean, "timeoutS" int, "maxAttempts" int)
    loop
        -- The note is what a later attempt knows the call by, whatever became of its tool.
        update kb.agent_run_tool_calls t
        set status = 'running', started_at = now(),
            output = jsonb_build_object('remote', jsonb_build_object('queue', v_call.queue, 'version', v_call.version))
        where t.id = v_call.id and t.status = 'pending';
        v_begins := v_begins or found;
        if found then
            perform kb.add_remote_call(v_call.id, p_project, p_run_id, v_call."callId", p_conversation_id, v_call.queue, v_call.tool,
                                       v_call.version, v_call.input, v_call."outputSchema", v_call.repeatable, v_call."timeoutS",
                                       v_call."maxAttempts");
        end if;
    end loop;
    if v_begins and cardinality(p_types) > 0 then
        v_seq := stream.append(p_log_id, p_root_run_id, p_types, p_data);
        update kb.agent_runs set safe_seq = v_seq where id = p_run_id;
    end if;
    return query select v_seq, true;
end
$$;

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
    elsif v_call.output_schema is not null or v_call.answers is not null then
        return query select 'checked'::text, false, null::uuid;
    else
        return query select e.status, e.resumed, e.run_id from kb.end_remote_call(p_call, p_attempt, 'completed', p_output, null) e;
        if not found then
            return query select null::text, false, null::uuid;
        end if;
    end if;
end
$$;

create or replace function kb.record_of_worker(p_worker uuid, p_records jsonb, p_max_attempts int)
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
