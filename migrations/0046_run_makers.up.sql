-- A run outside a conversation acts as whoever made it, with their calendars and consoles: it is theirs alone. One that nobody made (a
-- product's job) has no private tools, and stays the project's.
drop policy app on kb.agent_runs;
create policy app on kb.agent_runs to rejoin_app
    using (project_id = kb.current_project()
           and (conversation_id is null and coalesce(user_id = kb.current_owner(), user_id is null)
                or exists (select from kb.chat_conversations c where c.id = conversation_id)));
comment on column kb.agent_runs.user_id is
    'Who made it, and as whom it acts. Outside a conversation nobody else sees more of it than kb.listed_runs. Null: nobody, as a product''s job';

-- Likewise the plans of such runs.
drop policy app on kb.agent_plans;
create policy app on kb.agent_plans to rejoin_app
    using (project_id = kb.current_project()
           and (conversation_id is null and coalesce(user_id = kb.current_owner(), user_id is null)
                or exists (select from kb.chat_conversations c where c.id = conversation_id and c.owner_user_id = kb.current_owner())));

-- What every member may know of the project's runs: which agent, whose, in which tree, how it stands, and when. With the rights of the
-- tables' owner, so that the policy above does not hide the rows; the conditions here are its own.
create view kb.listed_runs with (security_barrier) as
select r.id, r.project_id, r.conversation_id, r.user_id, r.agent_definition_id, r.agent_name, r.parent_run_id, r.root_run_id, r.depth,
       r.state, r.created_at, r.started_at, r.finished_at
from kb.agent_runs r
where r.project_id = kb.current_project()
  and (r.conversation_id is null
       or exists (select from kb.chat_conversations c where c.id = r.conversation_id and c.owner_user_id = kb.current_owner()));
grant select on kb.listed_runs to rejoin_app;

-- What a user is in a project, for those who start work in the user's name. Null: no member. That alone: neither the API nor workers
-- look at members. The API, which serves one project at a time, is told of that one only.
create function kb.member_role(p_project uuid, p_user uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select m.role from kb.project_members m
    where m.project_id = p_project and m.user_id = p_user
      and (p_project = kb.current_project() or current_setting('role', true) is distinct from 'rejoin_app')
$$;
revoke all on function kb.member_role from public;
grant execute on function kb.member_role to rejoin_app, rejoin_worker;
