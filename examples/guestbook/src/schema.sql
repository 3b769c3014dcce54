create schema guestbook;
grant usage on schema guestbook to rejoin_app, rejoin_worker;

-- What agents wrote, for all members of a project.
create table guestbook.entries (
    id         uuid primary key,
    project_id uuid not null references kb.projects (id) on delete cascade,
    text       text not null,
    -- Number of words; the job counts them.
    words      int,
    created_at timestamptz not null default now()
);
create index entries_by_project on guestbook.entries (project_id, created_at);

alter table guestbook.entries enable row level security;
-- The API sees one project, that of its caller; workers see all.
grant select on guestbook.entries to rejoin_app;
create policy caller on guestbook.entries for select to rejoin_app using (project_id = kb.current_project());
grant select, insert, update on guestbook.entries to rejoin_worker;
create policy worker on guestbook.entries to rejoin_worker using (true) with check (true);
