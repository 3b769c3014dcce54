-- The ends of tool calls that are known together are recorded by one statement (docs/decisions/0092-ends-together.md).

-- Records the ends of tool calls of a step, and their messages for the model. Workers of the version before call kb.end_tool_call.
create function kb.end_tool_calls(
    p_run_id          uuid,
    p_attempt         int,
    p_grant           int,
    p_log_id          uuid,
    p_root_run_id     uuid,
    p_seen            bigint,
    p_step            int,
    -- Of each call, in their order.
    p_calls           uuid[],
    p_statuses        text[],
    p_outputs         jsonb[],
    p_errors          text[],
    p_durations_ms    int[],
    p_operations      jsonb[],
    p_message_ids     uuid[],
    p_messages        jsonb[],
    -- The events, and which of the calls each is of, from 1. Empty: nothing is published.
    p_types           text[],
    p_data            text[],
    p_of              int[],
    -- The context that the call has set, which is the only one then: of its run, of the tree's root, and of the conversation, if there is one.
    -- Then the last event is published only if the focus changes.
    p_context         jsonb,
    p_conversation_id uuid
) returns table (seq bigint, has_pending boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    -- The calls that had not ended.
    v_open int[] := '{}';
    v_seq  bigint;
begin
    if queue.fence(p_run_id, p_attempt, p_grant) is null then
        return;
    end if;
    if stream.lock(p_log_id) < p_seen then
        return;
    end if;
    for i in 1 .. cardinality(p_calls) loop
        update kb.agent_run_tool_calls
        set status = p_statuses[i], output = p_outputs[i], error = p_errors[i], duration_ms = p_durations_ms[i],
            operation = coalesce(p_operations[i], operation), completed_at = now()
        where id = p_calls[i] and completed_at is null;
        if found then
            v_open := v_open || i;
        end if;
    end loop;
    if cardinality(v_open) between 1 and cardinality(p_calls) - 1 then
        select array_agg(m.id order by m.nth), array_agg(m.message order by m.nth) into p_message_ids, p_messages
        from unnest(p_message_ids, p_messages) with ordinality m(id, message, nth)
        where m.nth = any(v_open);
        select coalesce(array_agg(e.type order by e.nth), '{}'), coalesce(array_agg(e.data order by e.nth), '{}') into p_types, p_data
        from unnest(p_types, p_data, p_of) with ordinality e(type, data, of_call, nth)
        where e.of_call = any(v_open);
    end if;
    if cardinality(v_open) > 0 then
        perform kb.append_run_messages(p_run_id, p_message_ids, array_fill('tool_result'::text, array[cardinality(v_open)]), p_messages, p_step);
        if p_context is not null then
            update kb.agent_runs set context = p_context where id in (p_run_id, p_root_run_id);
            if p_conversation_id is not null and not kb.set_context(p_conversation_id, p_context) then
                p_types := p_types[:cardinality(p_types) - 1];
                p_data := p_data[:cardinality(p_data) - 1];
            end if;
        end if;
        if cardinality(p_types) > 0 then
            v_seq := stream.append(p_log_id, p_root_run_id, p_types, p_data);
            update kb.agent_runs set safe_seq = v_seq where id = p_run_id;
        end if;
    end if;
    return query
    select coalesce(v_seq, r.safe_seq, r.first_seq), exists (select from kb.run_inbox where run_id = p_run_id)
    from kb.agent_runs r where r.id = p_run_id;
end
$$;

-- As before, but the calls are not looked for among all that ever were (0052).
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
    v_call         record;
    v_has_begun    boolean := false;
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
    -- One by one: joined with a list, of unknown length, those that wait are looked for in all rows.
    for v_call in
        select n.*
        from jsonb_to_recordset(p_calls) n(id uuid, "callId" text, queue text, tool text, version text, input jsonb, "outputSchema" jsonb,
                                           repeatable boolean, "timeoutS" int, "maxAttempts" int, answers text)
    loop
        -- The note is what a later attempt knows the call by, whatever became of its tool.
        update kb.agent_run_tool_calls
        set status = 'running', started_at = now(),
            output = jsonb_build_object('remote', jsonb_build_object('queue', v_call.queue, 'version', v_call.version))
        where id = v_call.id and status = 'pending';
        continue when not found;
        v_has_begun := true;
        insert into kb.remote_calls (id, project_id, run_id, call_id, conversation_id, queue, tool, version, input, output_schema, repeatable,
                                     timeout_s, answers, job_id)
        values (v_call.id, p_project, p_run_id, v_call."callId", p_conversation_id, v_call.queue, v_call.tool, v_call.version, v_call.input,
                v_call."outputSchema", v_call.repeatable, v_call."timeoutS", v_call.answers,
                queue.enqueue('remote_call', jsonb_build_object('callId', v_call.id),
                              p_queue => kb.remote_queue(p_project, v_call.queue, v_call.tool, v_call.version), p_project_id => p_project,
                              p_max_attempts => case when v_call.repeatable then v_call."maxAttempts" else 1 end));
    end loop;
    if v_has_begun and cardinality(p_types) > 0 then
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
