-- What the admins of a project see of its runs as a whole: how many begin and end, and how long that takes.

-- By the moment they begin and end, so that a look at the last hour reads the last hour alone.
create index agent_runs_begun on kb.agent_runs (project_id, started_at) where started_at is not null;
create index agent_runs_ended on kb.agent_runs (project_id, finished_at) where finished_at is not null;

-- The caller's project, minute by minute, and over all of them in the row without a minute. Over all users' runs, which a caller may
-- not see: numbers alone. A run's wait is until it is begun for the first time; what it took, from then to its end, waits on the way
-- (for sub-agents, for people) among it.
create function kb.run_pace(p_minutes int)
returns table (
    minute       timestamptz,
    started      bigint,
    completed    bigint,
    failed       bigint,
    cancelled    bigint,
    waited_p50_s double precision,
    waited_p95_s double precision,
    took_p50_s   double precision,
    took_p95_s   double precision
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with minutes as (
        select m.minute
        from generate_series(date_trunc('minute', now()) - (p_minutes - 1) * interval '1 minute',
                             date_trunc('minute', now()), interval '1 minute') m(minute)
    ), moments as (
        select r.started_at as at, 'started' as what,
               extract(epoch from r.started_at - r.created_at)::float8 as waited_s, null::float8 as took_s
        from kb.agent_runs r
        where r.project_id = kb.current_project() and r.started_at >= (select min(minute) from minutes)
        union all
        select r.finished_at, r.state, null, extract(epoch from r.finished_at - r.started_at)::float8
        from kb.agent_runs r
        where r.project_id = kb.current_project() and r.finished_at >= (select min(minute) from minutes)
          and r.state in ('completed', 'failed', 'cancelled')
    )
    select m.minute,
           count(*) filter (where e.what = 'started'),
           count(*) filter (where e.what = 'completed'),
           count(*) filter (where e.what = 'failed'),
           count(*) filter (where e.what = 'cancelled'),
           percentile_cont(0.5) within group (order by e.waited_s),
           percentile_cont(0.95) within group (order by e.waited_s),
           percentile_cont(0.5) within group (order by e.took_s),
           percentile_cont(0.95) within group (order by e.took_s)
    from minutes m
    left join moments e on date_trunc('minute', e.at) = m.minute
    group by grouping sets ((m.minute), ())
    order by m.minute nulls first
$$;
revoke all on function kb.run_pace from public;
grant execute on function kb.run_pace to rejoin_app;
