-- Conversations that are shared by a link, and versions of agents (docs/decisions/0077-share-links.md).

-- Links by which anyone may read a conversation. Only the SHA-256 of a link's token is stored.
create table kb.conversation_shares (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    owner_user_id   uuid not null references kb.users (id) on delete cascade,
    conversation_id uuid not null references kb.chat_conversations (id) on delete cascade,
    token_hash      bytea not null unique check (octet_length(token_hash) = 32),
    -- The number of the last message's event that is shown. Null: all messages, also later ones.
    through_seq     bigint,
    -- Whether the files of the messages that are shown may be read.
    includes_files  boolean not null default false,
    created_at      timestamptz not null default now(),
    expires_at      timestamptz not null,
    revoked_at      timestamptz,
    -- To the minute; null: never.
    last_opened_at  timestamptz
);
create index conversation_shares_conversation on kb.conversation_shares (conversation_id);
grant select, insert, update on kb.conversation_shares to rejoin_app;
grant select on kb.conversation_shares to rejoin_gate;
alter table kb.conversation_shares enable row level security;
create policy app on kb.conversation_shares to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());

-- The token, as its SHA-256, of the reader whom a transaction serves. Null: it serves none.
create function kb.current_share() returns bytea
language sql stable parallel safe
return decode(nullif(current_setting('rejoin.share', true), ''), 'hex');

-- A reader sees the conversation of a valid link whose owner is still a member, as far as the link shows it, and nothing else.
create policy reader on kb.conversation_shares for select to rejoin_gate
    using (token_hash = kb.current_share() and revoked_at is null and expires_at > now()
           and exists (select from kb.project_members m
                       where m.project_id = conversation_shares.project_id and m.user_id = conversation_shares.owner_user_id));

grant select (id, title, created_at, updated_at) on kb.chat_conversations to rejoin_gate;
create policy reader on kb.chat_conversations for select to rejoin_gate
    using (exists (select from kb.conversation_shares s where s.conversation_id = chat_conversations.id));

grant select (id, conversation_id, role, content, citations, metadata, seq, created_at) on kb.chat_messages to rejoin_gate;
create policy reader on kb.chat_messages for select to rejoin_gate
    using (role in ('user', 'assistant')
           and exists (select from kb.conversation_shares s
                       where s.conversation_id = chat_messages.conversation_id
                         and (s.through_seq is null or chat_messages.seq <= s.through_seq)));

grant select on kb.message_files, kb.files, kb.file_chunks to rejoin_gate;
create policy reader on kb.message_files for select to rejoin_gate
    using (exists (select from kb.conversation_shares s where s.includes_files)
           and exists (select from kb.chat_messages m where m.id = message_id));
create policy reader on kb.files for select to rejoin_gate
    using (exists (select from kb.message_files f where f.file_id = files.id));
create policy reader on kb.file_chunks for select to rejoin_gate
    using (exists (select from kb.files f where f.id = file_id));

-- Records that a link was opened.
create function kb.share_opened(p_share_id uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    update kb.conversation_shares set last_opened_at = now()
    where id = (select s.id from kb.conversation_shares s
                where s.id = p_share_id and s.token_hash = kb.current_share()
                  and (s.last_opened_at is null or s.last_opened_at < now() - interval '1 minute')
                -- Another reader records the same.
                for update skip locked)
$$;
revoke all on function kb.share_opened from public;
grant execute on function kb.share_opened to rejoin_gate;

-- The version of a definition's content, from 1 on.
alter table kb.agent_definitions add column version int not null default 1;

-- Every content that a definition has had. A version never changes.
create table kb.agent_versions (
    definition_id uuid not null references kb.agent_definitions (id) on delete cascade,
    version       int not null,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    -- The columns of kb.agent_definitions but its id, its project, its times and its version.
    content       jsonb not null,
    -- The user who wrote it. Null: an operator, or a product.
    created_by    uuid references kb.users (id) on delete set null,
    created_at    timestamptz not null default now(),
    primary key (definition_id, version)
);
grant select, insert on kb.agent_versions to rejoin_app, rejoin_worker;
alter table kb.agent_versions enable row level security;
create policy app on kb.agent_versions to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.agent_versions to rejoin_worker using (true);

create function kb.agent_content(p_definition kb.agent_definitions) returns jsonb
language sql stable as $$
    select to_jsonb(p_definition) - array['id', 'project_id', 'created_at', 'updated_at', 'version']
$$;

insert into kb.agent_versions (definition_id, version, project_id, content, created_at)
select d.id, d.version, d.project_id, kb.agent_content(d), d.updated_at from kb.agent_definitions d;

create function kb.number_agent_version() returns trigger
language plpgsql as $$
begin
    new.version := old.version + (kb.agent_content(new) is distinct from kb.agent_content(old))::int;
    return new;
end
$$;
create trigger numbered before update on kb.agent_definitions for each row execute function kb.number_agent_version();

create function kb.keep_agent_version() returns trigger
language plpgsql as $$
begin
    insert into kb.agent_versions (definition_id, version, project_id, content, created_by)
    values (new.id, new.version, new.project_id, kb.agent_content(new), kb.current_owner())
    on conflict (definition_id, version) do nothing;
    return null;
end
$$;
create trigger kept after insert or update on kb.agent_definitions for each row execute function kb.keep_agent_version();

-- The version of its agent that a conversation stays with. Null: the newest one.
alter table kb.chat_conversations add column agent_version int;

alter table kb.agent_runs
    -- The version of its agent when the run was made, or took over. Null: it has none, or is older than this column.
    add column agent_version int,
    -- The model that its user has chosen for this run. Null: its agent's.
    add column requested_model text;

create function kb.stamp_agent_version() returns trigger
language plpgsql as $$
begin
    new.agent_version := coalesce(
        (select c.agent_version from kb.chat_conversations c
         where c.id = new.conversation_id and c.agent_definition_id = new.agent_definition_id),
        (select d.version from kb.agent_definitions d where d.id = new.agent_definition_id));
    return new;
end
$$;
create trigger stamped before insert or update of agent_definition_id on kb.agent_runs
    for each row when (new.agent_definition_id is not null) execute function kb.stamp_agent_version();
