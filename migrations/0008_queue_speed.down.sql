-- Back to two unique keys a job, and to claims that begin at the beginning.
drop function queue.finish(bigint[], int[], text, text[], boolean);
drop function queue.claim(text, uuid, interval, int, uuid, uuid[], smallint[], timestamptz[], bigint[]);

drop index queue.finished_jobs_dead;
drop index queue.finished_jobs_at;
create index finished_jobs_at on queue.finished_jobs (finished_at);
create index finished_jobs_dead on queue.finished_jobs (finished_at) where state = 'failed';
alter table queue.finished_jobs add primary key (id);

drop index queue.jobs_run;
create unique index jobs_run on queue.jobs (run_id);
alter table queue.jobs
    drop constraint jobs_priority,
    drop constraint jobs_pkey,
    add primary key (id),
    add constraint jobs_run_id_attempt_key unique (run_id, attempt);

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
