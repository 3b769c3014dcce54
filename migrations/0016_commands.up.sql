-- The commands of a worker, each one statement: the fence, its rows, its events, its counters (docs/decisions/0049-commands-as-functions.md).
-- And the rows of the API's PostMessage, which has other statements before and after.
--
-- A caller whose statement was not answered repeats it with the same ids: each function finds what it has already written, and
-- changes nothing then. No row is returned, and nothing is written, if the attempt has lost its lease, or if the log ends before p_seen,
-- the last number that the attempt knows to be committed.
--
-- Locks are taken in the order of shared/commands/src/lib.rs: the job, the log, the run, then the rest.

-- Locks the live job of a run until the transaction ends, if p_attempt still owns it, and returns its id. Null: the lease was lost.
-- KEY SHARE conflicts with a claim, which increments the attempt, and not with a heartbeat. (The same as shared/queue/src/fencing.rs, which
-- works without this migration.)
create function queue.fence(
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

-- Locks a log until the transaction ends, and returns the number of its newest event. A log that is missing is an error.
create function stream.lock(p_log_id uuid) returns bigint
language plpgsql as $$
declare
    v_last bigint;
begin
    perform from stream.logs where log_id = p_log_id for no key update;
    if not found then
        raise foreign_key_violation using message = format('there is no log %s', p_log_id);
    end if;
    -- A statement after the lock: it sees what the lock's last holder has committed.
    select last_seq into v_last from stream.log_ends where log_id = p_log_id;
    return v_last;
end
$$;

-- Appends messages to a run, in order.
create function kb.append_run_messages(p_run_id uuid, p_ids uuid[], p_roles text[], p_contents jsonb[], p_step int) returns void
language sql as $$
    insert into kb.agent_run_messages (id, run_id, position, role, content, step_number)
    select m.id, p_run_id, last.position + m.nth, m.role, m.content, p_step
    from unnest(p_ids, p_roles, p_contents) with ordinality m(id, role, content, nth)
    cross join (select coalesce(max(position), 0) as position from kb.agent_run_messages where run_id = p_run_id) last
$$;

-- Sets a conversation's context, and returns whether its focus changed. The caller holds the log's lock.
create function kb.set_context(p_conversation_id uuid, p_context jsonb) returns boolean
language sql as $$
    update kb.chat_conversations c set context = p_context
    from (select id, context from kb.chat_conversations where id = p_conversation_id for update) before
    where c.id = before.id
    returning before.context -> 'focus' is distinct from p_context -> 'focus'
$$;

-- Stores a user's message with the run that will answer it: its event, its row, the run, the job. Returns the event's number.
create function kb.post_message(
    p_conversation_id uuid,
    p_project_id      uuid,
    p_user_id         uuid,
    p_message_id      uuid,
    p_content         text,
    p_metadata        jsonb,
    -- The event `message`.
    p_data            text,
    p_run_id          uuid,
    p_definition_id   uuid,
    -- Null: the definition's.
    p_output_schema   jsonb,
    p_kind            text,
    p_queue           text,
    p_max_attempts    int,
    p_concurrency_key text
) returns bigint
language plpgsql as $$
declare
    v_seq bigint := stream.append(p_conversation_id, p_run_id, array['message'], array[p_data]);
begin
    insert into kb.chat_messages (id, conversation_id, role, content, metadata, seq)
    values (p_message_id, p_conversation_id, 'user', p_content, p_metadata, v_seq);
    insert into kb.agent_runs (id, project_id, conversation_id, user_id, agent_definition_id, root_run_id, log_id, message_id, input,
                               first_seq, depth, output_schema)
    values (p_run_id, p_project_id, p_conversation_id, p_user_id, p_definition_id, p_run_id, p_conversation_id, p_message_id, p_content,
            v_seq - 1, 0,
            coalesce(p_output_schema, (select nullif(config -> 'outputSchema', 'null') from kb.agent_definitions
                                       where id = p_definition_id and flow_type = 'single')));
    perform queue.enqueue(p_kind => p_kind, p_queue => p_queue, p_project_id => p_project_id, p_max_attempts => p_max_attempts,
                          p_concurrency_key => p_concurrency_key, p_run_id => p_run_id);
    return v_seq;
end
$$;

-- Begins an attempt, and returns the run. If its `attempt` is another one, nothing was done: safe_seq and state are not those that the
-- caller has read, and the events depend on them.
create function kb.start_run(
    p_run_id          uuid,
    p_attempt         int,
    p_log_id          uuid,
    p_root_run_id     uuid,
    p_safe_seq        bigint,
    p_state           text,
    -- The initial messages, if the turn begins.
    p_message_ids     uuid[],
    p_roles           text[],
    p_contents        jsonb[],
    p_types           text[],
    p_data            text[],
    -- The place among the events of the one that is published only if the focus changes.
    p_focus_at        int,
    -- The context of the turn, and the conversation that gets it. Null: neither changes.
    p_conversation_id uuid,
    p_context         jsonb,
    p_model           text,
    p_agent_name      text,
    p_part            jsonb
) returns setof kb.agent_runs
language plpgsql as $$
declare
    v_run    kb.agent_runs;
    v_seq    bigint;
    -- For how long no worker has worked on the run, in seconds: its time limits exclude this time.
    v_idle_s double precision;
begin
    if queue.fence(p_run_id, p_attempt) is null then
        return;
    end if;
    perform stream.lock(p_log_id);
    select * into v_run from kb.agent_runs where id = p_run_id for no key update;
    if v_run.attempt = p_attempt and v_run.started_at is not null
        or v_run.safe_seq is distinct from p_safe_seq or v_run.state <> p_state then
        return next v_run;
        return;
    end if;
    if p_safe_seq is null then
        perform kb.append_run_messages(p_run_id, p_message_ids, p_roles, p_contents, 0);
    elsif p_state = 'queued' then
        -- It was suspended, until its job was due.
        select extract(epoch from now() - run_at) into v_idle_s from queue.jobs where run_id = p_run_id and isfinite(run_at);
    else
        -- Its worker was lost after its log's last event.
        select extract(epoch from now() - created_at) into v_idle_s from stream.events where log_id = p_log_id order by seq desc limit 1;
    end if;
    v_idle_s := greatest(coalesce(v_idle_s, 0), 0);
    if p_conversation_id is not null and not kb.set_context(p_conversation_id, p_context) then
        p_types := p_types[:p_focus_at - 1] || p_types[p_focus_at + 1:];
        p_data := p_data[:p_focus_at - 1] || p_data[p_focus_at + 1:];
    end if;
    v_seq := stream.append(p_log_id, p_root_run_id, p_types, p_data);
    return query
    update kb.agent_runs r
    set state = 'running', attempt = p_attempt, safe_seq = v_seq, started_at = coalesce(started_at, now()),
        model = p_model, agent_name = coalesce(agent_name, p_agent_name), context = coalesce(p_context, context),
        part = coalesce(part, p_part), waited_s = waited_s + v_idle_s,
        person_s = person_s + case when parent_run_id is null then v_idle_s else 0 end
    where id = p_run_id
    returning r.*;
end
$$;

-- Stores a model's answer before it is acted upon: messages (the last one is the assistant's), its calls as pending, counters, `usage`.
create function kb.record_step(
    p_run_id      uuid,
    p_attempt     int,
    p_grant       int,
    p_log_id      uuid,
    p_root_run_id uuid,
    p_seen        bigint,
    p_step        int,
    p_message_ids uuid[],
    p_roles       text[],
    p_contents    jsonb[],
    p_calls       uuid[],
    -- The model's ids of the calls.
    p_call_ids    text[],
    p_tools       text[],
    p_inputs      jsonb[],
    -- Empty: nothing is published.
    p_types       text[],
    p_data        text[],
    p_usage       jsonb,
    -- Of this step alone.
    p_tokens      bigint,
    p_cost_usd    double precision,
    -- The steering messages that the step has taken.
    p_taken       bigint[]
) returns table (seq bigint, tree_tokens bigint, tree_cost_usd double precision, has_pending boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_message_id uuid := p_message_ids[cardinality(p_message_ids)];
    v_seq        bigint;
begin
    if queue.fence(p_run_id, p_attempt, p_grant) is null then
        return;
    end if;
    if stream.lock(p_log_id) < p_seen then
        return;
    end if;
    if not exists (select from kb.agent_run_messages where id = v_message_id) then
        perform kb.append_run_messages(p_run_id, p_message_ids, p_roles, p_contents, p_step);
        if cardinality(p_calls) > 0 then
            insert into kb.agent_run_tool_calls (id, run_id, message_id, call_id, step_number, position, tool_name, input)
            select c.id, p_run_id, v_message_id, c.call_id, p_step, c.nth - 1, c.tool, c.input
            from unnest(p_calls, p_call_ids, p_tools, p_inputs) with ordinality c(id, call_id, tool, input, nth);
        end if;
        if cardinality(p_taken) > 0 then
            delete from kb.run_inbox where id = any (p_taken);
        end if;
        if cardinality(p_types) > 0 then
            v_seq := stream.append(p_log_id, p_root_run_id, p_types, p_data);
        end if;
        update kb.agent_runs
        set step_count = p_step, total_steps = greatest(total_steps, p_step), usage = p_usage,
            safe_seq = coalesce(v_seq, safe_seq, first_seq),
            tree_tokens = tree_tokens + case when id = p_root_run_id then p_tokens else 0 end,
            tree_cost_usd = tree_cost_usd + case when id = p_root_run_id then p_cost_usd else 0 end
        where id = p_run_id;
        if p_root_run_id <> p_run_id then
            update kb.agent_runs
            set tree_tokens = tree_tokens + p_tokens, tree_cost_usd = tree_cost_usd + p_cost_usd
            where id = p_root_run_id;
        end if;
    end if;
    return query
    select r.safe_seq, root.tree_tokens, root.tree_cost_usd, exists (select from kb.run_inbox where run_id = p_run_id)
    from kb.agent_runs r join kb.agent_runs root on root.id = p_root_run_id
    where r.id = p_run_id;
end
$$;

-- Records that a tool call begins to act, before it does. may_act = false: the run was cancelled, and nothing is recorded.
create function kb.start_tool_call(
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

-- Records the end of a tool call, and the message for the model.
create function kb.end_tool_call(
    p_run_id          uuid,
    p_attempt         int,
    p_grant           int,
    p_log_id          uuid,
    p_root_run_id     uuid,
    p_seen            bigint,
    p_call            uuid,
    p_status          text,
    p_output          jsonb,
    p_error           text,
    p_duration_ms     int,
    p_operation       jsonb,
    p_step            int,
    p_message_id      uuid,
    p_message         jsonb,
    -- Empty: nothing is published.
    p_types           text[],
    p_data            text[],
    -- The context that the call has set: of its run, of the tree's root, and of the conversation, if there is one. Then the last event is
    -- published only if the focus changes.
    p_context         jsonb,
    p_conversation_id uuid
) returns table (seq bigint, has_pending boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_seq bigint;
begin
    if queue.fence(p_run_id, p_attempt, p_grant) is null then
        return;
    end if;
    if stream.lock(p_log_id) < p_seen then
        return;
    end if;
    update kb.agent_run_tool_calls
    set status = p_status, output = p_output, error = p_error, duration_ms = p_duration_ms,
        operation = coalesce(p_operation, operation), completed_at = now()
    where id = p_call and completed_at is null;
    if found then
        perform kb.append_run_messages(p_run_id, array[p_message_id], array['tool_result'], array[p_message], p_step);
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

-- Writes the end of a turn to the run's row. The caller holds the log's lock.
create function kb.end_run(
    p_run_id     uuid,
    p_attempt    int,
    p_state      text,
    p_seq        bigint,
    p_message_id uuid,
    p_summary    text,
    p_error      text,
    p_error_code text,
    p_usage      jsonb
) returns void
language sql as $$
    update kb.agent_runs
    set state = p_state, attempt = p_attempt, finished_at = now(), done_seq = p_seq, safe_seq = p_seq,
        final_message_id = p_message_id, summary = p_summary, error = p_error, error_code = p_error_code, usage = p_usage,
        waiting_since = null
    where id = p_run_id
$$;

-- Ends a turn: the assistant's message, the last events, the run, the job. What its end does to other runs is not part of it.
create function kb.finish_run(
    p_run_id          uuid,
    p_attempt         int,
    p_log_id          uuid,
    p_root_run_id     uuid,
    p_seen            bigint,
    p_state           text,
    p_job_state       text,
    -- The conversation of a top-level run, whose context is p_context as the caller knows it.
    p_conversation_id uuid,
    p_context         jsonb,
    -- The assistant's message. Null: none.
    p_message_id      uuid,
    p_text            text,
    p_citations       jsonb,
    p_metadata        jsonb,
    -- The number of events after the message's.
    p_behind          int,
    p_types           text[],
    p_data            text[],
    -- The context of the turn for the next one, as JSON.
    p_last_turn       text,
    -- What stands for the time of the end in p_data and p_last_turn.
    p_time_mark       text,
    p_summary         text,
    p_error           text,
    p_error_code      text,
    p_usage           jsonb
) returns table (
    -- ended; repeated: ended by an earlier execution of this statement; pending: a steering message has arrived; outdated: the run's context is
    -- another one. Only `ended` has written.
    outcome text,
    seq     bigint,
    -- Whether the next job of the conversation was released.
    let_go  boolean,
    context jsonb
)
language plpgsql as $$
#variable_conflict use_column
declare
    v_job_id  bigint := queue.fence(p_run_id, p_attempt);
    v_context jsonb;
    v_seq     bigint;
    v_let_go  boolean;
    v_now     text := to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
begin
    if v_job_id is null then
        return query
        select 'repeated', r.done_seq, true, null::jsonb from kb.agent_runs r
        where r.id = p_run_id and r.attempt = p_attempt and r.finished_at is not null and r.state = p_state
          and r.final_message_id is not distinct from p_message_id and r.done_seq >= p_seen;
        return;
    end if;
    if stream.lock(p_log_id) < p_seen then
        return;
    end if;
    if p_conversation_id is not null then
        select r.context into v_context from kb.agent_runs r where r.id = p_run_id;
        if v_context is distinct from p_context then
            return query select 'outdated', null::bigint, false, v_context;
            return;
        end if;
    end if;
    -- Steering takes the log's lock, too.
    if p_state = 'completed' and exists (select from kb.run_inbox where run_id = p_run_id) then
        return query select 'pending', null::bigint, false, null::jsonb;
        return;
    end if;
    -- Before anything is written: a lease that has ended since ends this command without effect.
    select f.let_go > 0 into v_let_go from queue.finish(array[v_job_id], array[p_attempt], p_job_state, array[p_error]) f;
    if not found then
        return;
    end if;
    v_seq := stream.append(
        p_log_id, p_root_run_id, p_types,
        array(select replace(d, p_time_mark, v_now) from unnest(p_data) with ordinality e(d, i) order by i)
    );
    if p_message_id is not null then
        insert into kb.chat_messages (id, conversation_id, role, content, citations, retrieval_context, metadata, seq)
        values (p_message_id, p_conversation_id, 'assistant', p_text, p_citations, jsonb_build_object('agent_run_id', p_run_id), p_metadata,
                v_seq - p_behind);
    end if;
    if p_message_id is not null or p_last_turn is not null then
        update kb.chat_conversations
        set updated_at = case when p_message_id is null then updated_at else now() end,
            last_turn = coalesce(replace(p_last_turn, p_time_mark, v_now)::jsonb, last_turn)
        where id = p_conversation_id;
    end if;
    perform kb.end_run(p_run_id, p_attempt, p_state, v_seq, p_message_id, p_summary, p_error, p_error_code, p_usage);
    return query select 'ended', v_seq, v_let_go, null::jsonb;
end
$$;
