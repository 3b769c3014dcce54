-- Loses all events.
drop schema stream cascade;
