-- Loses the schedules, and what runs were forked from.
alter table kb.agent_runs drop column forked_from_run_id, drop column forked_from_step;
drop function kb.exhausted;
drop table kb.schedules;
