drop table kb.calendar_event_entities;
