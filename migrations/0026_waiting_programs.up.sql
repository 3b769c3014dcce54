-- Programs whose claims wait are renewed together, by one statement of the API process at which they wait (docs/decisions/0061-waiting-programs.md).

-- The number of the registration: a worker that registers again gets the next one. What knows an older one must read the worker's tools again.
alter table kb.remote_workers add column revision int not null default 1;
-- A renewal changes no indexed column, so that it needs no room but in the row's own page. The sweep reads the table: it is small.
drop index kb.remote_workers_alive;
alter table kb.remote_workers set (fillfactor = 50);

-- A claim: records that the worker is there, and hands out calls. Calls: those of kb.claim_remote_calls, with the fields that programs get. No row:
-- it is not registered in this queue. A claim that changes by less than p_slack how long the worker counts as alive does not write it.
drop function kb.poll_remote_calls;
create function kb.poll_remote_calls(p_queue text, p_worker uuid, p_alive interval, p_slack interval, p_lease interval, p_limit int)
returns table (revision int, queues text[], calls json)
language plpgsql as $$
#variable_conflict use_column
declare
    v_revision    int;
    v_alive_until timestamptz;
    v_queues      text[];
begin
    select w.revision, w.alive_until,
           array(select kb.remote_queue(t.project_id, t.queue, t.name, t.version)
                 from kb.remote_worker_tools s join kb.remote_tools t on t.id = s.tool_id where s.worker_id = w.id)
    into v_revision, v_alive_until, v_queues
    from kb.remote_workers w where w.id = p_worker and w.queue = p_queue;
    if not found then
        return;
    end if;
    if v_alive_until < now() + p_alive - p_slack then
        update kb.remote_workers w set seen_at = now(), alive_until = greatest(alive_until, now() + p_alive) where w.id = p_worker;
    end if;
    return query
    select v_revision, v_queues,
           (select json_agg(json_build_object(
                        'id', c.id, 'attempt', c.attempt, 'tool', c.tool, 'version', c.version, 'input', c.input, 'idempotencyKey', c.id,
                        'timeoutS', c.timeout_s, 'runId', c.run_id, 'conversationId', c.conversation_id, 'callId', c.call_id,
                        'createdAt', c.created_at, 'checkpoint', c.checkpoint,
                        'steps', (select count(*) from kb.remote_steps s where s.call_id = c.id)))
            from kb.claim_remote_calls(p_worker, p_lease, p_limit) c);
end
$$;

-- Renews workers whose claims wait at a process of the API, of any project, for p_alive. Those of p_gone have closed their connection p_gone_s seconds ago:
-- unless something was heard of them since, they count as alive no more. Returns the registrations of p_here that exist. Rows that another
-- transaction is changing are left out: that one has heard of the worker, too.
create function kb.renew_remote_workers(p_here uuid[], p_alive interval, p_gone uuid[], p_gone_s double precision[])
returns table (id uuid, revision int)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    update kb.remote_workers w set alive_until = now()
    where w.id in (select o.id from kb.remote_workers o join unnest(p_gone, p_gone_s) g(id, s) on g.id = o.id
                   where o.alive_until > now() and o.seen_at < now() - make_interval(secs => g.s)
                   for no key update of o skip locked);
    update kb.remote_workers w set seen_at = now(), alive_until = greatest(w.alive_until, now() + p_alive)
    where w.id in (select o.id from kb.remote_workers o where o.id = any(p_here) for no key update skip locked);
    return query select w.id, w.revision from kb.remote_workers w where w.id = any(p_here);
end
$$;
revoke all on function kb.renew_remote_workers from public;
grant execute on function kb.renew_remote_workers to rejoin_app;
