-- Content of files in an object store that speaks S3, for those who set one up (docs/guide/files.md).

-- True: the content is the object `PROJECT/FILE` there. False: it is in kb.file_chunks.
alter table kb.files add column in_object_store boolean not null default false;
-- The upload in parts that is under way there, as the object store names it.
alter table kb.files add column upload_id text;

-- What files have left in the object store; the workers' upkeep removes it there, then here.
create table kb.file_objects_left (
    object_key text primary key,
    -- To be ended there, too.
    upload_id  text,
    -- Not before: whoever uploads may still be at it.
    due_at     timestamptz not null
);
create index file_objects_left_due on kb.file_objects_left (due_at);

-- As the owner: whoever deletes a file, or its project, sees nothing of this table.
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

grant select, update, delete on kb.file_objects_left to rejoin_worker;
alter table kb.file_objects_left enable row level security;
create policy worker on kb.file_objects_left to rejoin_worker using (true);
