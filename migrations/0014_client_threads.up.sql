-- What other programs' clients bring with a message: their own name of the conversation, tools that they run themselves, and instructions
-- for one turn.

-- The name that the owner's client has given the conversation: useChat's `id`, AG-UI's `threadId`. Null: none.
alter table kb.chat_conversations
    add column client_thread text check (octet_length(client_thread) between 1 and 255);
-- Concurrent first messages with one name make one conversation.
create unique index chat_conversations_client_thread on kb.chat_conversations (project_id, owner_user_id, client_thread)
    where client_thread is not null;

-- What a run's request brought along. Most runs have no row.
create table kb.run_options (
    run_id       uuid primary key references kb.agent_runs (id) on delete cascade,
    -- Tools that the client executes: [{name, description, parameters}].
    client_tools jsonb not null default '[]',
    -- Added to the system prompt of this run alone. Null: nothing.
    instructions text
);
grant select, insert on kb.run_options to rejoin_app, rejoin_worker;
alter table kb.run_options enable row level security;
create policy app on kb.run_options to rejoin_app using (exists (select from kb.agent_runs r where r.id = run_id));
create policy worker on kb.run_options to rejoin_worker using (true);

-- A call of a client's tool waits like a question: its answer, {"output": …} or {"error": …}, is what the client returned.
alter table kb.questions
    drop constraint questions_kind_check,
    add constraint questions_kind_check check (kind in ('ask', 'confirm', 'task', 'plan', 'client_tool')),
    drop constraint questions_interaction_type_check,
    add constraint questions_interaction_type_check
        check (interaction_type in ('buttons', 'select', 'multi_select', 'text', 'confirm', 'client_tool'));
