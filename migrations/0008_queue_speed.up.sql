-- The queue at tens of thousands of jobs a second: fewer index entries a job, claims that don't walk over what is finished.
-- Why, with measurements: docs/decisions/0009-queue-speed.md

-- One key serves as identity and as fence: `attempt` is part of a unique key (that is not partial), so that a takeover conflicts with
-- an append that holds KEY SHARE, and a heartbeat does not. The run's own index needs no entry for jobs without a run.
-- (The table holds live jobs only: its lock is short.)
alter table queue.jobs
    drop constraint jobs_pkey,
    drop constraint jobs_run_id_attempt_key,
    add primary key (id, attempt),
    -- The claim walks lanes (project, priority) and begins before the smallest.
    add constraint jobs_priority check (priority > -32768);
drop index queue.jobs_run;
create unique index jobs_run on queue.jobs (run_id) where run_id is not null;

-- Finished jobs are appended and removed by age; only dead ones are ever looked up.
alter table queue.finished_jobs drop constraint finished_jobs_pkey;
drop index queue.finished_jobs_at;
drop index queue.finished_jobs_dead;
create index finished_jobs_at on queue.finished_jobs using brin (finished_at) with (pages_per_range = 32);
create unique index finished_jobs_dead on queue.finished_jobs (id) where state = 'failed';

-- Called with five arguments it does what it did. (queue.settle stays for workers of the release before; queue.finish replaces it.)
drop function queue.claim(text, uuid, interval, int, uuid);

-- Claims up to p_limit due jobs of p_queue for a worker, in turns between projects: each project gets an equal share of the
-- batch, beginning after p_after (the project that was served last), and what is left over goes to whoever has more.
-- Commits nothing: one call is one statement of the caller's transaction.
--
-- The four arrays are the caller's memory of where its last claims stopped, one entry a lane (project, priority), sorted: this claim goes
-- on behind. Index entries of jobs that are gone stay until they are vacuumed (which a long transaction elsewhere prevents), and
-- without floors each claim walks over all of them. A floor hides jobs that became claimable behind it, so that the caller forgets its floors
-- whenever a claim was not full, and after a second at most.
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
language plpgsql as $$
declare
    -- Lanes that one claim takes from: bounds its cost when very many have work.
    c_max_lanes constant int := 64;
    v_wrapped    boolean := false;
    v_project    uuid := p_after;
    v_priority   smallint := 32767;
    v_known      record;
    v_is_known   boolean;
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

    -- The lanes with something due, by skipping through the index: one probe a lane that is not known, none for those that are.
    while cardinality(v_projects) < least(c_max_lanes, p_limit) loop
        select k.project_id, k.priority, k.run_at, k.id into v_known
        from unnest(p_projects, p_priorities, p_run_ats, p_ids) k(project_id, priority, run_at, id)
        where (k.project_id, k.priority) > (v_project, v_priority)
        order by k.project_id, k.priority limit 1;
        v_is_known := found;
        if v_is_known then
            select j.project_id, j.priority, j.run_at into v_lane from queue.jobs j
            where j.queue = p_queue and j.state = 'available' and not j.held
              and (j.project_id, j.priority) > (v_project, v_priority)
              and (j.project_id, j.priority) < (v_known.project_id, v_known.priority)
            order by j.project_id, j.priority, j.run_at limit 1;
            v_is_known := not found;
            if v_is_known then
                v_lane := v_known;
            end if;
        else
            select j.project_id, j.priority, j.run_at into v_lane from queue.jobs j
            where j.queue = p_queue and j.state = 'available' and not j.held
              and (j.project_id, j.priority) > (v_project, v_priority)
            order by j.project_id, j.priority, j.run_at limit 1;
            if not found then
                exit when v_wrapped;
                -- From the beginning: the system's lane (the nil uuid) first, then the smallest project.
                v_wrapped := true;
                v_project := '00000000-0000-0000-0000-000000000000';
                v_priority := -32768;
                continue;
            end if;
        end if;
        -- Once around.
        exit when v_wrapped and v_lane.project_id > p_after;
        v_project := v_lane.project_id;
        v_priority := v_lane.priority;
        -- Nothing of it is due yet.
        continue when not v_is_known and v_lane.run_at > now();
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

-- Ends jobs that the caller still owns (by id and attempt), all with the same state: they leave the hot table, and the next job of their
-- concurrency key is let go. Returns the ids that were settled; the others' leases were lost.
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
) returns setof bigint
language plpgsql as $$
declare
    v_ids  bigint[];
    v_keys text[];
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
        select id, queue, kind, run_id, project_id, payload, priority, p_state, attempt, max_attempts,
               unique_key, concurrency_key, coalesce(p_errors[width_bucket(id, p_ids)], last_error), created_at
        from gone where p_keep or p_state <> 'completed'
    )
    select array_agg(id), array_agg(concurrency_key) filter (where concurrency_key is not null)
    into v_ids, v_keys from gone;

    if v_keys is not null then
        perform queue.release(v_keys);
    end if;
    return query select unnest(v_ids);
end
$$;
