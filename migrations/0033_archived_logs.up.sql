-- Old logs in object storage (docs/decisions/0070-archived-logs.md): the events of a log from its beginning up to a number may be objects
-- instead of rows of stream.events. Readers see no difference.

-- The number of the newest event that is in an object; 0: none is. Later events are in stream.events.
alter table stream.logs add column archived_seq bigint not null default 0;

-- The numbers of each log's newest event, and of its newest archived one. A log without rows may end with the latter.
create or replace view stream.log_ends as
    select l.log_id,
           l.oldest_seq,
           -- Retention moves oldest_seq past what it removes, the archive archived_seq: without rows, the next event follows on both.
           coalesce((select e.seq from stream.events e
                     where e.log_id = l.log_id and e.seq > greatest(l.oldest_seq - 1, l.archived_seq)
                     order by e.seq desc limit 1), greatest(l.oldest_seq - 1, l.archived_seq)) as last_seq,
           l.archived_seq
    from stream.logs l;

-- The parts of logs that are objects, in order and without a gap. An object never changes.
create table stream.archives (
    -- The log whose events these are.
    log_id     uuid not null references stream.logs (log_id) on delete cascade,
    -- The project of the log. Null: a log of another program.
    project_id uuid references kb.projects (id) on delete cascade,
    -- The numbers of its first and last events.
    first_seq  bigint not null,
    last_seq   bigint not null,
    -- The number of its events.
    events     bigint not null check (events = last_seq - first_seq + 1),
    -- The object's name below the prefix of the store.
    name       text not null unique,
    -- Of its text before compression.
    sha256     bytea not null check (octet_length(sha256) = 32),
    -- The size of the text, and of the object, in bytes.
    text_bytes bigint not null,
    bytes      bigint not null,
    -- When its rows were deleted.
    created_at timestamptz not null default now(),
    primary key (log_id, last_seq)
);
-- For the removal of a project.
create index archives_of_project on stream.archives (project_id);

-- Objects that may have to be removed from the store. A name is here before its upload begins; the transaction that deletes the rows of
-- the events removes it. What has no row in stream.archives for its upload's time limit is removed by the workers' maintenance.
create table stream.archive_leftovers (
    -- The object's name, as in stream.archives.
    name     text primary key,
    -- Not before: an upload may still be under way.
    due_at   timestamptz not null,
    -- The object is being removed: its upload can't be completed.
    is_taken boolean not null default false
);
create index archive_leftovers_due on stream.archive_leftovers (due_at);

alter table stream.upkeep
    -- The newest run whose log was archived: its end and id.
    add column archived_at  timestamptz not null default 'epoch',
    add column archived_run uuid not null default '00000000-0000-0000-0000-000000000000',
    -- The process whose turn it is to archive, and until when.
    add column archiver     uuid,
    add column archiver_until timestamptz not null default 'epoch';

-- The API reads the parts of a log that it names (below), and changes nothing.
revoke insert, update, delete on stream.archives from rejoin_app;
revoke update on stream.archives from rejoin_worker;
revoke all on stream.archive_leftovers from rejoin_app;
alter table stream.archives enable row level security;
create policy app on stream.archives to rejoin_app using (project_id = kb.current_project());
create policy worker on stream.archives to rejoin_worker using (true);
alter table stream.archive_leftovers enable row level security;
create policy worker on stream.archive_leftovers to rejoin_worker using (true);

-- The parts of a log that have events after a number, in order. As the owner: a reader's pages are read without a scope, as stream.events are,
-- after the log was found for its caller (docs/decisions/0014-row-level-security.md).
create function stream.archived_after(p_log_id uuid, p_after bigint) returns setof stream.archives
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select a.* from stream.archives a where a.log_id = p_log_id and a.last_seq > p_after order by a.last_seq
$$;
revoke all on function stream.archived_after from public;
grant execute on function stream.archived_after to rejoin_app, rejoin_worker;

-- As the owner: a process that deletes a conversation or a project sees nothing of that table.
create function stream.note_archive() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into stream.archive_leftovers (name, due_at, is_taken) values (old.name, now(), true)
    on conflict (name) do nothing;
    return null;
end
$$;
revoke all on function stream.note_archive from public;
create trigger archive_of_deleted_row after delete on stream.archives
    for each row execute function stream.note_archive();

-- Retention moves the beginning of a log: the objects before it go.
create function stream.remove_old_archives() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    delete from stream.archives where log_id = new.log_id and last_seq < new.oldest_seq;
    return null;
end
$$;
revoke all on function stream.remove_old_archives from public;
create trigger archives_before_the_beginning after update of oldest_seq on stream.logs
    for each row when (new.archived_seq > 0 and new.oldest_seq > old.oldest_seq) execute function stream.remove_old_archives();
