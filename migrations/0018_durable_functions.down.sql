-- Loses the steps of calls of users' programs: calls that wait for a time, a signal, a user or an agent end as errors. Agents whose turns a
-- program executes become agents without one.
update kb.agent_definitions set flow_type = 'single', config = config #- '{flow,tool}' where flow_type = 'function';
alter table kb.agent_definitions
    drop constraint agent_definitions_flow_type_check,
    add constraint agent_definitions_flow_type_check
        check (flow_type in ('single', 'sequential', 'loop', 'parallel', 'discussion'));
do $$
declare
    v_call uuid;
begin
    for v_call in select c.id from kb.remote_calls c where c.ended_at is null and (c.status = 'suspended' or c.suspensions > 0) loop
        perform kb.end_remote_call(v_call, null, 'error', null, 'its steps were removed');
    end loop;
end
$$;
drop function kb.signal_run(uuid, uuid, text, jsonb, int);
drop function kb.answer_remote_steps(uuid, jsonb);
drop function kb.suspend_remote_call(uuid, int, jsonb);
drop function kb.record_remote_step(uuid, int, int, text, text, jsonb, text, int);
create or replace function kb.resume_if_met(p_run_id uuid) returns boolean
language plpgsql as $$
begin
    update kb.agent_runs r
    set state = 'queued', waiting_since = null,
        waited_s = waited_s + greatest(extract(epoch from now() - waiting_since), 0)::float8
    where id = p_run_id and state = 'waiting'
      and not exists (select from kb.agent_runs c where c.parent_run_id = r.id and c.state in ('queued', 'running', 'waiting'))
      and not exists (select from kb.questions q where q.run_id = r.id and q.status = 'pending')
      and not exists (select from kb.remote_calls c where c.run_id = r.id and c.status in ('waiting', 'running'))
      -- One that is cancelled ends, and cancels its DAGs then.
      and (r.cancel_requested_at is not null
           or not exists (select from kb.task_dags d where d.waiting_run_id = r.id and d.state in ('active', 'paused')));
    if not found then
        return false;
    end if;
    update queue.jobs set run_at = now() where run_id = p_run_id and state = 'available' and run_at = 'infinity';
    return true;
end
$$;
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
create or replace function kb.end_remote_call(
    p_call    uuid,
    p_attempt int,
    p_status  text,
    p_output  jsonb,
    p_error   text
) returns table (status text, resumed boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_log_id uuid;
    v_run_id uuid;
    v_call   kb.remote_calls;
begin
    select r.log_id, c.run_id into v_log_id, v_run_id
    from kb.remote_calls c left join kb.agent_runs r on r.id = c.run_id
    where c.id = p_call
      and (c.project_id = kb.current_project() or current_setting('role', true) is distinct from 'rejoin_app');
    if not found then
        return;
    end if;
    if v_log_id is not null then
        perform stream.lock(v_log_id);
    end if;
    perform from queue.jobs j join kb.remote_calls c on c.job_id = j.id where c.id = p_call for update of j;
    select * into v_call from kb.remote_calls c where c.id = p_call for update;
    if v_call.status in ('waiting', 'running') then
        if p_attempt is null then
            -- Finishing takes running jobs only: take a lease for this transaction.
            update queue.jobs j set state = 'running', lease_until = now()
            where j.id = v_call.job_id and j.state = 'available';
        elsif v_call.status <> 'running' or v_call.attempt <> p_attempt
              or not exists (select from queue.jobs j where j.id = v_call.job_id and j.attempt = p_attempt and j.state = 'running') then
            -- Another attempt has it, or its lease has expired and another one will.
            return;
        end if;
        -- A tool that fails is no failed job: the model goes on.
        perform queue.finish(array[v_call.job_id], array[j.attempt], case p_status when 'cancelled' then 'cancelled' else 'completed' end,
                             null, false)
        from queue.jobs j where j.id = v_call.job_id;
        update kb.remote_calls c
        set status = p_status, output = p_output, error = p_error, ended_at = now()
        where c.id = p_call;
        return query select p_status, v_run_id is not null and kb.resume_if_met(v_run_id);
    elsif p_attempt is null or (v_call.attempt = p_attempt and v_call.status = p_status) then
        return query select v_call.status, false;
    end if;
end
$$;
drop function kb.has_remote_call(kb.remote_calls, int);
drop function kb.lock_remote_call(uuid);
drop function kb.has_due_steps(uuid);
drop table kb.remote_signals;
drop table kb.remote_steps;
alter table kb.remote_calls
    drop column suspensions,
    drop constraint remote_calls_status_check,
    add constraint remote_calls_status_check
        check (status in ('waiting', 'running', 'completed', 'error', 'outcome_unknown', 'cancelled'));
