-- Tools of users' own programs, which take calls over HTTP (docs/reference/worker-protocol.md). A call is a job of the kind `remote_call` in a queue
-- for each version of a tool; its attempt fences everything that a program sends about it.

-- Programs that serve tools: one row for each process.
create table kb.remote_workers (
    id          uuid primary key,
    project_id  uuid not null references kb.projects (id) on delete cascade,
    -- A group of workers; part of the paths that they use.
    queue       text not null check (queue ~ '^[A-Za-z0-9_.-]{1,64}$'),
    name        text not null,
    version     text not null default '',
    language    text not null default '',
    slots       int not null check (slots between 1 and 10000),
    -- It takes no more calls.
    draining    boolean not null default false,
    started_at  timestamptz not null default now(),
    -- Its last request.
    seen_at     timestamptz not null default now(),
    -- Until when it counts as alive: its waiting claim, or its heartbeat, and a lease.
    alive_until timestamptz not null
);
create index remote_workers_list on kb.remote_workers (project_id, id);
create index remote_workers_alive on kb.remote_workers (alive_until);
grant select, insert, update, delete on kb.remote_workers to rejoin_app;
grant select, delete on kb.remote_workers to rejoin_worker;
alter table kb.remote_workers enable row level security;
create policy app on kb.remote_workers to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.remote_workers to rejoin_worker using (true);

-- The tools that were registered, a row for each version. They stay while no worker serves them.
create table kb.remote_tools (
    id            uuid primary key,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    name          text not null check (name ~ '^[A-Za-z0-9_-]{1,64}$'),
    version       text not null check (version ~ '^[A-Za-z0-9_.-]{1,32}$'),
    queue         text not null,
    description   text not null,
    input_schema  jsonb not null,
    -- Null: any output.
    output_schema jsonb,
    read_only     boolean not null,
    idempotent    boolean not null,
    -- A user confirms each call.
    confirm       boolean not null,
    -- Maximum duration of an attempt, in seconds.
    timeout_s     int not null check (timeout_s between 1 and 86400),
    -- Without a live worker: `wait` (calls wait for one) or `hide` (it is not offered).
    when_absent   text not null check (when_absent in ('wait', 'hide')),
    -- When this version was registered first.
    created_at    timestamptz not null default now(),
    -- When a worker registered it last.
    registered_at timestamptz not null default now(),
    unique (project_id, name, version)
);
grant select, insert, update, delete on kb.remote_tools to rejoin_app;
grant select, delete on kb.remote_tools to rejoin_worker;
alter table kb.remote_tools enable row level security;
create policy app on kb.remote_tools to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.remote_tools to rejoin_worker using (true);

-- Which worker serves which tools.
create table kb.remote_worker_tools (
    worker_id  uuid not null references kb.remote_workers (id) on delete cascade,
    tool_id    uuid not null references kb.remote_tools (id) on delete cascade,
    -- That of both.
    project_id uuid not null,
    primary key (worker_id, tool_id)
);
create index remote_worker_tools_of_tool on kb.remote_worker_tools (tool_id);
grant select, insert, update, delete on kb.remote_worker_tools to rejoin_app;
grant select on kb.remote_worker_tools to rejoin_worker;
alter table kb.remote_worker_tools enable row level security;
create policy app on kb.remote_worker_tools to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.remote_worker_tools to rejoin_worker using (true);

-- The calls. The job of a call has the same attempt; the job is gone when the call has ended.
create table kb.remote_calls (
    -- That of the run's tool call; sent to programs as the idempotency key, too.
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    -- The run that waits for it. Null: called outside of runs (MCP).
    run_id          uuid references kb.agent_runs (id) on delete cascade,
    -- The model's id of the call.
    call_id         text not null,
    conversation_id uuid,
    queue           text not null,
    tool            text not null,
    version         text not null,
    input           jsonb not null,
    output_schema   jsonb,
    -- It may be handed out again after a lost worker.
    repeatable      boolean not null,
    timeout_s       int not null,
    job_id          bigint not null,
    status          text not null default 'waiting'
                    check (status in ('waiting', 'running', 'completed', 'error', 'outcome_unknown', 'cancelled')),
    -- Of the job, when it was handed out last.
    attempt         int not null default 0,
    -- The worker that has or had it.
    worker_id       uuid,
    worker_name     text,
    -- What its program last reported.
    progress        text,
    -- What the next attempt goes on from.
    checkpoint      jsonb,
    output          jsonb,
    error           text,
    created_at      timestamptz not null default now(),
    handed_out_at   timestamptz,
    ended_at        timestamptz
);
create index remote_calls_run on kb.remote_calls (run_id);
-- Those that have not ended, by their job; and those of one worker.
create index remote_calls_job on kb.remote_calls (job_id) where ended_at is null;
create index remote_calls_running on kb.remote_calls (worker_id) where status = 'running';
-- Those outside of runs are removed by their age.
create index remote_calls_outside on kb.remote_calls (ended_at) where run_id is null;
grant select, insert, update on kb.remote_calls to rejoin_app;
grant select, insert, update, delete on kb.remote_calls to rejoin_worker;
alter table kb.remote_calls enable row level security;
create policy app on kb.remote_calls to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.remote_calls to rejoin_worker using (true);

-- The queue of the jobs of one version of a tool.
create function kb.remote_queue(p_project uuid, p_queue text, p_tool text, p_version text) returns text
language sql immutable as $$
    select format('remote/%s/%s/%s/%s', p_project, p_queue, p_tool, p_version)
$$;

-- Adds a call and its job. A repeatable one may lose its worker several times; another one has one attempt.
create function kb.add_remote_call(
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

-- Hands out calls to a worker: of all of its tools, beginning with another one each time. A call is recorded as running here, before the
-- worker gets it.
create function kb.claim_remote_calls(p_worker uuid, p_lease interval, p_limit int) returns setof kb.remote_calls
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

-- Resumes a run that waits for nothing more; any other stays unchanged. Returns whether it was resumed. The caller holds the log's lock.
create function kb.resume_if_met(p_run_id uuid) returns boolean
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

-- Ends a call, its job, and the wait of its run. Null attempt: whatever attempt it has, also one that waits. Returns no row if the attempt
-- does not have the call; else the status that it has now (that of an earlier execution, if it had ended already), and whether the run is
-- resumed. It acts for any run of its project, which the user of a worker's key may not see: so it is the owner's, and checks the project.
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
revoke all on function kb.end_remote_call from public;
grant execute on function kb.end_remote_call to rejoin_app, rejoin_worker;

-- Hands a call out again, after a pause: its attempt says that nothing has happened. Returns whether the attempt had the call.
create function kb.retry_remote_call(p_call uuid, p_attempt int, p_after interval, p_error text) returns boolean
language plpgsql as $$
begin
    update queue.jobs j
    set state = 'available', lease_until = null, worker_id = null, run_at = now() + p_after, max_attempts = j.max_attempts + 1,
        last_error = p_error
    from kb.remote_calls c
    where c.id = p_call and c.status = 'running' and c.attempt = p_attempt
      and j.id = c.job_id and j.attempt = p_attempt and j.state = 'running';
    if not found then
        return false;
    end if;
    update kb.remote_calls c set status = 'waiting' where c.id = p_call and c.status = 'running' and c.attempt = p_attempt;
    return true;
end
$$;

-- Stores what a program reports about a call. With a checkpoint, the call may be handed out again after a lost worker. Returns whether the
-- attempt has the call.
create function kb.progress_remote_call(p_call uuid, p_attempt int, p_message text, p_checkpoint jsonb, p_max_attempts int) returns boolean
language plpgsql as $$
begin
    update queue.jobs j
    set max_attempts = case when p_checkpoint is null then j.max_attempts else greatest(j.max_attempts, j.attempt + p_max_attempts - 1) end
    from kb.remote_calls c
    where c.id = p_call and c.status = 'running' and c.attempt = p_attempt
      and j.id = c.job_id and j.attempt = p_attempt and j.state = 'running';
    if not found then
        return false;
    end if;
    update kb.remote_calls c
    set progress = coalesce(p_message, c.progress), checkpoint = coalesce(p_checkpoint, c.checkpoint),
        repeatable = c.repeatable or p_checkpoint is not null
    where c.id = p_call;
    return true;
end
$$;

-- Renews the leases of the calls that a worker has, and returns the state of each: held, cancelled or lost. An attempt that has taken longer
-- than its tool may is not renewed.
create function kb.renew_remote_calls(p_worker uuid, p_calls uuid[], p_attempts int[], p_lease interval)
returns table (id uuid, state text)
language sql as $$
    with named as (
        select n.id, n.attempt, c.job_id, c.status, c.handed_out_at + make_interval(secs => c.timeout_s) > now() as in_time
        from unnest(p_calls, p_attempts) n(id, attempt)
        left join kb.remote_calls c on c.id = n.id and c.attempt = n.attempt and c.worker_id = p_worker
    ), renewed as (
        update queue.jobs j set lease_until = now() + p_lease
        from named n
        where j.id = n.job_id and j.attempt = n.attempt and j.state = 'running' and n.status = 'running' and n.in_time
        returning n.id
    )
    select n.id,
           case when n.status = 'cancelled' then 'cancelled'
                when exists (select from renewed r where r.id = n.id) then 'held'
                else 'lost' end
    from named n
$$;
