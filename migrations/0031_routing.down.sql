drop function kb.routing_stats;
drop table kb.message_feedback;
drop table kb.user_prompts;
drop table kb.project_prompts;
drop index kb.agent_runs_routed;
alter table kb.agent_runs drop column routing;
drop table kb.routing;
