-- A comparison for routing: what becomes of the conversations that the percentage leaves out, and how both groups went.

alter table kb.routing
    -- The agent of conversations that are not routed, by name; null: none, they stay plain.
    add column control_agent text;

-- First runs of conversations that could have been routed and were not: the control group.
create table kb.routing_controls (
    run_id     uuid primary key references kb.agent_runs (id) on delete cascade,
    project_id uuid not null references kb.projects (id) on delete cascade,
    created_at timestamptz not null default now()
);
create index routing_controls_of_project on kb.routing_controls (project_id, created_at);

grant select, insert on kb.routing_controls to rejoin_app;
grant select on kb.routing_controls to rejoin_worker;

alter table kb.routing_controls enable row level security;
create policy app on kb.routing_controls to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.routing_controls to rejoin_worker using (true);

-- How the routed conversations of a project and those of the control group went, over so many days. Numbers only: anybody in the project may know them.
create function kb.routing_arms(p_project uuid, p_days int)
returns table (arm text, conversations bigint, handed_over bigint, failed bigint, start_ms_p50 float8, answer_ms_p50 float8,
               helped bigint, did_not_help bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    -- Each conversation's first run, with its group.
    with members as (
        select r.id, 'routed' as arm
        from kb.agent_runs r
        where r.project_id = p_project and r.routing is not null and r.created_at > now() - p_days * interval '1 day'
        union all
        select c.run_id, 'control'
        from kb.routing_controls c
        where c.project_id = p_project and c.created_at > now() - p_days * interval '1 day'
    )
    select m.arm, count(*),
           count(*) filter (where exists (
               select from kb.agent_run_tool_calls t
               where t.run_id = r.id and t.status = 'completed' and starts_with(t.tool_name, 'transfer_to_'))),
           count(*) filter (where r.state = 'failed'),
           percentile_cont(0.5) within group (order by extract(epoch from r.started_at - r.created_at)::float8 * 1000),
           percentile_cont(0.5) within group (order by extract(epoch from r.finished_at - r.created_at)::float8 * 1000),
           count(f.rating) filter (where f.rating = 1), count(f.rating) filter (where f.rating = -1)
    from members m
    join kb.agent_runs r on r.id = m.id
    left join kb.message_feedback f on f.message_id = r.final_message_id
    where p_project = kb.current_project()
    group by m.arm
$$;
revoke all on function kb.routing_arms from public;
grant execute on function kb.routing_arms to rejoin_app;
