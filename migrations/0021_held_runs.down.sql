drop function kb.poll_remote_calls(text, uuid, interval, interval, interval, int);
drop function kb.complete_remote_call(uuid, uuid, int, jsonb);
drop function kb.begin_remote_calls(uuid, int, int, uuid, uuid, bigint, uuid, uuid, jsonb, text[], text[]);
drop function kb.end_remote_call(uuid, int, text, jsonb, text);
create function kb.end_remote_call(
    p_call    uuid,
    p_attempt int,
    p_status  text,
    p_output  jsonb,
    p_error   text
) returns table (status text, resumed boolean)
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
        return query select p_status, v_call.run_id is not null and kb.resume_if_met(v_call.run_id);
    elsif p_attempt is null or (v_call.attempt = p_attempt and v_call.status = p_status) then
        return query select v_call.status, false;
    end if;
end
$$;
revoke all on function kb.end_remote_call from public;
grant execute on function kb.end_remote_call to rejoin_app, rejoin_worker;
create or replace function kb.claim_remote_calls(p_worker uuid, p_lease interval, p_limit int) returns setof kb.remote_calls
language plpgsql as $$
declare
    v_tool record;
    v_job  record;
    v_call kb.remote_calls;
    v_left int := p_limit;
begin
    for v_tool in
        select kb.remote_queue(t.project_id, t.queue, t.name, t.version) as queue
        from kb.remote_workers w
        join kb.remote_worker_tools s on s.worker_id = w.id
        join kb.remote_tools t on t.id = s.tool_id
        where w.id = p_worker and not w.draining
        order by random()
    loop
        exit when v_left <= 0;
        for v_job in select id, attempt, payload from queue.claim(v_tool.queue, p_worker, p_lease, v_left) loop
            update kb.remote_calls c
            set status = 'running', attempt = v_job.attempt, worker_id = p_worker, handed_out_at = now(), progress = null,
                worker_name = (select w.name from kb.remote_workers w where w.id = p_worker)
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
create or replace function kb.append_run_messages(p_run_id uuid, p_ids uuid[], p_roles text[], p_contents jsonb[], p_step int) returns void
language sql as $$
    insert into kb.agent_run_messages (id, run_id, position, role, content, step_number)
    select m.id, p_run_id, last.position + m.nth, m.role, m.content, p_step
    from unnest(p_ids, p_roles, p_contents) with ordinality m(id, role, content, nth)
    cross join (select coalesce(max(position), 0) as position from kb.agent_run_messages where run_id = p_run_id) last
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
language sql as $$
    insert into kb.remote_calls (id, project_id, run_id, call_id, conversation_id, queue, tool, version, input, output_schema, repeatable,
                                 timeout_s, job_id)
    values (p_id, p_project, p_run_id, p_call_id, p_conversation_id, p_queue, p_tool, p_version, p_input, p_output_schema, p_repeatable,
            p_timeout_s,
            queue.enqueue('remote_call', jsonb_build_object('callId', p_id),
                          p_queue => kb.remote_queue(p_project, p_queue, p_tool, p_version), p_project_id => p_project,
                          p_max_attempts => case when p_repeatable then p_max_attempts else 1 end))
$$;
create or replace function kb.has_remote_call(p_call kb.remote_calls, p_attempt int) returns boolean
language sql as $$
    select p_call.status = 'running' and p_call.attempt = p_attempt
           and exists (select from queue.jobs j where j.id = p_call.job_id and j.attempt = p_attempt and j.state = 'running')
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
language sql as $$
    update kb.agent_runs
    set state = p_state, attempt = p_attempt, finished_at = now(), done_seq = p_seq, safe_seq = p_seq,
        final_message_id = p_message_id, summary = p_summary, error = p_error, error_code = p_error_code, usage = p_usage,
        waiting_since = null
    where id = p_run_id
$$;
