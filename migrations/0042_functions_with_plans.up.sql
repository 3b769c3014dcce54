-- Functions that each turn calls, in a language that keeps their plans: one in SQL that is not part of the calling statement's plan is parsed
-- and planned in each statement that calls it. They do what they did.

create or replace function kb.member_role(p_project uuid, p_user uuid) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select m.role from kb.project_members m
            where m.project_id = p_project and m.user_id = p_user
              and (p_project = kb.current_project() or current_setting('role', true) is distinct from 'rejoin_app'));
end
$$;

create or replace function kb.set_context(p_conversation_id uuid, p_context jsonb) returns boolean
language plpgsql as $$
declare
    v_is_changed boolean;
begin
    update kb.chat_conversations c set context = p_context
    from (select id, context from kb.chat_conversations where id = p_conversation_id for update) before
    where c.id = before.id
    returning before.context -> 'focus' is distinct from p_context -> 'focus' into v_is_changed;
    return v_is_changed;
end
$$;
