drop function kb.record_of_worker(uuid, jsonb, int);
drop function kb.record_plain_steps(uuid, jsonb, int);
drop function kb.lock_remote_calls(uuid[], uuid[]);

create or replace function kb.renew_remote_calls(p_worker uuid, p_calls uuid[], p_attempts int[], p_lease interval)
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
