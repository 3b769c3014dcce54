-- A turn gives its conversation the context that it begins with. If a user changes the context after the turn has read it, that newer
-- choice stays: the turn then changes nothing of the conversation. Calls with the parameters of before do what they did.

-- Sets a conversation's context, if it still is `p_before` (JSON null: none; null: whatever it is). Returns whether its focus changed.
drop function kb.set_context(uuid, jsonb);
create function kb.set_context(p_conversation_id uuid, p_context jsonb, p_before jsonb default null) returns boolean
language plpgsql as $$
declare
    v_is_changed boolean;
begin
    update kb.chat_conversations c set context = p_context
    from (select id, context from kb.chat_conversations where id = p_conversation_id for update) before
    where c.id = before.id and (p_before is null or p_before = coalesce(before.context, 'null'))
    returning before.context -> 'focus' is distinct from p_context -> 'focus' into v_is_changed;
    return coalesce(v_is_changed, false);
end
$$;

drop function kb.start_run(uuid, int, uuid, uuid, bigint, text, uuid[], text[], jsonb[], text[], text[], int, uuid, jsonb, text, text, jsonb);
create function kb.start_run(
    p_run_id          uuid,
    p_attempt         int,
    p_log_id          uuid,
    p_root_run_id     uuid,
    p_safe_seq        bigint,
    p_state           text,
    -- The initial messages, if the turn begins.
    p_message_ids     uuid[],
    p_roles           text[],
    p_contents        jsonb[],
    p_types           text[],
    p_data            text[],
    -- The place among the events of the one that is published only if the focus changes.
    p_focus_at        int,
    -- The context of the turn, and the conversation that gets it. Null: neither changes.
    p_conversation_id uuid,
    p_context         jsonb,
    p_model           text,
    p_agent_name      text,
    p_part            jsonb,
    -- The conversation's context as the caller read it (JSON null: none). Null: it is not compared.
    p_context_before  jsonb default null
) returns setof kb.agent_runs
language plpgsql as $$
declare
    v_run    kb.agent_runs;
    v_seq    bigint;
    -- For how long no worker has worked on the run, in seconds: its time limits exclude this time.
    v_idle_s double precision;
begin
    if queue.fence(p_run_id, p_attempt) is null then
        return;
    end if;
    perform stream.lock(p_log_id);
    select * into v_run from kb.agent_runs where id = p_run_id for no key update;
    if v_run.attempt = p_attempt and v_run.started_at is not null
        or v_run.safe_seq is distinct from p_safe_seq or v_run.state <> p_state then
        return next v_run;
        return;
    end if;
    if p_safe_seq is null then
        perform kb.append_run_messages(p_run_id, p_message_ids, p_roles, p_contents, 0);
    elsif p_state = 'queued' then
        -- It was suspended, until its job was due.
        select extract(epoch from now() - run_at) into v_idle_s from queue.jobs where run_id = p_run_id and isfinite(run_at);
    else
        -- Its worker was lost after its log's last event.
        select extract(epoch from now() - created_at) into v_idle_s from stream.events where log_id = p_log_id order by seq desc limit 1;
    end if;
    v_idle_s := greatest(coalesce(v_idle_s, 0), 0);
    if p_conversation_id is not null and not kb.set_context(p_conversation_id, p_context, p_context_before) then
        p_types := p_types[:p_focus_at - 1] || p_types[p_focus_at + 1:];
        p_data := p_data[:p_focus_at - 1] || p_data[p_focus_at + 1:];
    end if;
    v_seq := stream.append(p_log_id, p_root_run_id, p_types, p_data);
    return query
    update kb.agent_runs r
    set state = 'running', attempt = p_attempt, safe_seq = v_seq, started_at = coalesce(started_at, now()),
        model = p_model, agent_name = coalesce(agent_name, p_agent_name), context = coalesce(p_context, context),
        part = coalesce(part, p_part), waited_s = waited_s + v_idle_s,
        person_s = person_s + case when parent_run_id is null then v_idle_s else 0 end
    where id = p_run_id
    returning r.*;
end
$$;
