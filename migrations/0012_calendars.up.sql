-- Calendars of users, which agents read and write for them (docs/guide/calendar.md).

create table kb.calendars (
    id            uuid primary key,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    owner_user_id uuid not null references kb.users (id) on delete cascade,
    name          text not null check (length(name) between 1 and 200),
    -- IANA's name: of events that name no other.
    time_zone     text not null,
    -- The object of type project in the graph that it is the calendar of.
    work_project  uuid,
    created_at    timestamptz not null default now()
);
create index calendars_of_owner on kb.calendars (project_id, owner_user_id, created_at);
-- A project of the work graph has one calendar for each user.
create unique index calendars_of_work on kb.calendars (project_id, owner_user_id, work_project) where work_project is not null;
grant select, insert, update, delete on kb.calendars to rejoin_app, rejoin_worker;
alter table kb.calendars enable row level security;
create policy app on kb.calendars to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.calendars to rejoin_worker using (true);

create table kb.calendar_events (
    -- Made by a tool, it is the id of that call's record: made again after a crash, it is there already.
    id            uuid primary key,
    calendar_id   uuid not null references kb.calendars (id) on delete cascade,
    title         text not null,
    description   text not null default '',
    location      text not null default '',
    -- Of a recurring event: its first occurrence.
    starts_at     timestamptz not null,
    ends_at       timestamptz not null,
    -- From midnight to midnight in its time zone.
    all_day       boolean not null default false,
    -- IANA's name: by the local time of this zone it recurs.
    time_zone     text not null,
    -- RFC 5545, without its name; null: it happens once.
    rrule         text check (length(rrule) <= 500),
    -- Beginnings of occurrences that do not take place.
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
grant select, insert, update, delete on kb.calendar_events to rejoin_app, rejoin_worker;
alter table kb.calendar_events enable row level security;
create policy app on kb.calendar_events to rejoin_app
    using (exists (select from kb.calendars c where c.id = calendar_id));
create policy worker on kb.calendar_events to rejoin_worker using (true);

-- Which entities of the work graph an event of a calendar belongs to.
create table kb.calendar_event_entities (
    event_id   uuid not null references kb.calendar_events (id) on delete cascade,
    -- The object in the graph of the calendar's project: a task, a milestone, an event of the work graph.
    entity_id  uuid not null,
    created_at timestamptz not null default now(),
    primary key (event_id, entity_id)
);
create index calendar_event_entities_of_entity on kb.calendar_event_entities (entity_id);
grant select, insert, delete on kb.calendar_event_entities to rejoin_app, rejoin_worker;
alter table kb.calendar_event_entities enable row level security;
-- Seen where the event is seen.
create policy app on kb.calendar_event_entities to rejoin_app
    using (exists (select from kb.calendar_events e where e.id = event_id));
create policy worker on kb.calendar_event_entities to rejoin_worker using (true);

-- Addresses that show a calendar to everybody who knows them. Only the SHA-256 of their secret part is here.
create table kb.calendar_feeds (
    -- One at a time for each calendar.
    calendar_id   uuid primary key references kb.calendars (id) on delete cascade,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    owner_user_id uuid not null references kb.users (id) on delete cascade,
    hash          bytea not null unique check (octet_length(hash) = 32),
    created_at    timestamptz not null default now()
);
grant select, insert, update, delete on kb.calendar_feeds to rejoin_app;
-- Whose feed it is, is found out before it is known for whom the API works.
grant select on kb.calendar_feeds to rejoin_gate;
alter table kb.calendar_feeds enable row level security;
create policy app on kb.calendar_feeds to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy gate on kb.calendar_feeds to rejoin_gate using (true);

-- Calendars that are kept the same as ones at Google (docs/decisions/0024-google-calendar.md): the API sends users to Google and takes the
-- authorization codes that they come back with; workers do the rest. The API reads no sealed token.

-- Users who were sent to Google for their consent. Each is used once, soon.
create table kb.google_consents (
    -- SHA-256 of what Google gives back with its answer.
    state_hash    bytea primary key check (octet_length(state_hash) = 32),
    calendar_id   uuid not null references kb.calendars (id) on delete cascade,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    owner_user_id uuid not null references kb.users (id) on delete cascade,
    -- The code verifier of RFC 7636 (PKCE).
    verifier      text not null,
    redirect_url  text not null,
    -- The authorization code that the user came back with; a worker takes it to Google.
    code          text check (length(code) <= 4000),
    -- Why it failed, in words.
    failure       text,
    expires_at    timestamptz not null
);
create index google_consents_expired on kb.google_consents (expires_at);
grant insert, delete on kb.google_consents to rejoin_app;
grant select (state_hash, calendar_id, project_id, owner_user_id, code, failure, expires_at) on kb.google_consents to rejoin_app;
grant update (code) on kb.google_consents to rejoin_app;
grant select, update, delete on kb.google_consents to rejoin_worker;
alter table kb.google_consents enable row level security;
create policy app on kb.google_consents to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.google_consents to rejoin_worker using (true);

-- A calendar and the one at Google that it is linked with.
create table kb.google_links (
    calendar_id   uuid primary key references kb.calendars (id) on delete cascade,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    owner_user_id uuid not null references kb.users (id) on delete cascade,
    -- choosing: its user has consented, and has not chosen a calendar yet; revoked: Google no longer accepts the token.
    state         text not null check (state in ('choosing', 'linked', 'revoked')),
    -- The calendars that the user has there.
    choices       jsonb not null default '[]',
    google_id     text check (length(google_id) between 1 and 1000),
    google_name   text,
    read_only     boolean not null default false,
    -- The refresh token, sealed as kb.secrets are.
    key_id        text not null check (length(key_id) between 1 and 32),
    wrapped_key   bytea not null check (octet_length(wrapped_key) = 60),
    ciphertext    bytea not null check (octet_length(ciphertext) between 29 and 65564),
    -- Where Google's list of changes goes on: after what was taken, and within a list that has begun.
    sync_token    text,
    page_token    text,
    -- One more with each list that begins from nothing.
    listing       bigint not null default 0,
    -- One more with each job: what an older one still writes is refused.
    turn          bigint not null default 0,
    due_at        timestamptz not null default now(),
    began_at      timestamptz,
    ended_at      timestamptz,
    -- When both calendars were last the same.
    synced_at     timestamptz,
    -- Jobs in a row that failed, and why the last one did.
    failures      integer not null default 0,
    problem       text,
    -- What its user should know, the newest last: {at, text}.
    notes         jsonb not null default '[]',
    created_at    timestamptz not null default now(),
    check (state <> 'linked' or google_id is not null)
);
create index google_links_due on kb.google_links (due_at) where state = 'linked';
-- Two calendars of a user that are linked with the same one would copy each other's events twice.
create unique index google_links_once on kb.google_links (project_id, owner_user_id, google_id);
grant select (calendar_id, project_id, owner_user_id, state, choices, google_id, google_name, read_only, due_at, began_at, ended_at, synced_at,
              problem, notes, turn, listing)
    on kb.google_links to rejoin_app;
grant update (state, google_id, google_name, read_only, due_at, turn, sync_token, page_token, problem, notes, failures)
    on kb.google_links to rejoin_app;
grant delete on kb.google_links to rejoin_app;
grant select, insert, update on kb.google_links to rejoin_worker;
alter table kb.google_links enable row level security;
create policy app on kb.google_links to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.google_links to rejoin_worker using (true);

-- Events and those at Google that they are mapped to.
create table kb.google_events (
    calendar_id uuid not null references kb.google_links (calendar_id) on delete cascade,
    event_id    uuid not null references kb.calendar_events (id) on delete cascade,
    google_id   text not null check (length(google_id) between 1 and 1100),
    -- Google's version of it that was last seen; empty: what is there has to be looked at first.
    etag        text not null,
    -- The version here that is there, or that Google has refused.
    version     integer not null,
    -- What both last agreed on.
    base        jsonb not null,
    -- Beginnings of occurrences that are cancelled there by themselves.
    left_out    text[] not null default '{}',
    -- Of a changed occurrence, as when it was last seen: the series that it belongs to, and the beginning that it replaces.
    series_id   uuid,
    original    timestamptz,
    -- The last list from nothing that it was in.
    listing     bigint not null,
    primary key (calendar_id, event_id),
    unique (calendar_id, google_id)
);
create index google_events_of_event on kb.google_events (event_id);
grant select, delete on kb.google_events to rejoin_app;
grant select, insert, update, delete on kb.google_events to rejoin_worker;
alter table kb.google_events enable row level security;
create policy app on kb.google_events to rejoin_app
    using (exists (select from kb.google_links l where l.calendar_id = google_events.calendar_id));
create policy worker on kb.google_events to rejoin_worker using (true);

-- Calendars in which something was changed here. Rows are only added, so that no writer waits for another; the workers' sweep removes them.
create table kb.google_marks (
    id          bigint generated always as identity primary key,
    calendar_id uuid not null
);
-- (No row is updated: the right is needed to lock rows.)
grant select, update, delete on kb.google_marks to rejoin_worker;

-- As its owner, who may mark: a process that changes an event need not know that its calendar is linked.
create function kb.mark_google_calendars() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    -- What comes from there is no news to it.
    if coalesce(current_setting('rejoin.from_google', true), '') <> 'yes' then
        insert into kb.google_marks (calendar_id)
        select distinct c.calendar_id from changed c join kb.google_links l on l.calendar_id = c.calendar_id and l.state = 'linked';
    end if;
    return null;
end $$;

create trigger google_added after insert on kb.calendar_events
    referencing new table as changed for each statement execute function kb.mark_google_calendars();
create trigger google_changed after update on kb.calendar_events
    referencing new table as changed for each statement execute function kb.mark_google_calendars();
