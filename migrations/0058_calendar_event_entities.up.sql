-- Which entities of the work graph an event of a calendar belongs to (docs/CALENDAR.md).

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
-- Whoever sees the event.
create policy app on kb.calendar_event_entities to rejoin_app
    using (exists (select from kb.calendar_events e where e.id = event_id));
create policy worker on kb.calendar_event_entities to rejoin_worker using (true);
