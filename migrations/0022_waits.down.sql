drop table kb.model_prices, kb.run_inbox, kb.questions;
drop index kb.agent_runs_sub_agents, kb.agent_runs_spawned;
alter table kb.agent_runs
    drop column spawn_call_id, drop column spawn_position, drop column turn_step, drop column waiting_since, drop column waited_s,
    drop column questions_open, drop column questions_since, drop column person_s,
    drop column tree_tokens, drop column tree_cost_usd, drop column tree_runs;
-- Parked jobs become due: the version before ends their runs as best it can.
update queue.jobs set run_at = now() where state = 'available' and run_at = 'infinity';
