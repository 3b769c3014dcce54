-- The end of a run records its last step, too (docs/decisions/0085-last-step-with-the-end.md). Calls with the parameters of before do what they did.

drop function kb.end_run(uuid, int, text, bigint, uuid, text, text, text, jsonb);
create function kb.end_run(
    p_run_id     uuid,
    p_attempt    int,
    p_state      text,
    p_seq        bigint,
    p_message_id uuid,
    p_summary    text,
    p_error      text,
    p_error_code text,
    p_usage      jsonb,
    -- The step that ends it, if it is not recorded yet: its number, tokens and cost.
    p_step       int default null,
    p_tokens     bigint default 0,
    p_cost_usd   double precision default 0
) returns void
language plpgsql as $$
begin
    update kb.agent_runs
    set state = p_state, attempt = p_attempt, finished_at = now(), done_seq = p_seq, safe_seq = p_seq,
        final_message_id = p_message_id, summary = p_summary, error = p_error, error_code = p_error_code, usage = p_usage,
        waiting_since = null, step_count = coalesce(p_step, step_count), total_steps = greatest(total_steps, p_step),
        tree_tokens = tree_tokens + case when id = root_run_id then p_tokens else 0 end,
        tree_cost_usd = tree_cost_usd + case when id = root_run_id then p_cost_usd else 0 end
    where id = p_run_id;
end
$$;

drop function kb.finish_run(uuid, int, uuid, uuid, bigint, text, text, uuid, jsonb, uuid, text, jsonb, jsonb, int, text[], text[], text, text, text, text,
                            text, jsonb);
create function kb.finish_run(
    p_run_id          uuid,
    p_attempt         int,
    p_log_id          uuid,
    p_root_run_id     uuid,
    p_seen            bigint,
    p_state           text,
    p_job_state       text,
    -- The conversation of a top-level run, whose context is p_context as the caller knows it.
    p_conversation_id uuid,
    p_context         jsonb,
    -- The assistant's message. Null: none.
    p_message_id      uuid,
    p_text            text,
    p_citations       jsonb,
    p_metadata        jsonb,
    -- The number of events after the message's.
    p_behind          int,
    p_types           text[],
    p_data            text[],
    -- The context of the turn for the next one, as JSON.
    p_last_turn       text,
    -- What stands for the time of the end in p_data and p_last_turn.
    p_time_mark       text,
    p_summary         text,
    p_error           text,
    p_error_code      text,
    p_usage           jsonb,
    -- The run's last step, one without calls, if it is not recorded yet: what kb.record_step has of it.
    p_grant           int default null,
    p_step            int default null,
    p_message_ids     uuid[] default null,
    p_roles           text[] default null,
    p_contents        jsonb[] default null,
    p_step_types      text[] default null,
    p_step_data       text[] default null,
    p_tokens          bigint default 0,
    p_cost_usd        double precision default 0,
    p_taken           bigint[] default '{}'
) returns table (
    -- ended; repeated: ended by an earlier execution of this statement; pending: a steering message has arrived; outdated: the run's context is
    -- another one. Only `ended` has written.
    outcome text,
    seq     bigint,
    -- Whether the next job of the conversation was released.
    let_go  boolean,
    context jsonb
)
language plpgsql as $$
#variable_conflict use_column
declare
    v_job_id  bigint := queue.fence(p_run_id, p_attempt, p_grant);
    v_context jsonb;
    v_seq     bigint;
    v_let_go  boolean;
    v_now     text := to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
begin
    if v_job_id is null then
        return query
        select 'repeated', r.done_seq, true, null::jsonb from kb.agent_runs r
        where r.id = p_run_id and r.attempt = p_attempt and r.finished_at is not null and r.state = p_state
          and r.final_message_id is not distinct from p_message_id and r.done_seq >= p_seen;
        return;
    end if;
    if stream.lock(p_log_id) < p_seen then
        return;
    end if;
    if p_conversation_id is not null then
        select r.context into v_context from kb.agent_runs r where r.id = p_run_id;
        if v_context is distinct from p_context then
            return query select 'outdated', null::bigint, false, v_context;
            return;
        end if;
    end if;
    -- Steering takes the log's lock, too.
    if p_state = 'completed' and exists (select from kb.run_inbox where run_id = p_run_id and id <> all (p_taken)) then
        if p_step is not null then
            perform kb.record_step(p_run_id, p_attempt, p_grant, p_log_id, p_root_run_id, p_seen, p_step, p_message_ids, p_roles, p_contents,
                                   '{}', '{}', '{}', '{}', p_step_types, p_step_data, p_usage, p_tokens, p_cost_usd, p_taken);
        end if;
        return query select 'pending', null::bigint, false, null::jsonb;
        return;
    end if;
    -- Before anything is written: a lease that has ended since ends this command without effect.
    select f.let_go > 0 into v_let_go from queue.finish(array[v_job_id], array[p_attempt], p_job_state, array[p_error]) f;
    if not found then
        return;
    end if;
    p_data := array(select replace(d, p_time_mark, v_now) from unnest(p_data) with ordinality e(d, i) order by i);
    -- An earlier execution of this statement has recorded the step, if it found a steering message that is gone now.
    if p_step is not null and exists (select from kb.agent_run_messages where id = p_message_ids[cardinality(p_message_ids)]) then
        p_step := null;
        p_tokens := 0;
        p_cost_usd := 0;
    end if;
    if p_step is not null then
        perform kb.append_run_messages(p_run_id, p_message_ids, p_roles, p_contents, p_step);
        if cardinality(p_taken) > 0 then
            delete from kb.run_inbox where id = any (p_taken);
        end if;
        p_types := p_step_types || p_types;
        p_data := p_step_data || p_data;
        if p_root_run_id <> p_run_id then
            update kb.agent_runs set tree_tokens = tree_tokens + p_tokens, tree_cost_usd = tree_cost_usd + p_cost_usd
            where id = p_root_run_id;
        end if;
    end if;
    v_seq := stream.append(p_log_id, p_root_run_id, p_types, p_data);
    if p_message_id is not null then
        insert into kb.chat_messages (id, conversation_id, role, content, citations, retrieval_context, metadata, seq)
        values (p_message_id, p_conversation_id, 'assistant', p_text, p_citations, jsonb_build_object('agent_run_id', p_run_id), p_metadata,
                v_seq - p_behind);
    end if;
    if p_message_id is not null or p_last_turn is not null then
        update kb.chat_conversations
        set updated_at = case when p_message_id is null then updated_at else now() end,
            last_turn = coalesce(replace(p_last_turn, p_time_mark, v_now)::jsonb, last_turn)
        where id = p_conversation_id;
    end if;
    -- The row's only change here: of a row that its transaction has changed already, all foreign keys are checked again.
    perform kb.end_run(p_run_id, p_attempt, p_state, v_seq, p_message_id, p_summary, p_error, p_error_code, p_usage, p_step, p_tokens,
                       p_cost_usd);
    return query select 'ended', v_seq, v_let_go, null::jsonb;
end
$$;
