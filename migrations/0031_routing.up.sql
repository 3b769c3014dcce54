-- How a project's new conversations find their agent, what its people and the project tell all agents, and what they say of answers.

create table kb.routing (
    project_id      uuid primary key references kb.projects (id) on delete cascade,
    -- Of new conversations that name no agent, by a stable hash of their ids.
    percent         smallint not null default 100 check (percent between 0 and 100),
    -- By name, as definitions are; one that is not there counts as none.
    preferred_agent text,
    triage_agent    text not null default 'triage',
    updated_at      timestamptz not null default now()
);

-- The choice that a run's conversation began with: agent, confidence, score, reason, because, tookUs.
alter table kb.agent_runs add column routing jsonb;
create index agent_runs_routed on kb.agent_runs (project_id, created_at) where routing is not null;

-- What is told to each agent beside its own prompt.
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

-- What the owner of a conversation says of an answer.
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

grant select, insert, update, delete on kb.routing, kb.project_prompts, kb.user_prompts, kb.message_feedback to rejoin_app, rejoin_worker;

alter table kb.routing enable row level security;
create policy app on kb.routing to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.routing to rejoin_worker using (true);

alter table kb.project_prompts enable row level security;
create policy app on kb.project_prompts to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.project_prompts to rejoin_worker using (true);

alter table kb.user_prompts enable row level security;
create policy app on kb.user_prompts to rejoin_app
    using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.user_prompts to rejoin_worker using (true);

alter table kb.message_feedback enable row level security;
create policy app on kb.message_feedback to rejoin_app
    using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.message_feedback to rejoin_worker using (true);

-- Of a project, over so many days, as anybody in it may know it: who was chosen why, how often that agent handed over, how many answers helped.
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
