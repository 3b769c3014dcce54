create or replace function kb.start_tool_call(
    p_run_id      uuid,
    p_attempt     int,
    p_log_id      uuid,
    p_root_run_id uuid,
    p_seen        bigint,
    p_call        uuid,
    -- Empty: nothing is published, as if a new attempt repeats the call.
    p_types       text[],
    p_data        text[],
    -- False only in a build with an injected fault: a cancelled run starts tools.
    p_heeds_cancel boolean
) returns table (seq bigint, may_act boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_is_cancelled boolean;
    v_seq          bigint;
begin
    if queue.fence(p_run_id, p_attempt) is null then
        return;
    end if;
    if stream.lock(p_log_id) < p_seen then
        return;
    end if;
    select cancel_requested_at is not null, safe_seq into v_is_cancelled, v_seq
    from kb.agent_runs where id = p_run_id for no key update;
    if v_is_cancelled and p_heeds_cancel then
        return query select v_seq, false;
        return;
    end if;
    -- One that is to be published and is running was begun by an earlier execution of this statement; one that has ended, by a later one.
    update kb.agent_run_tool_calls set status = 'running', started_at = now()
    where id = p_call and completed_at is null and (status <> 'running' or cardinality(p_types) = 0);
    if found and cardinality(p_types) > 0 then
        v_seq := stream.append(p_log_id, p_root_run_id, p_types, p_data);
        update kb.agent_runs set safe_seq = v_seq where id = p_run_id;
    end if;
    return query select v_seq, true;
end
$$;

create or replace function kb.begin_remote_calls(
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
    if v_is_cancelled then
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
