-- Webhooks: events of a project, sent to URLs that its admins name (docs/guide/webhooks.md). Deliveries are added by triggers, so that no writer
-- can forget one, and none is lost or sent for a change that was rolled back (docs/decisions/0051-webhooks-by-triggers.md).

create table kb.webhook_endpoints (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    url             text not null,
    description     text not null default '',
    -- The events that are sent: `run.ended`, `question.asked`, `dag.ended`, `budget.reached`.
    events          text[] not null check (cardinality(events) > 0),
    -- Null: enabled. A disabled endpoint gets no deliveries, and pending ones become dead letters.
    disabled_at     timestamptz,
    -- `admin`, or `gone`: the receiver has answered 410.
    disabled_reason text check (disabled_reason in ('admin', 'gone')),
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    check ((disabled_at is null) = (disabled_reason is null))
);
create index webhook_endpoints_list on kb.webhook_endpoints (project_id, id);
grant select, insert, update, delete on kb.webhook_endpoints to rejoin_app;
grant select, update on kb.webhook_endpoints to rejoin_worker;
alter table kb.webhook_endpoints enable row level security;
create policy app on kb.webhook_endpoints to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.webhook_endpoints to rejoin_worker using (true);

-- The secrets that deliveries are signed with: one, or several while one is being rotated.
create table kb.webhook_secrets (
    id          uuid primary key,
    endpoint_id uuid not null references kb.webhook_endpoints (id) on delete cascade,
    project_id  uuid not null references kb.projects (id) on delete cascade,
    -- Sealed as kb.secrets are.
    key_id      text not null check (length(key_id) between 1 and 32),
    wrapped_key bytea not null check (octet_length(wrapped_key) = 60),
    ciphertext  bytea not null check (octet_length(ciphertext) between 29 and 65564),
    created_at  timestamptz not null default now(),
    -- Null: the current one. Otherwise: when the previous one stops being used.
    expires_at  timestamptz
);
create index webhook_secrets_of_endpoint on kb.webhook_secrets (endpoint_id);
create index webhook_secrets_of_project on kb.webhook_secrets (project_id);
-- The API seals and replaces secrets, and can't read them; workers open them.
grant insert, delete on kb.webhook_secrets to rejoin_app;
grant select (id, endpoint_id, project_id, key_id, created_at, expires_at), update (expires_at) on kb.webhook_secrets to rejoin_app;
grant select, delete on kb.webhook_secrets to rejoin_worker;
alter table kb.webhook_secrets enable row level security;
create policy app on kb.webhook_secrets to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.webhook_secrets to rejoin_worker using (true);

-- One event for one endpoint. Each pending row has a job of the kind `webhook.deliver`.
create table kb.webhook_deliveries (
    -- Sent as `webhook-id`, the same in every attempt and after a replay.
    id              uuid primary key default gen_random_uuid(),
    -- The order in which deliveries were added.
    number          bigint generated always as identity,
    -- That of the endpoint. Without a foreign key: the row goes with its endpoint.
    project_id      uuid not null,
    endpoint_id     uuid not null references kb.webhook_endpoints (id) on delete cascade,
    event           text not null,
    -- The conversation, otherwise the run or the DAG. An endpoint gets the events of one subject one after the other.
    subject_id      uuid not null,
    -- Exactly the JSON text that is sent.
    payload         text not null,
    -- `dead`: given up. A replay makes it pending again.
    state           text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
    -- Since it was added or replayed. Fences the result of an attempt.
    attempts        int not null default 0,
    last_attempt_at timestamptz,
    -- Not before this time. Null: at once, or it has ended.
    next_attempt_at timestamptz,
    -- The HTTP status of the last attempt. Null: no response.
    last_status     int,
    last_error      text,
    created_at      timestamptz not null default now(),
    ended_at        timestamptz
);
create index webhook_deliveries_list on kb.webhook_deliveries (endpoint_id, number desc);
create index webhook_deliveries_dead on kb.webhook_deliveries (endpoint_id, number) where state = 'dead';
-- By their age, for their removal.
create index webhook_deliveries_ended on kb.webhook_deliveries (ended_at) where ended_at is not null;
grant select, insert, update on kb.webhook_deliveries to rejoin_app;
grant select, update, delete on kb.webhook_deliveries to rejoin_worker;
alter table kb.webhook_deliveries enable row level security;
create policy app on kb.webhook_deliveries to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.webhook_deliveries to rejoin_worker using (true);

-- Enqueues the job of a delivery. The key keeps the order: of each endpoint and subject, one job at a time is claimable, the oldest one. A delivery
-- counts its attempts itself; the queue's number is only a bound.
create function kb.enqueue_webhook_delivery(p_id uuid, p_project uuid, p_endpoint uuid, p_subject uuid) returns bigint
language sql volatile
return queue.enqueue(
    p_kind => 'webhook.deliver',
    p_payload => jsonb_build_object('deliveryId', p_id),
    p_project_id => p_project,
    p_max_attempts => 100,
    p_unique_key => 'webhook:' || p_id,
    p_concurrency_key => 'webhook:' || p_endpoint || ':' || p_subject);

-- A time in a payload, whatever the time zone of the session.
create function kb.webhook_time(p_at timestamptz) returns text
language sql stable
return to_char(p_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');

-- Adds a delivery with its job. Returns its id.
create function kb.add_webhook_delivery(p_project uuid, p_endpoint uuid, p_event text, p_subject uuid, p_data json) returns uuid
language plpgsql as $$
declare
    v_id uuid;
begin
    insert into kb.webhook_deliveries (project_id, endpoint_id, event, subject_id, payload)
    select p_project, p_endpoint, p_event, p_subject, row_to_json(body)::text
    from (select p_event as type, kb.webhook_time(now()) as timestamp, p_data as data) body
    returning id into v_id;
    perform kb.enqueue_webhook_delivery(v_id, p_project, p_endpoint, p_subject);
    return v_id;
end
$$;
grant execute on function kb.enqueue_webhook_delivery, kb.add_webhook_delivery to rejoin_app;

-- Adds the deliveries of an event: one for each enabled endpoint of the project that asks for it. Called by the triggers below.
create function kb.add_webhook_deliveries(p_project uuid, p_event text, p_subject uuid, p_data json) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    v_endpoint uuid;
begin
    for v_endpoint in
        select e.id from kb.webhook_endpoints e
        where e.project_id = p_project and e.disabled_at is null and p_event = any (e.events)
        order by e.id
        -- An endpoint that is deleted meanwhile is left out, in place of a violated foreign key.
        for key share
    loop
        perform kb.add_webhook_delivery(p_project, v_endpoint, p_event, p_subject, p_data);
    end loop;
end
$$;
revoke all on function kb.add_webhook_deliveries from public;

-- The triggers below run as the tables' owner: the writers may neither read endpoints of a project nor enqueue for it. They run at the commit, after
-- all locks of the transaction were taken, so that no wait for a concurrency key is part of a deadlock with the lock of a log. Payloads
-- hold ids, states and numbers, no text of a conversation: endpoints are the project's, conversations are their owners'.

-- A turn of a tree of runs has ended (not that of a sub-agent).
create function kb.note_run_end() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_data json;
begin
    if not exists (select from kb.webhook_endpoints e where e.project_id = new.project_id) then
        return null;
    end if;
    select row_to_json(d) into v_data from (
        select new.id as "runId", new.conversation_id as "conversationId", new.agent_name as "agent", new.state as "state",
               new.error_code as "errorCode", new.usage as "usage", new.tree_tokens as "totalTokens",
               new.tree_cost_usd as "totalCostUsd", kb.webhook_time(new.created_at) as "createdAt", kb.webhook_time(new.started_at) as "startedAt",
               kb.webhook_time(new.finished_at) as "finishedAt") d;
    if new.error_code in ('token_budget', 'cost_budget') then
        perform kb.add_webhook_deliveries(new.project_id, 'budget.reached', coalesce(new.conversation_id, new.id), v_data);
    end if;
    perform kb.add_webhook_deliveries(new.project_id, 'run.ended', coalesce(new.conversation_id, new.id), v_data);
    return null;
end
$$;
revoke all on function kb.note_run_end from public;
create constraint trigger webhooks_of_run_end after update on kb.agent_runs deferrable initially deferred
    for each row when (old.finished_at is null and new.finished_at is not null and new.parent_run_id is null)
    execute function kb.note_run_end();

-- A run asks a person. (A call of a client's tool waits in the same table, and is none.)
create function kb.note_question() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_run  record;
    v_data json;
begin
    if not exists (select from kb.webhook_endpoints e where e.project_id = new.project_id) then
        return null;
    end if;
    select r.root_run_id, r.conversation_id into v_run from kb.agent_runs r where r.id = new.run_id;
    if not found then
        return null;
    end if;
    select row_to_json(d) into v_data from (
        select new.id as "questionId", new.run_id as "runId", v_run.root_run_id as "rootRunId", v_run.conversation_id as "conversationId",
               new.kind as "kind", new.interaction_type as "interactionType", kb.webhook_time(new.created_at) as "createdAt") d;
    perform kb.add_webhook_deliveries(new.project_id, 'question.asked', coalesce(v_run.conversation_id, v_run.root_run_id), v_data);
    return null;
end
$$;
revoke all on function kb.note_question from public;
create constraint trigger webhooks_of_question after insert on kb.questions deferrable initially deferred
    for each row when (new.status = 'pending' and new.kind <> 'client_tool')
    execute function kb.note_question();

-- A DAG of tasks has ended.
create function kb.note_dag_end() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_conversation uuid;
    v_data         json;
begin
    if not exists (select from kb.webhook_endpoints e where e.project_id = new.project_id) then
        return null;
    end if;
    select r.conversation_id into v_conversation from kb.agent_runs r where r.id = new.waiting_run_id;
    select row_to_json(d) into v_data from (
        select new.id as "dagId", new.name as "name", new.state as "state", new.plan_id as "planId", v_conversation as "conversationId",
               kb.webhook_time(new.created_at) as "createdAt", kb.webhook_time(new.finished_at) as "finishedAt") d;
    perform kb.add_webhook_deliveries(new.project_id, 'dag.ended', coalesce(v_conversation, new.id), v_data);
    return null;
end
$$;
revoke all on function kb.note_dag_end from public;
create constraint trigger webhooks_of_dag_end after update on kb.task_dags deferrable initially deferred
    for each row when (old.finished_at is null and new.finished_at is not null)
    execute function kb.note_dag_end();
