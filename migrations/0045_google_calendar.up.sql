-- Calendars that are kept the same as ones at Google (docs/CALENDAR.md, docs/decisions/0024-google-calendar.md).

-- Users who were sent to Google to let us in. Each is used once, soon.
create table kb.google_consents (
    -- SHA-256 of what Google gives back with its answer.
    state_hash    bytea primary key check (octet_length(state_hash) = 32),
    calendar_id   uuid not null references kb.calendars (id) on delete cascade,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    owner_user_id uuid not null references kb.users (id) on delete cascade,
    -- RFC 7636: shows Google that who asked is who comes back.
    verifier      text not null,
    redirect_url  text not null,
    -- What the user came back with; a worker takes it to Google.
    code          text check (length(code) <= 4000),
    -- Why nothing came of it, in words.
    failure       text,
    expires_at    timestamptz not null
);
create index google_consents_expired on kb.google_consents (expires_at);

-- A calendar and its like at Google.
create table kb.google_links (
    calendar_id   uuid primary key references kb.calendars (id) on delete cascade,
    project_id    uuid not null references kb.projects (id) on delete cascade,
    owner_user_id uuid not null references kb.users (id) on delete cascade,
    -- choosing: its user has let us in, and has not said yet which calendar; revoked: Google does not let us in any more.
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
    -- One more with each job: what an older one still says is refused.
    turn          bigint not null default 0,
    due_at        timestamptz not null default now(),
    began_at      timestamptz,
    ended_at      timestamptz,
    -- When both sides were last the same.
    synced_at     timestamptz,
    -- Jobs in a row that could not do it, and why the last one could not.
    failures      integer not null default 0,
    problem       text,
    -- What its user should know, the newest last: {at, text}.
    notes         jsonb not null default '[]',
    created_at    timestamptz not null default now(),
    check (state <> 'linked' or google_id is not null)
);
create index google_links_due on kb.google_links (due_at) where state = 'linked';
-- Two calendars of a user that are kept the same as one would tell each other's events twice.
create unique index google_links_once on kb.google_links (project_id, owner_user_id, google_id);

-- Events and their likes at Google.
create table kb.google_events (
    calendar_id uuid not null references kb.google_links (calendar_id) on delete cascade,
    event_id    uuid not null references kb.calendar_events (id) on delete cascade,
    google_id   text not null check (length(google_id) between 1 and 1100),
    -- Google's version of it that was last seen; empty: what is there has to be looked at first.
    etag        text not null,
    -- The version here that is there, or that Google has refused.
    version     integer not null,
    -- What both sides last agreed on.
    base        jsonb not null,
    -- Beginnings of occurrences that are cancelled there by themselves.
    left_out    text[] not null default '{}',
    -- Of a changed occurrence, as when it was last seen: what it belongs to, and the beginning that it replaces.
    series_id   uuid,
    original    timestamptz,
    -- The last list from nothing that it was in.
    listing     bigint not null,
    primary key (calendar_id, event_id),
    unique (calendar_id, google_id)
);
create index google_events_of_event on kb.google_events (event_id);

-- Calendars in which something was changed here. Rows are only added, so that nobody waits for anybody; the workers' sweep takes them away.
create table kb.google_marks (
    id          bigint generated always as identity primary key,
    calendar_id uuid not null
);

-- As its owner, who may mark: whoever changes an event need not know that its calendar is linked.
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

-- The API sends users to Google and takes what they come back with; workers do the rest. The API reads no sealed token.
grant insert, delete on kb.google_consents to rejoin_app;
grant select (state_hash, calendar_id, project_id, owner_user_id, code, failure, expires_at) on kb.google_consents to rejoin_app;
grant update (code) on kb.google_consents to rejoin_app;
grant select, update, delete on kb.google_consents to rejoin_worker;
grant select (calendar_id, project_id, owner_user_id, state, choices, google_id, google_name, read_only, due_at, began_at, ended_at, synced_at, problem, notes, turn, listing)
    on kb.google_links to rejoin_app;
grant update (state, google_id, google_name, read_only, due_at, turn, sync_token, page_token, problem, notes, failures) on kb.google_links to rejoin_app;
grant delete on kb.google_links to rejoin_app;
grant select, insert, update on kb.google_links to rejoin_worker;
grant select, delete on kb.google_events to rejoin_app;
grant select, insert, update, delete on kb.google_events to rejoin_worker;
-- (An update is not made: rows are locked.)
grant select, update, delete on kb.google_marks to rejoin_worker;
-- Who has left a project is not synchronised any more.
grant select (project_id, user_id) on kb.project_members to rejoin_worker;
create policy worker on kb.project_members for select to rejoin_worker using (true);

alter table kb.google_consents enable row level security;
create policy app on kb.google_consents to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.google_consents to rejoin_worker using (true);
alter table kb.google_links enable row level security;
create policy app on kb.google_links to rejoin_app
    using (project_id = kb.current_project() and owner_user_id = kb.current_owner());
create policy worker on kb.google_links to rejoin_worker using (true);
alter table kb.google_events enable row level security;
create policy app on kb.google_events to rejoin_app
    using (exists (select from kb.google_links l where l.calendar_id = google_events.calendar_id));
create policy worker on kb.google_events to rejoin_worker using (true);
