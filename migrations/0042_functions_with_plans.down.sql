create or replace function kb.member_role(p_project uuid, p_user uuid) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select m.role from kb.project_members m
    where m.project_id = p_project and m.user_id = p_user
      and (p_project = kb.current_project() or current_setting('role', true) is distinct from 'rejoin_app')
$$;

create or replace function kb.set_context(p_conversation_id uuid, p_context jsonb) returns boolean
language sql as $$
    update kb.chat_conversations c set context = p_context
    from (select id, context from kb.chat_conversations where id = p_conversation_id for update) before
    where c.id = before.id
    returning before.context -> 'focus' is distinct from p_context -> 'focus'
$$;
