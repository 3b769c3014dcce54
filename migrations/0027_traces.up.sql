-- Traces continue over the queue, sub-agents and retries (docs/operations/traces.md).

-- The span that started the run, as W3C's `traceparent`: of the request, or of the tool call of its parent. Null: no trace was brought along.
alter table kb.agent_runs add column traceparent text;
-- Not valid, since a check of the existing rows would lock the table for its time: all of them are null.
alter table kb.agent_runs add constraint agent_runs_traceparent check (octet_length(traceparent) = 55) not valid;

-- As before, with the run's traceparent. Processes of the release before call the function without it, which a later release drops.
create function kb.post_message(
    p_conversation_id uuid,
    p_project_id      uuid,
    p_user_id         uuid,
    p_message_id      uuid,
    p_content         text,
    p_metadata        jsonb,
    -- The event `message`.
    p_data            text,
    p_run_id          uuid,
    p_definition_id   uuid,
    -- Null: the definition's.
    p_output_schema   jsonb,
    p_kind            text,
    p_queue           text,
    p_max_attempts    int,
    p_concurrency_key text,
    p_traceparent     text
) returns bigint
language plpgsql as $$
declare
    v_seq bigint := stream.append(p_conversation_id, p_run_id, array['message'], array[p_data]);
begin
    insert into kb.chat_messages (id, conversation_id, role, content, metadata, seq)
    values (p_message_id, p_conversation_id, 'user', p_content, p_metadata, v_seq);
    insert into kb.agent_runs (id, project_id, conversation_id, user_id, agent_definition_id, root_run_id, log_id, message_id, input,
                               first_seq, depth, output_schema, traceparent)
    values (p_run_id, p_project_id, p_conversation_id, p_user_id, p_definition_id, p_run_id, p_conversation_id, p_message_id, p_content,
            v_seq - 1, 0,
            coalesce(p_output_schema, (select nullif(config -> 'outputSchema', 'null') from kb.agent_definitions
                                       where id = p_definition_id and flow_type = 'single')),
            p_traceparent);
    perform queue.enqueue(p_kind => p_kind, p_queue => p_queue, p_project_id => p_project_id, p_max_attempts => p_max_attempts,
                          p_concurrency_key => p_concurrency_key, p_run_id => p_run_id);
    return v_seq;
end
$$;
