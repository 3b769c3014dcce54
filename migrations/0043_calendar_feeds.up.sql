-- Addresses that show a calendar to whoever knows them (docs/CALENDAR.md). Only the SHA-256 of their secret part is here.

create table kb.calendar_feeds (
    -- One at a time for each calendar.
    calendar_id   uuid primary key references kb.calendars (id) on delete cascade,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    owner_user_id uuid not null references kb.users (id) on delete cascade,
    hash          bytea not null unique check (octet_length(hash) = 32),
    created_at    timestamptz not null default now()
);

grant select, insert, update, delete on kb.calendar_feeds to rejoin_app;
-- Whose a feed is, is found out before anybody is asking.
grant select on kb.calendar_feeds to rejoin_gate;

alter table kb.calendar_feeds enable row level security;
create policy app on kb.calendar_feeds to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy gate on kb.calendar_feeds to rejoin_gate using (true);
