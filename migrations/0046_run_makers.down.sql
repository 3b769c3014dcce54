drop function kb.member_role;
drop view kb.listed_runs;

drop policy app on kb.agent_plans;
create policy app on kb.agent_plans to rejoin_app
    using (project_id = kb.current_project()
           and (conversation_id is null
                or exists (select from kb.chat_conversations c where c.id = conversation_id and c.owner_user_id = kb.current_owner())));

drop policy app on kb.agent_runs;
create policy app on kb.agent_runs to rejoin_app
    using (project_id = kb.current_project()
           and (conversation_id is null or exists (select from kb.chat_conversations c where c.id = conversation_id)));
comment on column kb.agent_runs.user_id is null;
