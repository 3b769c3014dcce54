-- A second wall around projects and owners, behind that of the queries: what a process may see is decided here, too.
-- rejoin_app: the API on behalf of one user, in one project; rejoin_gate: the API while it finds out who calls; rejoin_worker: workers,
-- which serve everybody. The owner of the tables, who migrates and administers, is not bound by any of this.
do $$
declare
    role text;
    may_be_taken boolean;
begin
    foreach role in array array['rejoin_app', 'rejoin_gate', 'rejoin_worker'] loop
        -- Roles belong to the server, not to a database: another one's migration may have made them, or be doing it now.
        if not exists (select from pg_roles where rolname = role) then
            begin
                execute format('create role %I nologin', role);
            exception
                when duplicate_object or unique_violation then null;
            end;
        end if;
        -- Whoever logs in as the owner takes them on. From PostgreSQL 16 on, who makes a role may not do so by that alone.
        if current_setting('server_version_num')::int >= 160000 then
            may_be_taken := pg_has_role(current_user, role, 'set');
        else
            may_be_taken := pg_has_role(current_user, role, 'member');
        end if;
        if not may_be_taken then
            execute format('grant %I to current_user', role);
        end if;
    end loop;
end
$$;

-- Whose rows are asked for, set for one transaction (`set local`); null, and so nobody's, where it is not.
create function kb.current_project() returns uuid
language sql stable parallel safe
return nullif(current_setting('rejoin.project', true), '')::uuid;

create function kb.current_owner() returns uuid
language sql stable parallel safe
return nullif(current_setting('rejoin.owner', true), '')::uuid;

-- An import of many rows leaves the planner without statistics; only who owns the tables may make them.
create function kb.analyze_graph() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    analyze kb.graph_objects, kb.graph_relationships;
end
$$;

grant usage on schema kb, queue, stream to rejoin_app, rejoin_gate, rejoin_worker;

-- Who calls is found out before it is known. Nobody else sees keys, identities, members.
grant select on kb.projects, kb.api_keys to rejoin_gate;
grant select, insert, update on kb.users, kb.project_members, kb.identities to rejoin_gate;
grant select, delete on kb.stream_tickets to rejoin_gate;

grant select, insert, update, delete on
    kb.chat_conversations, kb.chat_messages, kb.agent_definitions, kb.agent_runs, kb.agent_run_messages, kb.agent_run_tool_calls,
    kb.idempotency_keys, kb.stream_tickets, kb.graph_objects, kb.graph_relationships
    to rejoin_app, rejoin_worker;

-- The queue and the logs have no walls of their own: a log is found through its conversation or run, a job through its run.
grant select, insert, update, delete on all tables in schema queue, stream to rejoin_app, rejoin_worker;
grant usage on all sequences in schema queue, stream to rejoin_app, rejoin_worker;
alter default privileges in schema queue, stream grant select, insert, update, delete on tables to rejoin_app, rejoin_worker;
alter default privileges in schema queue, stream grant usage on sequences to rejoin_app, rejoin_worker;

-- The gate sees all of what it may see at all.
alter table kb.api_keys enable row level security;
create policy gate on kb.api_keys to rejoin_gate using (true);
alter table kb.project_members enable row level security;
create policy gate on kb.project_members to rejoin_gate using (true);
alter table kb.identities enable row level security;
create policy gate on kb.identities to rejoin_gate using (true);
alter table kb.stream_tickets enable row level security;
create policy gate on kb.stream_tickets to rejoin_gate using (true);
create policy app on kb.stream_tickets to rejoin_app using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.stream_tickets to rejoin_worker using (true);

alter table kb.chat_conversations enable row level security;
create policy app on kb.chat_conversations to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.chat_conversations to rejoin_worker using (true);

-- What belongs to a conversation is seen where the conversation is.
alter table kb.chat_messages enable row level security;
create policy app on kb.chat_messages to rejoin_app
    using (exists (select from kb.chat_conversations c where c.id = conversation_id));
create policy worker on kb.chat_messages to rejoin_worker using (true);

alter table kb.agent_definitions enable row level security;
create policy app on kb.agent_definitions to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.agent_definitions to rejoin_worker using (true);

-- A run outside a conversation is the project's.
alter table kb.agent_runs enable row level security;
create policy app on kb.agent_runs to rejoin_app
    using (project_id = kb.current_project()
           and (conversation_id is null or exists (select from kb.chat_conversations c where c.id = conversation_id)));
create policy worker on kb.agent_runs to rejoin_worker using (true);

alter table kb.agent_run_messages enable row level security;
create policy app on kb.agent_run_messages to rejoin_app using (exists (select from kb.agent_runs r where r.id = run_id));
create policy worker on kb.agent_run_messages to rejoin_worker using (true);

alter table kb.agent_run_tool_calls enable row level security;
create policy app on kb.agent_run_tool_calls to rejoin_app using (exists (select from kb.agent_runs r where r.id = run_id));
create policy worker on kb.agent_run_tool_calls to rejoin_worker using (true);

alter table kb.idempotency_keys enable row level security;
create policy app on kb.idempotency_keys to rejoin_app using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.idempotency_keys to rejoin_worker using (true);
