-- Steps of calls of users' programs (docs/reference/worker-protocol.md): what a durable function has done and what it waits for, recorded once.
-- A function that was lost begins again, and gets the recorded results.

alter table kb.remote_calls
    -- How often its program handed it back to wait. Attempts after these are no losses.
    add suspensions int not null default 0,
    drop constraint remote_calls_status_check,
    -- suspended: it waits for its run, which asks a user or starts agents for it.
    add constraint remote_calls_status_check
        check (status in ('waiting', 'running', 'suspended', 'completed', 'error', 'outcome_unknown', 'cancelled'));

create table kb.remote_steps (
    call_id    uuid not null references kb.remote_calls (id) on delete cascade,
    -- Order in which the function asked for it, from 1.
    number     int not null check (number between 1 and 1000),
    project_id uuid not null,
    name       text not null,
    -- function: the program executes it. sleep, event: the call waits. question, agent: its run asks a user, or starts an agent.
    kind       text not null check (kind in ('function', 'sleep', 'event', 'question', 'agent')),
    -- requested: its run has not begun it.
    status     text not null check (status in ('requested', 'begun', 'completed', 'error')),
    -- What is waited for; null: a function.
    request    jsonb,
    output     jsonb,
    error      text,
    -- When the wait ends without an event; infinity: never.
    due_at     timestamptz,
    -- The question, or the agent's run.
    ref        uuid,
    -- That of the call, which recorded it.
    attempt    int not null,
    created_at timestamptz not null default now(),
    ended_at   timestamptz,
    primary key (call_id, number)
);
grant select, insert, update on kb.remote_steps to rejoin_app;
grant select, insert, update on kb.remote_steps to rejoin_worker;
alter table kb.remote_steps enable row level security;
create policy app on kb.remote_steps to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.remote_steps to rejoin_worker using (true);

-- Signals to runs that no function has waited for yet.
create table kb.remote_signals (
    id         uuid primary key,
    project_id uuid not null,
    run_id     uuid not null references kb.agent_runs (id) on delete cascade,
    name       text not null,
    data       jsonb not null,
    created_at timestamptz not null default now()
);
create index remote_signals_run on kb.remote_signals (run_id, name, id);
grant select on kb.remote_signals to rejoin_app;
grant select on kb.remote_signals to rejoin_worker;
alter table kb.remote_signals enable row level security;
create policy app on kb.remote_signals to rejoin_app using (exists (select from kb.agent_runs r where r.id = run_id));
create policy worker on kb.remote_signals to rejoin_worker using (true);

-- Whether a suspended call waits for its run: a step is to begin, or all of its steps have their results.
create function kb.has_due_steps(p_run_id uuid) returns boolean
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

-- Resumes a run that waits for nothing more, or for which a suspended call waits; any other stays unchanged. Returns whether it was resumed.
-- The caller holds the log's lock.
create or replace function kb.resume_if_met(p_run_id uuid) returns boolean
language plpgsql as $$
begin
    update kb.agent_runs r
    set state = 'queued', waiting_since = null,
        waited_s = waited_s + greatest(extract(epoch from now() - waiting_since), 0)::float8
    where id = p_run_id and state = 'waiting'
      and (not exists (select from kb.agent_runs c where c.parent_run_id = r.id and c.state in ('queued', 'running', 'waiting'))
           and not exists (select from kb.questions q where q.run_id = r.id and q.status = 'pending')
           and not exists (select from kb.remote_calls c where c.run_id = r.id and c.status in ('waiting', 'running', 'suspended'))
           -- One that is cancelled ends, and cancels its DAGs then.
           and (r.cancel_requested_at is not null
                or not exists (select from kb.task_dags d where d.waiting_run_id = r.id and d.state in ('active', 'paused')))
           or kb.has_due_steps(r.id));
    if not found then
        return false;
    end if;
    update queue.jobs set run_at = now() where run_id = p_run_id and state = 'available' and run_at = 'infinity';
    return true;
end
$$;

-- As before; the waits of a call that is handed out are over.
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

-- Locks a call of the caller's project until the transaction ends: its log, its job and itself, in this order. Null: there is no such call.
create function kb.lock_remote_call(p_call uuid) returns kb.remote_calls
language plpgsql as $$
declare
    v_log_id uuid;
    v_call   kb.remote_calls;
begin
    select r.log_id into v_log_id
    from kb.remote_calls c left join kb.agent_runs r on r.id = c.run_id
    where c.id = p_call
      and (c.project_id = kb.current_project() or current_setting('role', true) is distinct from 'rejoin_app');
    if not found then
        return null;
    end if;
    if v_log_id is not null then
        perform stream.lock(v_log_id);
    end if;
    perform from queue.jobs j join kb.remote_calls c on c.job_id = j.id where c.id = p_call for update of j;
    select * into v_call from kb.remote_calls c where c.id = p_call for update;
    return v_call;
end
$$;

-- Whether an attempt has a call. Otherwise another one has it, or its lease has expired and another one will.
create function kb.has_remote_call(p_call kb.remote_calls, p_attempt int) returns boolean
language sql as $$
    select p_call.status = 'running' and p_call.attempt = p_attempt
           and exists (select from queue.jobs j where j.id = p_call.job_id and j.attempt = p_attempt and j.state = 'running')
$$;

-- As before; a suspended call ends, too.
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

-- Records a step that a program executes: that it begins, or its end. From then on, the call may be handed out again after a lost worker, and
-- each step adds attempts. Returns `recorded`, also for a repeated request; `stale`, if the attempt does not have the call; or `changed`, if
-- another step has the number.
create function kb.record_remote_step(
    p_call         uuid,
    p_attempt      int,
    p_number       int,
    p_name         text,
    p_status       text,
    p_output       jsonb,
    p_error        text,
    p_max_attempts int
) returns text
language plpgsql as $$
begin
    update queue.jobs j set max_attempts = greatest(j.max_attempts, j.attempt + p_max_attempts - 1)
    from kb.remote_calls c
    where c.id = p_call and c.status = 'running' and c.attempt = p_attempt
      and j.id = c.job_id and j.attempt = p_attempt and j.state = 'running';
    if not found then
        return 'stale';
    end if;
    update kb.remote_calls c set repeatable = true where c.id = p_call and not c.repeatable;
    insert into kb.remote_steps as s (call_id, number, project_id, name, kind, status, output, error, attempt, ended_at)
    select p_call, p_number, c.project_id, p_name, 'function', p_status, p_output, p_error, p_attempt,
           case when p_status <> 'begun' then now() end
    from kb.remote_calls c where c.id = p_call
    on conflict (call_id, number) do update
    set status = excluded.status, output = excluded.output, error = excluded.error, attempt = excluded.attempt, ended_at = excluded.ended_at
    where s.name = excluded.name and s.kind = 'function' and s.status = 'begun';
    if found or exists (select from kb.remote_steps s
                        where s.call_id = p_call and s.number = p_number and s.name = p_name and s.kind = 'function'
                          and s.attempt = p_attempt and s.status = p_status) then
        return 'recorded';
    end if;
    return 'changed';
end
$$;

-- Hands a call back to wait: until a time or a signal, or for what its run begins for it. Steps: [{number, name, kind, request, seconds}]. The
-- outcomes are those of kb.record_remote_step, and `outside` for what only a run can begin. Like kb.end_remote_call, it acts for any run of
-- its project.
create function kb.suspend_remote_call(p_call uuid, p_attempt int, p_steps jsonb) returns table (outcome text, resumed boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_call   kb.remote_calls := kb.lock_remote_call(p_call);
    v_run_id uuid := v_call.run_id;
    v_signal record;
    v_due    timestamptz;
begin
    if v_call.id is null then
        return;
    end if;
    if not kb.has_remote_call(v_call, p_attempt) then
        -- A repeated request finds what the first one recorded.
        return query
        select case when v_call.status in ('waiting', 'suspended') and v_call.attempt = p_attempt
                         and not exists (select from jsonb_to_recordset(p_steps) n(number int, name text, kind text)
                                         where not exists (select from kb.remote_steps s
                                                           where s.call_id = p_call and s.number = n.number and s.name = n.name
                                                             and s.kind = n.kind and s.attempt = p_attempt))
                    then 'recorded' else 'stale' end, false;
        return;
    end if;
    if exists (select from jsonb_to_recordset(p_steps) n(number int) join kb.remote_steps s on s.call_id = p_call and s.number = n.number) then
        return query select 'changed', false;
        return;
    end if;
    if v_run_id is null and exists (select from jsonb_to_recordset(p_steps) n(kind text) where n.kind in ('event', 'question', 'agent')) then
        return query select 'outside', false;
        return;
    end if;
    insert into kb.remote_steps (call_id, number, project_id, name, kind, status, request, due_at, attempt)
    select p_call, n.number, v_call.project_id, n.name, n.kind,
           case when n.kind in ('question', 'agent') then 'requested' else 'begun' end, n.request,
           case when n.kind in ('sleep', 'event') then coalesce(now() + make_interval(secs => n.seconds), 'infinity') end, p_attempt
    from jsonb_to_recordset(p_steps) n(number int, name text, kind text, request jsonb, seconds float8);
    -- A signal that came before.
    for v_signal in
        select s.number, (select g.id from kb.remote_signals g
                          where g.run_id = v_run_id and g.name = s.request->>'event' order by g.id limit 1) as id
        from kb.remote_steps s where s.call_id = p_call and s.kind = 'event' and s.status = 'begun'
    loop
        with taken as (delete from kb.remote_signals g where g.id = v_signal.id returning g.data)
        update kb.remote_steps s set status = 'completed', output = jsonb_build_object('data', taken.data), ended_at = now()
        from taken where s.call_id = p_call and s.number = v_signal.number;
    end loop;
    select case when count(*) filter (where s.status = 'requested') > 0 then 'infinity'
                else coalesce(max(s.due_at) filter (where s.status = 'begun'), now()) end
    into v_due from kb.remote_steps s where s.call_id = p_call and s.status in ('requested', 'begun') and s.kind <> 'function';
    update queue.jobs j
    set state = 'available', lease_until = null, worker_id = null, run_at = v_due, max_attempts = j.max_attempts + 1
    where j.id = v_call.job_id;
    update kb.remote_calls c
    set status = case when exists (select from kb.remote_steps s where s.call_id = p_call and s.status = 'requested')
                      then 'suspended' else 'waiting' end,
        suspensions = c.suspensions + 1, progress = null
    where c.id = p_call;
    return query select 'recorded', v_run_id is not null and kb.resume_if_met(v_run_id);
end
$$;
revoke all on function kb.suspend_remote_call from public;
grant execute on function kb.suspend_remote_call to rejoin_app, rejoin_worker;

-- Stores that a run has begun steps of a suspended call, or what became of them: [{number, status, ref, output, error}]. A call whose steps
-- have all ended is handed out again: returns its queue, else null.
create function kb.answer_remote_steps(p_call uuid, p_steps jsonb) returns text
language plpgsql as $$
declare
    v_queue text;
begin
    perform from queue.jobs j join kb.remote_calls c on c.job_id = j.id where c.id = p_call for update of j;
    perform from kb.remote_calls c where c.id = p_call and c.status = 'suspended' for update;
    if not found then
        return null;
    end if;
    update kb.remote_steps s
    set status = n.status, ref = coalesce(n.ref, s.ref), output = n.output, error = n.error,
        ended_at = case when n.status <> 'begun' then now() end
    from jsonb_to_recordset(p_steps) n(number int, status text, ref uuid, output jsonb, error text)
    where s.call_id = p_call and s.number = n.number and s.status in ('requested', 'begun');
    if exists (select from kb.remote_steps s
               where s.call_id = p_call and s.kind in ('question', 'agent') and s.status in ('requested', 'begun')) then
        return null;
    end if;
    update kb.remote_calls c set status = 'waiting' where c.id = p_call
    returning kb.remote_queue(c.project_id, c.queue, c.tool, c.version) into v_queue;
    update queue.jobs j set run_at = now() from kb.remote_calls c where c.id = p_call and j.id = c.job_id and j.state = 'available';
    return v_queue;
end
$$;

-- Sends a signal to a run: to the function that waits for it, or, stored, to the next one. Returns the queue of the call that goes on (null:
-- the signal is stored), or no row if the run has ended, or has too many signals. The caller may see the run.
create function kb.signal_run(p_id uuid, p_run uuid, p_name text, p_data jsonb, p_max int) returns table (queue text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_run  record;
    v_step record;
begin
    select r.log_id, r.project_id, r.state into v_run from kb.agent_runs r
    where r.id = p_run
      and (r.project_id = kb.current_project() or current_setting('role', true) is distinct from 'rejoin_app');
    if not found then
        return;
    end if;
    perform stream.lock(v_run.log_id);
    select s.call_id, s.number, c.job_id, kb.remote_queue(c.project_id, c.queue, c.tool, c.version) as queue into v_step
    from kb.remote_calls c join kb.remote_steps s on s.call_id = c.id
    where c.run_id = p_run and c.status = 'waiting' and s.kind = 'event' and s.status = 'begun' and s.request->>'event' = p_name
    order by s.created_at, s.number limit 1;
    if found then
        perform from queue.jobs j where j.id = v_step.job_id for update;
        update kb.remote_steps s set status = 'completed', output = jsonb_build_object('data', p_data), ended_at = now()
        where s.call_id = v_step.call_id and s.number = v_step.number and s.status = 'begun';
        -- Otherwise it was handed out meanwhile: its time was over.
        if found then
            update queue.jobs j set run_at = now() where j.id = v_step.job_id and j.state = 'available';
            return query select v_step.queue;
            return;
        end if;
    end if;
    if not exists (select from kb.agent_runs r where r.id = p_run and r.state in ('queued', 'running', 'waiting'))
       or (select count(*) from kb.remote_signals g where g.run_id = p_run) >= p_max then
        return;
    end if;
    insert into kb.remote_signals (id, project_id, run_id, name, data) values (p_id, v_run.project_id, p_run, p_name, p_data);
    return query select null::text;
end
$$;
revoke all on function kb.signal_run from public;
grant execute on function kb.signal_run to rejoin_app, rejoin_worker;

-- function: a tool of a user's program executes the turns of the agent.
alter table kb.agent_definitions
    drop constraint agent_definitions_flow_type_check,
    add constraint agent_definitions_flow_type_check
        check (flow_type in ('single', 'sequential', 'loop', 'parallel', 'discussion', 'function'));
