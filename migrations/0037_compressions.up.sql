-- Long conversations: what was said long ago, in few words, for models. The messages themselves stay.

create table kb.chat_compressions (
    conversation_id uuid not null references kb.chat_conversations (id) on delete cascade,
    version         int not null,
    -- The number of the last message's event that the summary covers.
    through_seq     bigint not null,
    summary         text not null,
    -- Messages that it stands for, all in all.
    messages        int not null,
    -- Estimates, of what it took the place of, and of itself.
    tokens_before   int not null,
    tokens_after    int not null,
    created_at      timestamptz not null default now(),
    primary key (conversation_id, version)
);

grant select on kb.chat_compressions to rejoin_app;
grant select, insert on kb.chat_compressions to rejoin_worker;
alter table kb.chat_compressions enable row level security;
create policy app on kb.chat_compressions to rejoin_app
    using (exists (select from kb.chat_conversations c where c.id = conversation_id and c.owner_user_id = kb.current_owner()));
create policy worker on kb.chat_compressions to rejoin_worker using (true);
