drop table kb.calendar_events;
drop table kb.calendars;
