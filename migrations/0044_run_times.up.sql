-- The times of runs with their 99th percentile, and the time to the first token (docs/guide/web-app.md#operations). It replaces kb.run_pace, which
-- the release before calls.

-- The runs of the caller's project minute by minute, for its administrators: how many begin and end, and how long that takes; over all minutes
-- in the row without a minute. Over all users' runs, which a caller may not see: numbers alone. A run's wait is until it is begun for the first
-- time; what it took, from then to its end, includes its waits on the way (for sub-agents, for people). The first token counts from when the run was
-- created, in the minute in which it was begun; of the newest p_first_tokens runs that no other one has started, because each is looked up in its log.
create function kb.run_times(p_minutes int, p_first_tokens int)
returns table (
    minute            timestamptz,
    started           bigint,
    completed         bigint,
    failed            bigint,
    cancelled         bigint,
    waited_p50_s      double precision,
    waited_p95_s      double precision,
    waited_p99_s      double precision,
    first_token_p50_s double precision,
    first_token_p95_s double precision,
    first_token_p99_s double precision,
    took_p50_s        double precision,
    took_p95_s        double precision,
    took_p99_s        double precision
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with minutes as (
        select m.minute
        from generate_series(date_trunc('minute', now()) - (p_minutes - 1) * interval '1 minute',
                             date_trunc('minute', now()), interval '1 minute') m(minute)
    ), answering as materialized (
        select r.id, r.log_id, r.first_seq, r.done_seq, r.created_at, r.started_at
        from kb.agent_runs r
        where r.project_id = kb.current_project() and r.started_at >= (select min(minute) from minutes) and r.parent_run_id is null
        order by r.started_at desc
        limit p_first_tokens
    ), moments as (
        select r.started_at as at, 'started' as what, extract(epoch from r.started_at - r.created_at)::float8 as waited_s,
               null::float8 as first_token_s, null::float8 as took_s
        from kb.agent_runs r
        where r.project_id = kb.current_project() and r.started_at >= (select min(minute) from minutes)
        union all
        select r.finished_at, r.state, null, null, extract(epoch from r.finished_at - r.started_at)::float8
        from kb.agent_runs r
        where r.project_id = kb.current_project() and r.finished_at >= (select min(minute) from minutes)
          and r.state in ('completed', 'failed', 'cancelled')
        union all
        -- The events of a run and of those that it starts name it.
        select a.started_at, 'first_token', null, extract(epoch from first.created_at - a.created_at)::float8, null
        from answering a
        cross join lateral (
            select e.created_at
            from stream.events e
            where e.log_id = a.log_id and e.seq > a.first_seq and (a.done_seq is null or e.seq <= a.done_seq)
              and e.run_id = a.id and e.type = 'token'
            order by e.seq
            limit 1
        ) first
    )
    select m.minute,
           count(*) filter (where e.what = 'started'),
           count(*) filter (where e.what = 'completed'),
           count(*) filter (where e.what = 'failed'),
           count(*) filter (where e.what = 'cancelled'),
           percentile_cont(0.5) within group (order by e.waited_s),
           percentile_cont(0.95) within group (order by e.waited_s),
           percentile_cont(0.99) within group (order by e.waited_s),
           percentile_cont(0.5) within group (order by e.first_token_s),
           percentile_cont(0.95) within group (order by e.first_token_s),
           percentile_cont(0.99) within group (order by e.first_token_s),
           percentile_cont(0.5) within group (order by e.took_s),
           percentile_cont(0.95) within group (order by e.took_s),
           percentile_cont(0.99) within group (order by e.took_s)
    from minutes m
    left join moments e on date_trunc('minute', e.at) = m.minute
    group by grouping sets ((m.minute), ())
    order by m.minute nulls first
$$;
revoke all on function kb.run_times from public;
grant execute on function kb.run_times to rejoin_app;
