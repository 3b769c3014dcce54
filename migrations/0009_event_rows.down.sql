drop index kb.agent_runs_finished;
drop table stream.upkeep;
drop view stream.each_event;
-- One event a row again.
with packed as (
    delete from stream.events where first_seq is not null returning *)
insert into stream.events (log_id, seq, run_id, type, data, created_at)
select p.log_id, p.first_seq + line.nth - 1, p.run_id, p.type, line.data, p.created_at
from packed p
cross join lateral unnest(string_to_array(p.data, e'\n')) with ordinality line(data, nth);
alter table stream.events reset (autovacuum_vacuum_scale_factor);
create index events_created on stream.events using brin (created_at);
alter table stream.events drop column first_seq;
