drop function kb.end_tool_calls(uuid, int, int, uuid, uuid, bigint, int, uuid[], text[], jsonb[], text[], int[], jsonb[], uuid[], jsonb[], text[], text[], int[], jsonb, uuid);

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
