drop function kb.renew_remote_workers;
drop function kb.poll_remote_calls;
-- A claim: records that the worker is there, and hands out calls. Calls: those of kb.claim_remote_calls, with the fields that programs get. No row:
-- it is not registered in this queue. A claim that changes by less than p_slack how long the worker counts as alive does not write it.
create function kb.poll_remote_calls(p_queue text, p_worker uuid, p_alive interval, p_slack interval, p_lease interval, p_limit int)
returns table (queues text[], calls json)
language plpgsql as $$
#variable_conflict use_column
declare
    v_alive_until timestamptz;
    v_queues      text[];
begin
    select w.alive_until, array(select kb.remote_queue(t.project_id, t.queue, t.name, t.version)
                                from kb.remote_worker_tools s join kb.remote_tools t on t.id = s.tool_id where s.worker_id = w.id)
    into v_alive_until, v_queues
    from kb.remote_workers w where w.id = p_worker and w.queue = p_queue;
    if not found then
        return;
    end if;
    if v_alive_until < now() + p_alive - p_slack then
        update kb.remote_workers w set seen_at = now(), alive_until = greatest(alive_until, now() + p_alive) where w.id = p_worker;
    end if;
    return query
    select v_queues,
           (select json_agg(json_build_object(
                        'id', c.id, 'attempt', c.attempt, 'tool', c.tool, 'version', c.version, 'input', c.input, 'idempotencyKey', c.id,
                        'timeoutS', c.timeout_s, 'runId', c.run_id, 'conversationId', c.conversation_id, 'callId', c.call_id,
                        'createdAt', c.created_at, 'checkpoint', c.checkpoint,
                        'steps', (select count(*) from kb.remote_steps s where s.call_id = c.id)))
            from kb.claim_remote_calls(p_worker, p_lease, p_limit) c);
end
$$;

alter table kb.remote_workers reset (fillfactor);
create index remote_workers_alive on kb.remote_workers (alive_until);
alter table kb.remote_workers drop column revision;
