-- Lists of conversations as their owners arrange them: pinned, in folders, archived, read up to a number. Branches of conversations. Labels of
-- feedback.

-- Folders of a user's conversations, in one project.
create table kb.chat_folders (
    id            uuid primary key,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    owner_user_id uuid not null references kb.users (id) on delete cascade,
    name          text not null check (length(name) between 1 and 100),
    created_at    timestamptz not null default now(),
    unique (project_id, owner_user_id, name)
);
-- A move of a conversation locks its folder, which needs the right to update.
grant select, insert, update, delete on kb.chat_folders to rejoin_app;
alter table kb.chat_folders enable row level security;
create policy app on kb.chat_folders to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());

alter table kb.chat_conversations
    -- Since when it is pinned. Null: it is not.
    add column pinned_at timestamptz,
    -- Since when it is archived. Null: it is not.
    add column archived_at timestamptz,
    -- Its folder. Not a foreign key, which would need an index: who deletes a folder takes its conversations out of it before.
    add column folder_id uuid,
    -- The number of the last message's event that its owner has read. Null: it is older than this column, and counts as read.
    add column last_read_seq bigint;
alter table kb.chat_conversations alter column last_read_seq set default 0;

-- Conversations that began as forks of a run, which answers a message of another conversation: each is another version of that message.
create table kb.chat_branches (
    conversation_id uuid primary key references kb.chat_conversations (id) on delete cascade,
    -- The conversation with which the tree of branches began. It may be deleted.
    root_id         uuid not null,
    -- The message of which all branches with the same value are versions: the first one of them, in the conversation where it was posted.
    point_id        uuid not null,
    -- The version in this conversation. The messages before it are copies, with the original's id in `metadata.copyOf`.
    message_id      uuid not null,
    created_at      timestamptz not null default now()
);
create index chat_branches_root on kb.chat_branches (root_id);
grant select, insert, delete on kb.chat_branches to rejoin_app;
alter table kb.chat_branches enable row level security;
create policy app on kb.chat_branches to rejoin_app
    using (exists (select from kb.chat_conversations c where c.id = conversation_id));

-- Words by which users sort their feedback, such as `wrong` or `slow`.
alter table kb.message_feedback add column labels text[] not null default '{}';
