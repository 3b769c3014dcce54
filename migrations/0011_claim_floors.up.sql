-- Claims whose caller remembers floors for longer: a lane that is known but has nothing to give takes no place among those that have.

-- Claims up to p_limit due jobs of p_queue for a worker, in turns between projects: each project gets an equal share of the
-- batch, beginning after p_after (the project that was served last), and what is left over goes to whoever has more.
-- Commits nothing: one call is one statement of the caller's transaction.
--
-- The four arrays are the caller's memory of where its last claims stopped, one entry a lane (project, priority), sorted: this claim goes
-- on behind. Index entries of jobs that are gone stay until they are vacuumed (which a long transaction elsewhere prevents), and
-- without floors each claim walks over all of them. A floor hides jobs that became claimable behind it: the caller must claim without
-- floors now and then (shared/queue/src/turn.rs).
create or replace function queue.claim(
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
language plpgsql as $$
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

drop function queue.finish(bigint[], int[], text, text[], boolean);

-- Ends jobs that the caller still owns (by id and attempt), all with the same state: they leave the hot table, and the next job of their
-- concurrency key is let go. Returns the ids that were settled (the others' leases were lost), and with
-- each how many jobs were let go.
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
language plpgsql as $$
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

-- Lets the next job of each key go whose head has ended, and returns their ids. (In PL/pgSQL: a function in SQL is parsed and planned anew
-- each time, which takes ten times as long as what it does.)
create or replace function queue.release(p_keys text[]) returns setof bigint
language plpgsql as $$
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

-- Whoever calls them: a plan is made once a connection, perhaps while the table is almost empty, and serves as long as it lives. What
-- is in queue.jobs is looked up by index at all times. (It is churned: its pages say nothing about its rows, and arrays nothing about theirs.)
alter function queue.claim(text, uuid, interval, int, uuid, uuid[], smallint[], timestamptz[], bigint[])
    set enable_seqscan = off set plan_cache_mode = force_generic_plan;
alter function queue.finish(bigint[], int[], text, text[], boolean)
    set enable_seqscan = off set plan_cache_mode = force_generic_plan;
alter function queue.release(text[])
    set enable_seqscan = off set plan_cache_mode = force_generic_plan;
