-- The job queue. Vocabulary and statements: docs/reference/queue.md; why it is as it is: docs/decisions/0009-queue-speed.md.
create schema queue;

-- Queues exist once they are paused or have a job; a missing row means: not paused.
create table queue.queues (
    name      text primary key,
    paused_at timestamptz
);

-- Live jobs only: what is finished moves to queue.finished_jobs, so that this table stays small.
create table queue.jobs (
    id              bigint generated always as identity,
    queue           text not null default 'default',
    kind            text not null,
    -- The run that the job makes happen. Null for jobs without one (maintenance, other programs).
    run_id          uuid,
    -- The lane of fairness: claims take turns between projects. The nil uuid is the system's own lane.
    project_id      uuid not null default '00000000-0000-0000-0000-000000000000',
    payload         jsonb not null default '{}',
    -- Within a project: smaller runs first.
    priority        smallint not null default 0,
    -- A run that waits for a person or for other runs keeps its job, due at 'infinity': waking the run is one update.
    run_at          timestamptz not null default now(),
    state           text not null default 'available' check (state in ('available', 'running')),
    -- Waits behind another live job of its concurrency key; not claimable until that one is finished.
    held            boolean not null default false,
    -- Fencing number: each claim adds one. A new job of a known run starts from the run's last attempt.
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
    -- Leases that were lost in a row while nothing was put on record: how long the job waits after the next one goes by their number, not by
    -- its attempts, which also count releases by workers that stopped, and losses of a run that made progress between them.
    losses          smallint not null default 0,
    -- One key serves as identity and as fence: `attempt` is part of a unique key (that is not partial), so that a takeover (attempt + 1)
    -- conflicts with an append that holds KEY SHARE, and a heartbeat does not.
    primary key (id, attempt),
    -- The claim walks lanes (project, priority) and begins before the smallest.
    constraint jobs_priority check (priority > -32768),
    check ((state = 'running') = (lease_until is not null))
) with (fillfactor = 70);

-- A run has one live job. Jobs without a run need no entry.
create unique index jobs_run on queue.jobs (run_id) where run_id is not null;
-- The claim: lanes are (project, priority), each in order of run_at, id.
create index jobs_claim on queue.jobs (queue, project_id, priority, run_at, id) where state = 'available' and not held;
-- The sweep and the heartbeat. Never an index on lease_until: heartbeats could not be HOT updates then.
create index jobs_running on queue.jobs (id) where state = 'running';
create unique index jobs_unique on queue.jobs (unique_key) where unique_key is not null;
-- One head per concurrency key, by construction.
create unique index jobs_head on queue.jobs (concurrency_key) where concurrency_key is not null and not held;
create index jobs_held on queue.jobs (concurrency_key, id) where held;

-- Finished jobs: append-only, removed by their age. `failed` ones are the dead letters that `rejoin queue retry` brings back: only they are
-- ever looked up, so only they have an index by id.
create table queue.finished_jobs (
    id              bigint not null,
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
create index finished_jobs_at on queue.finished_jobs using brin (finished_at) with (pages_per_range = 32);
create unique index finished_jobs_dead on queue.finished_jobs (id) where state = 'failed';

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
    seen_at    timestamptz not null default now(),
    -- A session of the worker holds its advisory lock (shared/queue/src/presence.rs): if the lock is free, the worker is gone.
    session_lock boolean not null default false
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

-- Why the functions below have settings (`set …`): a plan is made once a connection, perhaps while the table is almost empty, and serves
-- as long as the connection lives; so what is in queue.jobs is looked up by index at all times. (Rows come and go quickly: the number of the
-- table's pages says nothing about its rows, and arrays say nothing about theirs.)

-- Claims up to p_limit due jobs of p_queue for a worker, in turns between projects: each project gets an equal share of the
-- batch, beginning after p_after (the project that was served last), and what is left over goes to projects that have more.
-- Commits nothing: one call is one statement of the caller's transaction.
--
-- The four arrays are the caller's memory of where its last claims stopped (claim cursors), one entry a lane (project, priority), sorted:
-- this claim goes on behind them. Index entries of jobs that are gone stay until they are vacuumed (which a long transaction elsewhere
-- prevents), and without cursors each claim walks over all of them. A cursor hides jobs that became claimable behind it: the caller must
-- claim without cursors now and then. A lane that has a cursor and nothing to give takes no place among those that have.
create function queue.claim(
    p_queue      text,
    p_worker_id  uuid,
    p_lease      interval,
    p_limit      int,
    p_after      uuid default '00000000-0000-0000-0000-000000000000',
    p_projects   uuid[] default '{}',
    p_priorities smallint[] default '{}',
    p_run_ats    timestamptz[] default '{}',
    p_ids        bigint[] default '{}'
) returns setof queue.jobs
language plpgsql set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
    -- Lanes that one claim takes from: bounds its cost when very many have work.
    c_max_lanes constant int := 64;
    v_wrapped    boolean := false;
    v_project    uuid := p_after;
    v_priority   smallint := 32767;
    v_known      record;
    v_is_known   boolean;
    v_found      boolean;
    v_upto       smallint;
    v_lane       record;
    v_projects   uuid[] := '{}';
    v_priorities smallint[] := '{}';
    v_run_ats    timestamptz[] := '{}';
    v_ids        bigint[] := '{}';
    v_shares     int := 0;
    v_share      int;
    v_left       int := p_limit;
    v_take       int;
    v_got        tid[];
    v_rows       tid[] := '{}';
begin
    if p_limit <= 0 or exists (select from queue.queues where name = p_queue and paused_at is not null) then
        return;
    end if;

    -- The lanes with something due, by skipping through the index: a few probes a lane, bounded by the next lane that is known, so that
    -- none of them walks over what is gone there. (One comparison of pairs would not stop at its upper end.)
    while cardinality(v_projects) < least(c_max_lanes, p_limit) loop
        select k.project_id, k.priority, k.run_at, k.id into v_known
        from unnest(p_projects, p_priorities, p_run_ats, p_ids) k(project_id, priority, run_at, id)
        where (k.project_id, k.priority) > (v_project, v_priority)
        order by k.project_id, k.priority limit 1;
        v_is_known := found;
        -- Another priority of the same project …
        v_upto := case when v_is_known and v_known.project_id = v_project then v_known.priority - 1 else 32767 end;
        select j.project_id, j.priority, j.run_at into v_lane from queue.jobs j
        where j.queue = p_queue and j.state = 'available' and not j.held
          and j.project_id = v_project and j.priority > v_priority and j.priority <= v_upto
        order by j.priority, j.run_at limit 1;
        v_found := found;
        if not v_found and not v_is_known then
            -- … or the next project …
            select j.project_id, j.priority, j.run_at into v_lane from queue.jobs j
            where j.queue = p_queue and j.state = 'available' and not j.held and j.project_id > v_project
            order by j.project_id, j.priority, j.run_at limit 1;
            v_found := found;
        elsif not v_found and v_known.project_id > v_project then
            -- … before the one that is known, or a smaller priority of that one.
            select j.project_id, j.priority, j.run_at into v_lane from queue.jobs j
            where j.queue = p_queue and j.state = 'available' and not j.held
              and j.project_id > v_project and j.project_id < v_known.project_id
            order by j.project_id, j.priority, j.run_at limit 1;
            v_found := found;
            if not v_found then
                select j.project_id, j.priority, j.run_at into v_lane from queue.jobs j
                where j.queue = p_queue and j.state = 'available' and not j.held
                  and j.project_id = v_known.project_id and j.priority < v_known.priority
                order by j.priority, j.run_at limit 1;
                v_found := found;
            end if;
        end if;
        if v_found then
            v_is_known := false;
        elsif v_is_known then
            -- The first behind its floor.
            select j.project_id, j.priority, j.run_at into v_lane from queue.jobs j
            where j.queue = p_queue and j.state = 'available' and not j.held
              and j.project_id = v_known.project_id and j.priority = v_known.priority
              and (j.run_at, j.id) > (v_known.run_at, v_known.id)
            order by j.run_at, j.id limit 1;
            v_found := found;
            if not v_found then
                v_lane.project_id := v_known.project_id;
                v_lane.priority := v_known.priority;
            end if;
        else
            exit when v_wrapped;
            -- From the beginning: the system's lane (the nil uuid) first, then the smallest project.
            v_wrapped := true;
            v_project := '00000000-0000-0000-0000-000000000000';
            v_priority := -32768;
            continue;
        end if;
        -- Once around.
        exit when v_wrapped and v_lane.project_id > p_after;
        v_project := v_lane.project_id;
        v_priority := v_lane.priority;
        -- It is known and has nothing, or nothing of it is due yet.
        continue when not v_found or v_lane.run_at > now();
        if cardinality(v_projects) = 0 or v_projects[cardinality(v_projects)] <> v_project then
            v_shares := v_shares + 1;
        end if;
        v_projects := v_projects || v_project;
        v_priorities := v_priorities || v_priority;
        v_run_ats := v_run_ats || case when v_is_known then v_known.run_at else '-infinity' end;
        v_ids := v_ids || case when v_is_known then v_known.id else 0 end;
    end loop;
    if v_shares = 0 then
        return;
    end if;

    -- First an equal share for each project, then, if slots are left, whatever is there.
    v_share := greatest(1, p_limit / v_shares);
    for v_round in 1 .. 2 loop
        for i in 1 .. cardinality(v_projects) loop
            exit when v_left <= 0;
            if v_round = 2 then
                v_take := v_left;
            elsif i = 1 or v_projects[i] <> v_projects[i - 1] then
                v_take := least(v_share, v_left);
            end if;
            continue when v_take <= 0;
            select array_agg(x.ctid) into v_got from (
                select j.ctid from queue.jobs j
                where j.queue = p_queue and j.state = 'available' and not j.held
                  and j.project_id = v_projects[i] and j.priority = v_priorities[i]
                  and j.run_at <= now() and (j.run_at, j.id) > (v_run_ats[i], v_ids[i])
                  and (v_round = 1 or j.ctid <> all (v_rows))
                order by j.run_at, j.id
                limit v_take
                for update skip locked
            ) x;
            if v_got is not null then
                v_rows := v_rows || v_got;
                v_take := v_take - cardinality(v_got);
                v_left := v_left - cardinality(v_got);
            end if;
        end loop;
        exit when v_left <= 0 or v_shares = 1;
    end loop;
    if cardinality(v_rows) = 0 then
        return;
    end if;

    -- By their place in the table: they are locked, so that nobody moves them.
    return query
    update queue.jobs j
    set state = 'running',
        attempt = j.attempt + 1,
        worker_id = p_worker_id,
        claimed_at = now(),
        lease_until = now() + p_lease
    where j.ctid = any (v_rows)
    returning j.*;
end
$$;

-- Releases the next job of each key whose head has ended, and returns their ids. Idempotent: the sweep calls it, too. A statement of
-- its own after the head's deletion, so that it sees jobs that were enqueued behind it meanwhile. (In PL/pgSQL: a function in SQL is parsed
-- and planned anew each time, which takes ten times as long as what it does.)
create function queue.release(p_keys text[]) returns setof bigint
language plpgsql set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
    v_heads bigint[];
begin
    select array_agg(head.id) into v_heads
    -- One order for all, against deadlocks.
    from (select distinct k from unnest(p_keys) k order by k) keys
    cross join lateral (
        select h.id from queue.jobs h where h.concurrency_key = k and h.held order by h.id limit 1) head
    where not exists (select from queue.jobs a where a.concurrency_key = k and not a.held);
    if v_heads is not null then
        return query update queue.jobs j set held = false where j.id = any (v_heads) returning j.id;
    end if;
end
$$;

-- Ends jobs that the caller still owns (by id and attempt), all with the same state: they leave the hot table, and the next job of their
-- concurrency key is released. Returns the ids that were settled (the others' leases were lost), and with each how many jobs were released.
-- p_ids must be sorted: attempts and errors are found by binary search, so that the plan can be nothing but one look-up an id
-- (a join with an array is planned without statistics, and walks over all running jobs sooner or later).
create function queue.finish(
    p_ids      bigint[],
    p_attempts int[],
    p_state    text,
    -- Null: none has an error.
    p_errors   text[] default null,
    -- Keep completed jobs in queue.finished_jobs (failed and cancelled ones always are).
    p_keep     boolean default true
) returns table (id bigint, let_go int)
language plpgsql set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
    v_ids    bigint[];
    v_keys   text[];
    v_let_go bigint := 0;
begin
    with gone as (
        delete from queue.jobs j
        where j.id = any (p_ids)
          and j.attempt = p_attempts[width_bucket(j.id, p_ids)]
          -- Is running. Not by its state: the index of running jobs, with its dead entries, is not to be used here.
          and j.lease_until is not null
        returning j.*
    ), kept as (
        insert into queue.finished_jobs (id, queue, kind, run_id, project_id, payload, priority, state, attempt, max_attempts,
                                         unique_key, concurrency_key, last_error, created_at)
        select gone.id, queue, kind, run_id, project_id, payload, priority, p_state, attempt, max_attempts,
               unique_key, concurrency_key, coalesce(p_errors[width_bucket(gone.id, p_ids)], last_error), created_at
        from gone where p_keep or p_state <> 'completed'
    )
    select array_agg(gone.id), array_agg(concurrency_key) filter (where concurrency_key is not null)
    into v_ids, v_keys from gone;

    if v_keys is not null then
        select count(*) into v_let_go from queue.release(v_keys);
    end if;
    return query select unnest(v_ids), v_let_go::int;
end
$$;
