-- Queries that answered questions, learned from runs: what was asked, and which query of an agent's succeeded last. The question and the query are
-- their asker's; the project shares the pattern alone, which is the query without its values and comments.

create table kb.query_patterns (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    -- The asker.
    user_id         uuid not null references kb.users (id) on delete cascade,
    data_source_id  uuid not null references kb.data_sources (id) on delete cascade,
    -- '': the source's own.
    database        text not null,
    -- Forgotten with the conversation that it was learned in; null: a run without one.
    conversation_id uuid references kb.chat_conversations (id) on delete cascade,
    -- The newest run whose query it was.
    run_id          uuid not null,
    asked           text not null,
    query           text not null,
    pattern         text not null,
    -- In how many runs.
    times           int not null default 1,
    learned_at      timestamptz not null default now()
);
-- Long patterns are compared by their digest: an index entry has a maximum size.
create unique index query_patterns_once on kb.query_patterns (user_id, data_source_id, database, md5(pattern));
create index query_patterns_list on kb.query_patterns (project_id, user_id, learned_at desc, id desc);
create index query_patterns_of_run on kb.query_patterns (run_id);
create index query_patterns_of_conversation on kb.query_patterns (conversation_id) where conversation_id is not null;

grant select, delete on kb.query_patterns to rejoin_app;
grant select, insert, update, delete on kb.query_patterns to rejoin_worker;

-- A caller sees what was learned from the caller's own questions. Patterns of others reach agents by the workers, without question and values.
alter table kb.query_patterns enable row level security;
create policy app on kb.query_patterns to rejoin_app
    using (project_id = kb.current_project() and user_id = kb.current_owner());
create policy worker on kb.query_patterns to rejoin_worker using (true);
