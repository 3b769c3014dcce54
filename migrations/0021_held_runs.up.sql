-- A run holds its slot for a moment while users' programs execute its calls, before it is suspended (docs/decisions/0056-held-runs.md): its calls
-- begin while it is running, in one statement, and their ends wake its worker. And what a program sends most, a claim and a completion, is one
-- statement each.

-- Begins the calls of a step that users' programs execute, and leaves the run running. Calls: what kb.add_remote_call takes, as
-- [{id, callId, queue, tool, version, input, outputSchema, repeatable, timeoutS, maxAttempts}]. may_act = false: the run was cancelled, and
-- nothing is begun. Like the commands of 0016: no row, and nothing is written, if the lease is lost; a repeated statement finds what it has written.
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

-- As before, and returns the call's run: it may be held.
drop function kb.end_remote_call(uuid, int, text, jsonb, text);
create function kb.end_remote_call(
    p_call    uuid,
    p_attempt int,
    p_status  text,
    p_output  jsonb,
    p_error   text
) returns table (status text, resumed boolean, run_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_call kb.remote_calls := kb.lock_remote_call(p_call);
begin
    if v_call.id is null then
        return;
    end if;
    if v_call.status in ('waiting', 'running', 'suspended') then
        if p_attempt is null then
            -- Finishing takes running jobs only: take a lease for this transaction.
            update queue.jobs j set state = 'running', lease_until = now()
            where j.id = v_call.job_id and j.state = 'available';
        elsif not kb.has_remote_call(v_call, p_attempt) then
            return;
        end if;
        -- A tool that fails is no failed job: the model goes on.
        perform queue.finish(array[v_call.job_id], array[j.attempt], case p_status when 'cancelled' then 'cancelled' else 'completed' end,
                             null, false)
        from queue.jobs j where j.id = v_call.job_id;
        update kb.remote_calls c
        set status = p_status, output = p_output, error = p_error, ended_at = now()
        where c.id = p_call;
        return query select p_status, v_call.run_id is not null and kb.resume_if_met(v_call.run_id), v_call.run_id;
    elsif p_attempt is null or (v_call.attempt = p_attempt and v_call.status = p_status) then
        return query select v_call.status, false, v_call.run_id;
    end if;
end
$$;
revoke all on function kb.end_remote_call from public;
grant execute on function kb.end_remote_call to rejoin_app, rejoin_worker;

-- Completes a call whose output needs no check. Status: `checked`, if it needs one, and nothing was done; null, if this worker's attempt does not
-- have the call. No row: there is no such call.
create function kb.complete_remote_call(p_call uuid, p_worker uuid, p_attempt int, p_output jsonb)
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

-- As before, but only of the queues that have a call which is due: most claims find none.
create or replace function kb.claim_remote_calls(p_worker uuid, p_lease interval, p_limit int) returns setof kb.remote_calls
language plpgsql as $$
declare
    v_tool record;
    v_job  record;
    v_call kb.remote_calls;
    v_left int := p_limit;
begin
    for v_tool in
        select q.queue, w.name
        from kb.remote_workers w
        join kb.remote_worker_tools s on s.worker_id = w.id
        join kb.remote_tools t on t.id = s.tool_id
        cross join lateral (select kb.remote_queue(t.project_id, t.queue, t.name, t.version) as queue) q
        where w.id = p_worker and not w.draining
          and exists (select from queue.jobs j where j.queue = q.queue and j.state = 'available' and not j.held and j.run_at <= now())
        order by random()
    loop
        exit when v_left <= 0;
        for v_job in select id, attempt, payload from queue.claim(v_tool.queue, p_worker, p_lease, v_left) loop
            update kb.remote_calls c
            set status = 'running', attempt = v_job.attempt, worker_id = p_worker, handed_out_at = now(), progress = null,
                worker_name = v_tool.name
            where c.id = (v_job.payload->>'callId')::uuid and c.status in ('waiting', 'running')
            returning c.* into v_call;
            if found then
                if v_call.suspensions > 0 then
                    update kb.remote_steps s set status = 'completed', ended_at = now()
                    where s.call_id = v_call.id and s.status = 'begun' and s.kind in ('sleep', 'event');
                end if;
                v_left := v_left - 1;
                return next v_call;
            else
                -- Its run was deleted.
                perform queue.finish(array[v_job.id], array[v_job.attempt], 'cancelled');
            end if;
        end loop;
    end loop;
end
$$;

-- A claim: records that the worker is there, and hands out calls. Calls: those of kb.claim_remote_calls, with the fields that programs get. No row:
-- it is not registered in this queue. A claim that changes by less than p_slack how long the worker counts as alive does not write it.
create function kb.poll_remote_calls(p_queue text, p_worker uuid, p_alive interval, p_slack interval, p_lease interval, p_limit int)
returns table (queues text[], calls json)
language plpgsql as $$
#variable_conflict use_column
declare
    v_alive_until timestamptz;
    v_queues      text[];
begin
    select w.alive_until, array(select kb.remote_queue(t.project_id, t.queue, t.name, t.version)
                                from kb.remote_worker_tools s join kb.remote_tools t on t.id = s.tool_id where s.worker_id = w.id)
    into v_alive_until, v_queues
    from kb.remote_workers w where w.id = p_worker and w.queue = p_queue;
    if not found then
        return;
    end if;
    if v_alive_until < now() + p_alive - p_slack then
        update kb.remote_workers w set seen_at = now(), alive_until = greatest(alive_until, now() + p_alive) where w.id = p_worker;
    end if;
    return query
    select v_queues,
           (select json_agg(json_build_object(
                        'id', c.id, 'attempt', c.attempt, 'tool', c.tool, 'version', c.version, 'input', c.input, 'idempotencyKey', c.id,
                        'timeoutS', c.timeout_s, 'runId', c.run_id, 'conversationId', c.conversation_id, 'callId', c.call_id,
                        'createdAt', c.created_at, 'checkpoint', c.checkpoint,
                        'steps', (select count(*) from kb.remote_steps s where s.call_id = c.id)))
            from kb.claim_remote_calls(p_worker, p_lease, p_limit) c);
end
$$;

-- What each step and each call executes, in a language whose plans are kept: PostgreSQL plans the body of an SQL function again in each statement
-- that calls it, unless it can be inlined.
create or replace function kb.append_run_messages(p_run_id uuid, p_ids uuid[], p_roles text[], p_contents jsonb[], p_step int) returns void
language plpgsql as $$
begin
    insert into kb.agent_run_messages (id, run_id, position, role, content, step_number)
    select m.id, p_run_id, last.position + m.nth, m.role, m.content, p_step
    from unnest(p_ids, p_roles, p_contents) with ordinality m(id, role, content, nth)
    cross join (select coalesce(max(position), 0) as position from kb.agent_run_messages where run_id = p_run_id) last;
end
$$;

create or replace function kb.add_remote_call(
    p_id              uuid,
    p_project         uuid,
    p_run_id          uuid,
    p_call_id         text,
    p_conversation_id uuid,
    p_queue           text,
    p_tool            text,
    p_version         text,
    p_input           jsonb,
    p_output_schema   jsonb,
    p_repeatable      boolean,
    p_timeout_s       int,
    p_max_attempts    int
) returns void
language plpgsql as $$
begin
    insert into kb.remote_calls (id, project_id, run_id, call_id, conversation_id, queue, tool, version, input, output_schema, repeatable,
                                 timeout_s, job_id)
    values (p_id, p_project, p_run_id, p_call_id, p_conversation_id, p_queue, p_tool, p_version, p_input, p_output_schema, p_repeatable,
            p_timeout_s,
            queue.enqueue('remote_call', jsonb_build_object('callId', p_id),
                          p_queue => kb.remote_queue(p_project, p_queue, p_tool, p_version), p_project_id => p_project,
                          p_max_attempts => case when p_repeatable then p_max_attempts else 1 end));
end
$$;

create or replace function kb.has_remote_call(p_call kb.remote_calls, p_attempt int) returns boolean
language plpgsql as $$
begin
    return p_call.status = 'running' and p_call.attempt = p_attempt
           and exists (select from queue.jobs j where j.id = p_call.job_id and j.attempt = p_attempt and j.state = 'running');
end
$$;

create or replace function kb.end_run(
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
language plpgsql as $$
begin
    update kb.agent_runs
    set state = p_state, attempt = p_attempt, finished_at = now(), done_seq = p_seq, safe_seq = p_seq,
        final_message_id = p_message_id, summary = p_summary, error = p_error, error_code = p_error_code, usage = p_usage,
        waiting_since = null
    where id = p_run_id;
end
$$;
