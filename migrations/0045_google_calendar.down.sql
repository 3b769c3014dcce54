drop trigger google_added on kb.calendar_events;
drop trigger google_changed on kb.calendar_events;
drop function kb.mark_google_calendars();
drop table kb.google_marks;
drop table kb.google_events;
drop table kb.google_links;
drop table kb.google_consents;
drop policy worker on kb.project_members;
revoke select (project_id, user_id) on kb.project_members from rejoin_worker;
