-- Loses calendars, their feeds, and their links with Google.
drop table
    kb.google_marks, kb.google_events, kb.google_links, kb.google_consents, kb.calendar_feeds, kb.calendar_event_entities, kb.calendar_events,
    kb.calendars;
drop function kb.mark_google_calendars();
