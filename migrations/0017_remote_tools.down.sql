-- Loses the registrations of remote workers and tools, and the calls of those tools.
do $$
declare
    v_runs uuid[];
begin
    select array_agg(distinct run_id) into v_runs from kb.remote_calls where ended_at is null and run_id is not null;
    delete from kb.remote_calls;
    delete from queue.jobs where kind = 'remote_call';
    -- They go on without the results.
    perform kb.resume_if_met(r.id) from unnest(v_runs) r(id);
end
$$;
drop function kb.renew_remote_calls(uuid, uuid[], int[], interval);
drop function kb.progress_remote_call(uuid, int, text, jsonb, int);
drop function kb.retry_remote_call(uuid, int, interval, text);
drop function kb.end_remote_call(uuid, int, text, jsonb, text);
drop function kb.resume_if_met(uuid);
drop function kb.claim_remote_calls(uuid, interval, int);
drop function kb.add_remote_call(uuid, uuid, uuid, text, uuid, text, text, text, jsonb, jsonb, boolean, int, int);
drop function kb.remote_queue(uuid, text, text, text);
drop table kb.remote_calls;
drop table kb.remote_worker_tools;
drop table kb.remote_tools;
drop table kb.remote_workers;
