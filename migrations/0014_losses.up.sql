-- How long a job waits after a lost lease goes by the leases that were lost in a row without anything put on record, no longer by its
-- attempts: those count hand-overs of workers that left, too, and losses of a run that gets on between them.
alter table queue.jobs add column losses smallint not null default 0;
