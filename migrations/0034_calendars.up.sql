-- Calendars of users, which agents read and write for them (docs/CALENDAR.md).

create table kb.calendars (
    id            uuid primary key,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    owner_user_id uuid not null references kb.users (id) on delete cascade,
    name          text not null check (length(name) between 1 and 200),
    -- IANA's name: of events that say no other.
    time_zone     text not null,
    -- The object of type project in the graph that it is the calendar of.
    work_project  uuid,
    created_at    timestamptz not null default now()
);
create index calendars_of_owner on kb.calendars (project_id, owner_user_id, created_at);
-- A project of the work graph has one calendar for each user.
create unique index calendars_of_work on kb.calendars (project_id, owner_user_id, work_project) where work_project is not null;

create table kb.calendar_events (
    -- Made by a tool, it is that call's record: made again after a crash, it is there already.
    id            uuid primary key,
    calendar_id   uuid not null references kb.calendars (id) on delete cascade,
    title         text not null,
    description   text not null default '',
    location      text not null default '',
    -- Of an event that comes back: its first.
    starts_at     timestamptz not null,
    ends_at       timestamptz not null,
    -- From midnight to midnight in its time zone.
    all_day       boolean not null default false,
    -- IANA's name: where the wall clock hangs by which it comes back.
    time_zone     text not null,
    -- RFC 5545, without its name; null: it happens once.
    rrule         text check (length(rrule) <= 500),
    -- Beginnings at which it does not come back.
    exdates       timestamptz[] not null default '{}',
    -- The event one of whose occurrences this one replaces, and that one's beginning by the rule.
    series_id     uuid references kb.calendar_events (id) on delete cascade,
    recurrence_id timestamptz,
    -- One more with each change.
    version       integer not null default 1,
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    -- Kept, so that a deletion that is repeated finds that it has acted.
    deleted_at    timestamptz,
    unique (series_id, recurrence_id),
    check (ends_at >= starts_at),
    check ((series_id is null) = (recurrence_id is null)),
    check (series_id is null or rrule is null)
);
create index calendar_events_list on kb.calendar_events (calendar_id, starts_at) where deleted_at is null;

grant select, insert, update, delete on kb.calendars, kb.calendar_events to rejoin_app, rejoin_worker;

alter table kb.calendars enable row level security;
create policy app on kb.calendars to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.calendars to rejoin_worker using (true);

alter table kb.calendar_events enable row level security;
create policy app on kb.calendar_events to rejoin_app
    using (exists (select from kb.calendars c where c.id = calendar_id));
create policy worker on kb.calendar_events to rejoin_worker using (true);
