-- Push notifications of A2A (docs/reference/a2a.md): a client's config for a task is an endpoint that belongs to the task's run. Its deliveries
-- are added by a trigger, and sent, repeated and removed as those of webhooks are.

alter table kb.webhook_endpoints
    -- The top-level run whose states are sent, as a task. Null: a webhook, which belongs to the project.
    add column run_id uuid references kb.agent_runs (id) on delete cascade,
    -- The client's id of the config, unique for the run.
    add column config_id text,
    -- The HTTP authentication scheme of the config. Its credentials and its token are sealed in kb.webhook_secrets. Null: it has no credentials.
    add column auth_scheme text,
    add constraint webhook_endpoints_config check ((run_id is null) = (config_id is null) and (auth_scheme is null or run_id is not null));
-- The configs of a run, in the order of pages; also for the removal of a run.
create unique index webhook_endpoints_of_run on kb.webhook_endpoints (run_id, config_id) where run_id is not null;
-- Webhooks alone: a project can have very many configs.
create index webhook_endpoints_of_project on kb.webhook_endpoints (project_id, id) where run_id is null;
-- By their age, for their removal.
create index webhook_endpoints_configs_by_age on kb.webhook_endpoints (updated_at) where run_id is not null;
-- A config is visible with its run.
alter policy app on kb.webhook_endpoints
    using (project_id = kb.current_project()
           and (run_id is null or exists (select from kb.agent_runs r where r.id = webhook_endpoints.run_id)));
-- Workers remove configs of runs that have ended long ago.
grant delete on kb.webhook_endpoints to rejoin_worker;

-- `payload` of a config's delivery is what its request is rendered from: runId, contextId, logId, firstSeq, state, timestamp.
alter table kb.webhook_deliveries
    -- Of a config's delivery: the number in the log of the run's end or wait. The task is sent as it was then. Null: a webhook's.
    add column log_seq bigint;
-- A config's delivery is visible with its run.
alter policy app on kb.webhook_deliveries
    using (project_id = kb.current_project()
           and (log_seq is null or exists (select from kb.agent_runs r where r.id = webhook_deliveries.subject_id)));
-- A config gets each end and each wait once.
create unique index webhook_deliveries_of_config on kb.webhook_deliveries (endpoint_id, log_seq) where log_seq is not null;

-- The same as before, for webhooks alone.
create or replace function kb.add_webhook_deliveries(p_project uuid, p_event text, p_subject uuid, p_data json) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    v_endpoint uuid;
begin
    for v_endpoint in
        select e.id from kb.webhook_endpoints e
        where e.project_id = p_project and e.run_id is null and e.disabled_at is null and p_event = any (e.events)
        order by e.id
        -- An endpoint that is deleted meanwhile is left out, in place of a violated foreign key.
        for key share
    loop
        perform kb.add_webhook_delivery(p_project, v_endpoint, p_event, p_subject, p_data);
    end loop;
end
$$;

-- Adds a delivery, with its job, of the state of a top-level run that has ended, was paused, or waits for a person. Returns its id; null: the run
-- is at work, or the config has this delivery.
create function kb.add_config_delivery(p_run uuid, p_endpoint uuid) returns uuid
language plpgsql as $$
declare
    v_id      uuid;
    v_project uuid;
begin
    insert into kb.webhook_deliveries (project_id, endpoint_id, event, subject_id, payload, log_seq)
    select r.project_id, p_endpoint, case when r.finished_at is null then 'question.asked' else 'run.ended' end, r.id,
           json_build_object(
               'runId', r.id, 'contextId', coalesce(c.client_thread, r.conversation_id::text, r.log_id::text), 'logId', r.log_id,
               'firstSeq', r.first_seq, 'state', r.state,
               'timestamp', kb.webhook_time(coalesce(r.finished_at, r.waiting_since, now())))::text,
           case when r.finished_at is null then l.last_seq else coalesce(r.done_seq, l.last_seq) end
    from kb.agent_runs r
    join stream.log_ends l on l.log_id = r.log_id
    left join kb.chat_conversations c on c.id = r.conversation_id
    where r.id = p_run and (r.finished_at is not null or r.state = 'waiting' and r.questions_open > 0)
    on conflict (endpoint_id, log_seq) where log_seq is not null do nothing
    returning id, project_id into v_id, v_project;
    if v_id is not null then
        perform kb.enqueue_webhook_delivery(v_id, v_project, p_endpoint, p_run);
    end if;
    return v_id;
end
$$;
grant execute on function kb.add_config_delivery to rejoin_app;

-- A top-level run has ended, was paused, or waits for a person. As the triggers of webhooks, at the commit, and as the tables' owner. A transaction
-- that opens several questions adds one delivery: its log ends with one number.
create function kb.note_task_state() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_endpoint uuid;
begin
    for v_endpoint in
        select e.id from kb.webhook_endpoints e
        where e.run_id = new.id and e.disabled_at is null
        order by e.id
        for key share
    loop
        perform kb.add_config_delivery(new.id, v_endpoint);
    end loop;
    return null;
end
$$;
revoke all on function kb.note_task_state from public;
create constraint trigger configs_of_task_state after update on kb.agent_runs deferrable initially deferred
    for each row when (
        new.parent_run_id is null
        and (old.finished_at is null and new.finished_at is not null
             or new.state = 'waiting' and new.questions_open > 0
                and (old.state <> 'waiting' or new.questions_open > old.questions_open)))
    execute function kb.note_task_state();
