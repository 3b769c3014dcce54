drop function kb.run_pace(int);
drop index kb.agent_runs_begun, kb.agent_runs_ended;
