-- What the model is told of a project in focus, made before it is needed; and what has changed in graphs since, so that nothing old is told.

create table kb.chat_context_cache (
    project_id uuid not null references kb.projects (id) on delete cascade,
    -- The project in focus, and the thing in it; the nil uuid: none.
    focus_id   uuid not null,
    entity_id  uuid not null,
    -- The project and the thing; what is linked to the project.
    location   text not null,
    linked     text not null,
    -- Taken before they were read: what it does not see may be missing from them.
    snapshot   pg_snapshot not null,
    created_at timestamptz not null default now(),
    primary key (project_id, focus_id, entity_id)
);

-- That a transaction has changed a project's graph. Appended only: writers don't wait for each other.
create table kb.graph_changes (
    project_id uuid not null,
    xid        xid8 not null default pg_current_xact_id(),
    at         timestamptz not null default now()
);
create index graph_changes_project on kb.graph_changes (project_id);
create index graph_changes_at on kb.graph_changes (at);

create function kb.note_graph_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'DELETE' then
        insert into kb.graph_changes (project_id) select distinct project_id from old_rows;
    else
        insert into kb.graph_changes (project_id) select distinct project_id from new_rows;
    end if;
    return null;
end $$;
revoke all on function kb.note_graph_change from public;

create trigger note_inserts after insert on kb.graph_objects referencing new table as new_rows for each statement execute function kb.note_graph_change();
create trigger note_updates after update on kb.graph_objects referencing new table as new_rows for each statement execute function kb.note_graph_change();
create trigger note_deletes after delete on kb.graph_objects referencing old table as old_rows for each statement execute function kb.note_graph_change();
create trigger note_inserts after insert on kb.graph_relationships referencing new table as new_rows for each statement execute function kb.note_graph_change();
create trigger note_updates after update on kb.graph_relationships referencing new table as new_rows for each statement execute function kb.note_graph_change();
create trigger note_deletes after delete on kb.graph_relationships referencing old table as old_rows for each statement execute function kb.note_graph_change();

grant select, insert, update, delete on kb.chat_context_cache to rejoin_app, rejoin_worker;
grant select on kb.graph_changes to rejoin_app;
grant select, delete on kb.graph_changes to rejoin_worker;
alter table kb.chat_context_cache enable row level security;
create policy app on kb.chat_context_cache to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.chat_context_cache to rejoin_worker using (true);
alter table kb.graph_changes enable row level security;
create policy app on kb.graph_changes for select to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.graph_changes to rejoin_worker using (true);
