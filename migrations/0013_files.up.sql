-- Files: what users attach to messages, and what tools produce (docs/guide/files.md).

create table kb.files (
    id              uuid primary key,
    project_id      uuid not null references kb.projects (id) on delete cascade,
    -- Null: of a run that no user made, and so the project's.
    owner_user_id   uuid references kb.users (id) on delete cascade,
    -- Without a path and without control characters.
    name            text not null,
    -- By the content, not by what the sender said. While the file arrives: what the sender said.
    media_type      text not null,
    -- While the file arrives: what is reserved for it.
    size_bytes      bigint not null check (size_bytes >= 0),
    -- Null while the file arrives.
    sha256          bytea check (octet_length(sha256) = 32),
    -- `deleted`: the content is gone, the row stays because messages name it.
    state           text not null check (state in ('arriving', 'ready', 'deleted')),
    -- The run whose tool made it; null: a user uploaded it. A file that a tool made is kept as long as its run.
    run_id          uuid references kb.agent_runs (id) on delete set null,
    -- The record of the call that made it (kb.agent_run_tool_calls).
    tool_call_id    uuid,
    created_at      timestamptz not null default now(),
    -- True: the content is the object `PROJECT/FILE` in an object store that speaks S3 (docs/decisions/0044-files-in-an-object-store.md). False:
    -- it is in kb.file_chunks.
    in_object_store boolean not null default false,
    -- The multipart upload that is under way there, as the object store names it.
    upload_id       text,
    check (state = 'arriving' or sha256 is not null)
);
create index files_list on kb.files (project_id, owner_user_id, created_at desc, id desc);
create index files_of_run on kb.files (run_id) where run_id is not null;
create index files_of_call on kb.files (tool_call_id) where tool_call_id is not null;
-- Uploads, the oldest first, for their removal.
create index files_uploaded on kb.files (created_at) where run_id is null;
grant select, insert, update, delete on kb.files to rejoin_app, rejoin_worker;
alter table kb.files enable row level security;
create policy app on kb.files to rejoin_app
    using (project_id = kb.current_project() and coalesce(owner_user_id = kb.current_owner(), owner_user_id is null))
    with check (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.files to rejoin_worker using (true);

-- A file's content, in pieces of one size (the last one may be shorter), from 0 on.
create table kb.file_chunks (
    file_id  uuid not null references kb.files (id) on delete cascade,
    position int not null,
    content  bytea not null,
    primary key (file_id, position)
);
-- Images, PDFs and audio are compressed already.
alter table kb.file_chunks alter column content set storage external;
grant select, insert, update, delete on kb.file_chunks to rejoin_app, rejoin_worker;
alter table kb.file_chunks enable row level security;
create policy app on kb.file_chunks to rejoin_app using (exists (select from kb.files f where f.id = file_id));
create policy worker on kb.file_chunks to rejoin_worker using (true);

-- Which messages name which files. What the message shows of them is in its `metadata.attachments`.
create table kb.message_files (
    message_id uuid not null references kb.chat_messages (id) on delete cascade,
    -- No cascade: a file that was just named is not removed.
    file_id    uuid not null references kb.files (id),
    primary key (message_id, file_id)
);
create index message_files_of_file on kb.message_files (file_id);
grant select, insert, delete on kb.message_files to rejoin_app, rejoin_worker;
alter table kb.message_files enable row level security;
-- Seen by a user who sees both, so that nobody names another's file.
create policy app on kb.message_files to rejoin_app
    using (exists (select from kb.chat_messages m where m.id = message_id) and exists (select from kb.files f where f.id = file_id));
create policy worker on kb.message_files to rejoin_worker using (true);

-- The size of a project's files, of all its users, in bytes: the policy above shows a caller their own alone.
create function kb.files_bytes(p_project uuid) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select coalesce(sum(f.size_bytes), 0)::bigint from kb.files f
    where f.project_id = p_project and f.state <> 'deleted'
      and (p_project = kb.current_project() or current_setting('role', true) is distinct from 'rejoin_app')
$$;
revoke all on function kb.files_bytes from public;
grant execute on function kb.files_bytes to rejoin_app, rejoin_worker;

-- Objects of deleted files in the object store; the workers' upkeep removes them there, then here.
create table kb.file_objects_left (
    object_key text primary key,
    -- A multipart upload to be ended there, too.
    upload_id  text,
    -- Not before: an upload may still be under way.
    due_at     timestamptz not null
);
create index file_objects_left_due on kb.file_objects_left (due_at);
grant select, update, delete on kb.file_objects_left to rejoin_worker;
alter table kb.file_objects_left enable row level security;
create policy worker on kb.file_objects_left to rejoin_worker using (true);

-- As the owner: a process that deletes a file, or its project, sees nothing of this table.
create function kb.note_file_object() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into kb.file_objects_left (object_key, upload_id, due_at)
    values (old.project_id || '/' || old.id, old.upload_id,
            now() + case old.state when 'arriving' then interval '6 hours' else interval '0' end)
    on conflict (object_key) do nothing;
    return null;
end
$$;
revoke all on function kb.note_file_object from public;
create trigger file_object_of_deleted_row after delete on kb.files
    for each row when (old.in_object_store and old.state <> 'deleted') execute function kb.note_file_object();
create trigger file_object_of_deleted_content after update of state on kb.files
    for each row when (old.in_object_store and old.state <> 'deleted' and new.state = 'deleted') execute function kb.note_file_object();
