-- How a project's new conversations find their agent, what its people and the project tell all agents, and how they rate answers.

create table kb.routing (
    project_id      uuid primary key references kb.projects (id) on delete cascade,
    -- Of new conversations that name no agent, by a stable hash of their ids.
    percent         smallint not null default 100 check (percent between 0 and 100),
    -- By name, as definitions are; one that is not there counts as none.
    preferred_agent text,
    triage_agent    text not null default 'triage',
    updated_at      timestamptz not null default now(),
    -- The model that chooses which agent a task gets, where rules and words leave several that fit alike; null: none is asked.
    selector_model  text,
    -- The agent of conversations that are not routed, by name; null: none, they stay plain.
    control_agent   text
);
grant select, insert, update, delete on kb.routing to rejoin_app, rejoin_worker;
alter table kb.routing enable row level security;
create policy app on kb.routing to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.routing to rejoin_worker using (true);

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

-- What each agent is told beside its own prompt: by the project, and by a user in it.
create table kb.project_prompts (
    project_id uuid primary key references kb.projects (id) on delete cascade,
    prompt     text not null,
    updated_at timestamptz not null default now()
);
create table kb.user_prompts (
    project_id uuid not null references kb.projects (id) on delete cascade,
    user_id    uuid not null references kb.users (id) on delete cascade,
    prompt     text not null,
    updated_at timestamptz not null default now(),
    primary key (project_id, user_id)
);
grant select, insert, update, delete on kb.project_prompts, kb.user_prompts to rejoin_app, rejoin_worker;
alter table kb.project_prompts enable row level security;
create policy app on kb.project_prompts to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.project_prompts to rejoin_worker using (true);
alter table kb.user_prompts enable row level security;
create policy app on kb.user_prompts to rejoin_app
    using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.user_prompts to rejoin_worker using (true);

-- How the owner of a conversation rates an answer.
create table kb.message_feedback (
    message_id uuid primary key references kb.chat_messages (id) on delete cascade,
    project_id uuid not null references kb.projects (id) on delete cascade,
    user_id    uuid not null references kb.users (id) on delete cascade,
    -- 1: it helped; -1: it did not.
    rating     smallint not null check (rating in (-1, 1)),
    comment    text,
    updated_at timestamptz not null default now()
);
create index message_feedback_of_project on kb.message_feedback (project_id, updated_at);
grant select, insert, update, delete on kb.message_feedback to rejoin_app, rejoin_worker;
alter table kb.message_feedback enable row level security;
create policy app on kb.message_feedback to rejoin_app
    using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.message_feedback to rejoin_worker using (true);

-- Of a project, over so many days: which agent was chosen and why, how often that agent handed over, how many answers helped. Numbers that
-- every member may know.
create function kb.routing_stats(p_project uuid, p_days int)
returns table (agent text, reason text, confidence text, conversations bigint, handed_over bigint, took_us_p50 float8, start_ms_p50 float8,
               helped bigint, did_not_help bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select r.routing ->> 'agent', r.routing ->> 'reason', r.routing ->> 'confidence', count(*),
           count(*) filter (where exists (
               select from kb.agent_run_tool_calls c
               where c.run_id = r.id and c.status = 'completed' and starts_with(c.tool_name, 'transfer_to_'))),
           percentile_cont(0.5) within group (order by (r.routing ->> 'tookUs')::float8),
           percentile_cont(0.5) within group (order by extract(epoch from r.started_at - r.created_at)::float8 * 1000),
           count(f.rating) filter (where f.rating = 1), count(f.rating) filter (where f.rating = -1)
    from kb.agent_runs r left join kb.message_feedback f on f.message_id = r.final_message_id
    where r.project_id = p_project and p_project = kb.current_project() and r.routing is not null
      and r.created_at > now() - p_days * interval '1 day'
    group by 1, 2, 3
$$;
revoke all on function kb.routing_stats from public;
grant execute on function kb.routing_stats to rejoin_app;

-- How the routed conversations of a project and those of the control group went, over so many days. Numbers only: every member may know them.
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
