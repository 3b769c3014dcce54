-- The job queue. Vocabulary and statements: docs/QUEUE.md.
create schema queue;

-- Queues exist once they are paused or have a job; a missing row means: not paused.
create table queue.queues (
    name      text primary key,
    paused_at timestamptz
);

-- Live jobs only: what is finished moves to queue.finished_jobs, so that this table stays small.
create table queue.jobs (
    id              bigint generated always as identity primary key,
    queue           text not null default 'default',
    kind            text not null,
    -- The run that the job makes happen. Null for jobs without one (maintenance, other programs).
    run_id          uuid,
    -- The lane of fairness: claims take turns between projects. The nil uuid is the system's own lane.
    project_id      uuid not null default '00000000-0000-0000-0000-000000000000',
    payload         jsonb not null default '{}',
    -- Within a project: smaller runs first.
    priority        smallint not null default 0,
    run_at          timestamptz not null default now(),
    state           text not null default 'available' check (state in ('available', 'running')),
    -- Waits behind another live job of its concurrency key; not claimable until that one is finished.
    held            boolean not null default false,
    -- Fencing number: bumped by every claim. A new job of a known run starts from the run's last attempt.
    attempt         int not null default 0,
    max_attempts    int not null default 5,
    lease_until     timestamptz,
    worker_id       uuid,
    -- At most one live job with this key: a second enqueue returns the first.
    unique_key      text,
    -- Live jobs with this key run one at a time, in the order of their enqueueing.
    concurrency_key text,
    last_error      text,
    created_at      timestamptz not null default now(),
    claimed_at      timestamptz,
    -- A takeover (attempt + 1) changes a key column and so conflicts with an append that holds KEY SHARE; a heartbeat does not.
    unique (run_id, attempt),
    check ((state = 'running') = (lease_until is not null))
) with (fillfactor = 70);

-- A run has one live job.
create unique index jobs_run on queue.jobs (run_id);
-- The claim: lanes are (project, priority), each in order of run_at, id.
create index jobs_claim on queue.jobs (queue, project_id, priority, run_at, id) where state = 'available' and not held;
-- The sweep and the heartbeat. Never an index on lease_until: heartbeats could not be HOT updates then.
create index jobs_running on queue.jobs (id) where state = 'running';
create unique index jobs_unique on queue.jobs (unique_key) where unique_key is not null;
-- One head per concurrency key, by construction.
create unique index jobs_head on queue.jobs (concurrency_key) where concurrency_key is not null and not held;
create index jobs_held on queue.jobs (concurrency_key, id) where held;

-- Finished jobs: append-only, removed by retention. `failed` ones are the dead jobs that `rejoin queue retry` brings back.
create table queue.finished_jobs (
    id              bigint primary key,
    queue           text not null,
    kind            text not null,
    run_id          uuid,
    project_id      uuid not null,
    payload         jsonb not null,
    priority        smallint not null,
    state           text not null check (state in ('completed', 'failed', 'cancelled')),
    attempt         int not null,
    max_attempts    int not null,
    unique_key      text,
    concurrency_key text,
    last_error      text,
    created_at      timestamptz not null,
    finished_at     timestamptz not null default now()
);
create index finished_jobs_at on queue.finished_jobs (finished_at);
create index finished_jobs_dead on queue.finished_jobs (finished_at) where state = 'failed';

-- The fleet: one row per live worker process, refreshed by its heartbeat.
create table queue.workers (
    id         uuid primary key,
    hostname   text not null,
    pid        int not null,
    version    text not null,
    queues     text[] not null,
    slots      int not null,
    draining   boolean not null default false,
    started_at timestamptz not null default now(),
    seen_at    timestamptz not null default now()
);

-- Enqueues a job within the caller's transaction and returns its id. Other programs may call it from any open transaction;
-- workers find the job within a second, or at once after a wake-up: notify rejoin, '{"j":["<queue>"]}'.
-- A live job with the same unique_key: nothing is added and that job's id is returned.
create function queue.enqueue(
    p_kind            text,
    p_payload         jsonb default '{}',
    p_queue           text default 'default',
    p_project_id      uuid default '00000000-0000-0000-0000-000000000000',
    p_priority        int default 0,
    p_run_at          timestamptz default now(),
    p_max_attempts    int default 5,
    p_unique_key      text default null,
    p_concurrency_key text default null,
    p_run_id          uuid default null,
    -- The last attempt that this run has seen, so that its fencing number never goes back.
    p_attempt         int default 0
) returns bigint
language plpgsql as $$
declare
    v_id   bigint;
    v_head bigint;
begin
    if p_unique_key is null and p_concurrency_key is null then
        insert into queue.jobs (queue, kind, run_id, project_id, payload, priority, run_at, attempt, max_attempts)
        values (p_queue, p_kind, p_run_id, p_project_id, p_payload, p_priority, p_run_at, p_attempt, p_attempt + p_max_attempts)
        returning id into v_id;
        return v_id;
    end if;
    loop
        -- As head of its key, if there is none.
        insert into queue.jobs (queue, kind, run_id, project_id, payload, priority, run_at, attempt, max_attempts,
                                unique_key, concurrency_key)
        values (p_queue, p_kind, p_run_id, p_project_id, p_payload, p_priority, p_run_at, p_attempt, p_attempt + p_max_attempts,
                p_unique_key, p_concurrency_key)
        on conflict do nothing
        returning id into v_id;
        if found then
            return v_id;
        end if;
        if p_unique_key is not null then
            select id into v_id from queue.jobs where unique_key = p_unique_key;
            if found then
                return v_id;
            end if;
        end if;
        if p_run_id is not null and exists (select from queue.jobs where run_id = p_run_id) then
            raise unique_violation using message = format('run %s has a live job already', p_run_id);
        end if;
        if p_concurrency_key is not null then
            -- Behind the head. KEY SHARE keeps the head from being settled until we commit, so that whoever settles it
            -- sees this job and lets it go; a head that is gone by now means: try again.
            select id into v_head from queue.jobs
            where concurrency_key = p_concurrency_key and not held
            for key share;
            if found then
                insert into queue.jobs (queue, kind, run_id, project_id, payload, priority, run_at, attempt, max_attempts,
                                        unique_key, concurrency_key, held)
                values (p_queue, p_kind, p_run_id, p_project_id, p_payload, p_priority, p_run_at, p_attempt,
                        p_attempt + p_max_attempts, p_unique_key, p_concurrency_key, true)
                on conflict do nothing
                returning id into v_id;
                if found then
                    return v_id;
                end if;
            end if;
        end if;
    end loop;
end
$$;

-- Claims up to p_limit due jobs of p_queue for a worker, in turns between projects: each project gets an equal share of the
-- batch, beginning after p_after (the project that was served last), and what is left over goes to whoever has more.
-- Commits nothing: one call is one statement of the caller's transaction.
create function queue.claim(
    p_queue     text,
    p_worker_id uuid,
    p_lease     interval,
    p_limit     int,
    p_after     uuid default '00000000-0000-0000-0000-000000000000'
) returns setof queue.jobs
language plpgsql as $$
declare
    -- Projects looked at in one claim: bounds its cost when very many have work.
    c_max_lanes constant int := 64;
    v_lanes     uuid[] := '{}';
    v_lane      uuid := p_after;
    v_next      uuid;
    v_wrapped   boolean := false;
    v_share     int;
    v_ids       bigint[] := '{}';
    v_left      int := p_limit;
    v_priority  smallint;
    v_take      int;
    v_got       bigint[];
    v_project   uuid;
begin
    if p_limit <= 0 or exists (select from queue.queues where name = p_queue and paused_at is not null) then
        return;
    end if;

    -- The lanes with anything waiting, by skipping through the index: one probe a lane.
    while cardinality(v_lanes) < least(c_max_lanes, p_limit) loop
        select j.project_id into v_next from queue.jobs j
        where j.queue = p_queue and j.state = 'available' and not j.held and j.project_id > v_lane
        order by j.project_id limit 1;
        if not found then
            exit when v_wrapped;
            v_wrapped := true;
            -- From the beginning: the system's lane (the nil uuid) first, then the smallest project.
            select j.project_id into v_next from queue.jobs j
            where j.queue = p_queue and j.state = 'available' and not j.held
            order by j.project_id limit 1;
            exit when not found;
        end if;
        exit when v_next = any (v_lanes);
        v_lanes := v_lanes || v_next;
        v_lane := v_next;
    end loop;
    if cardinality(v_lanes) = 0 then
        return;
    end if;

    -- First an equal share each, then, if slots are left, whatever is there.
    v_share := greatest(1, p_limit / cardinality(v_lanes));
    for v_round in 1 .. 2 loop
        foreach v_project in array v_lanes loop
            exit when v_left <= 0;
            v_take := case v_round when 1 then least(v_share, v_left) else v_left end;
            v_priority := null;
            -- By priority; within one, what is due is one range of the index.
            loop
                select j.priority into v_priority from queue.jobs j
                where j.queue = p_queue and j.state = 'available' and not j.held and j.project_id = v_project
                  and (v_priority is null or j.priority > v_priority)
                order by j.priority limit 1;
                exit when not found;
                select array_agg(x.id) into v_got from (
                    select j.id from queue.jobs j
                    where j.queue = p_queue and j.state = 'available' and not j.held and j.project_id = v_project
                      and j.priority = v_priority and j.run_at <= now()
                      and (v_round = 1 or j.id <> all (v_ids))
                    order by j.run_at, j.id
                    limit v_take
                    for update skip locked
                ) x;
                if v_got is not null then
                    v_ids := v_ids || v_got;
                    v_take := v_take - cardinality(v_got);
                    v_left := v_left - cardinality(v_got);
                end if;
                exit when v_take <= 0;
            end loop;
        end loop;
        exit when v_left <= 0 or cardinality(v_lanes) = 1;
    end loop;
    if cardinality(v_ids) = 0 then
        return;
    end if;

    return query
    update queue.jobs j
    set state = 'running',
        attempt = j.attempt + 1,
        worker_id = p_worker_id,
        claimed_at = now(),
        lease_until = now() + p_lease
    where j.id = any (v_ids)
    returning j.*;
end
$$;

-- Ends jobs that the caller still owns (by id and attempt): they leave the hot table, and the next job of their concurrency
-- key is let go. Returns the ids that were settled; the others' leases were lost.
create function queue.settle(
    p_ids      bigint[],
    p_attempts int[],
    p_states   text[],
    p_errors   text[],
    -- Keep completed jobs in queue.finished_jobs (failed and cancelled ones always are).
    p_keep     boolean default true
) returns setof bigint
language plpgsql as $$
declare
    v_ids  bigint[];
    v_keys text[];
begin
    -- In order of id, so that two batches don't lock each other out.
    perform from queue.jobs j join unnest(p_ids, p_attempts) t(id, attempt) on j.id = t.id and j.attempt = t.attempt
    where j.state = 'running'
    order by j.id for update of j;

    with gone as (
        delete from queue.jobs j
        using unnest(p_ids, p_attempts, p_states, p_errors) t(id, attempt, state, error)
        where j.id = t.id and j.attempt = t.attempt and j.state = 'running'
        returning j.*, t.state as end_state, t.error as end_error
    ), kept as (
        insert into queue.finished_jobs (id, queue, kind, run_id, project_id, payload, priority, state, attempt, max_attempts,
                                         unique_key, concurrency_key, last_error, created_at)
        select id, queue, kind, run_id, project_id, payload, priority, end_state, attempt, max_attempts,
               unique_key, concurrency_key, coalesce(end_error, last_error), created_at
        from gone where p_keep or end_state <> 'completed'
    )
    select array_agg(id), array_agg(concurrency_key) filter (where concurrency_key is not null)
    into v_ids, v_keys from gone;

    if v_keys is not null then
        perform queue.release(v_keys);
    end if;
    return query select unnest(v_ids);
end
$$;

-- Lets the first held job of each key go, where the key has no head. A statement of its own after the head's deletion, so
-- that it sees jobs which were enqueued behind it meanwhile. Idempotent: the sweep calls it too.
create function queue.release(p_keys text[]) returns setof bigint
language sql as $$
    update queue.jobs j set held = false
    where j.id in (
        select (select h.id from queue.jobs h where h.concurrency_key = k and h.held order by h.id limit 1)
        from (select distinct k from unnest(p_keys) k order by k) keys
        where not exists (select from queue.jobs a where a.concurrency_key = k and not a.held))
    returning j.id
$$;
