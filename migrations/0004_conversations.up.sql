-- What a chat UI shows.
create table kb.chat_conversations (
    id            uuid primary key,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    owner_user_id uuid not null references kb.users (id),
    title         text not null,
    -- A client's stored choice of tools. Never read: an agent is configured by its definition alone.
    enabled_tools text[],
    metadata      jsonb not null default '{}',
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now()
);
create index chat_conversations_list on kb.chat_conversations (project_id, owner_user_id, updated_at desc, id desc);

create table kb.chat_messages (
    id                uuid primary key,
    conversation_id   uuid not null references kb.chat_conversations (id) on delete cascade,
    role              text not null check (role in ('user', 'assistant', 'system')),
    content           text not null,
    citations         jsonb,
    -- {"agent_run_id": …} on an assistant's message: the full trace of how it came about.
    retrieval_context jsonb,
    metadata          jsonb not null default '{}',
    -- Position in the log of the conversation: orders messages as every reader saw them.
    seq               bigint not null,
    created_at        timestamptz not null default now(),
    unique (conversation_id, seq)
);
