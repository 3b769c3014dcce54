-- Loses settings of routing, which conversations were in the control group, prompts of projects and users, and ratings of answers.
drop function kb.routing_arms(uuid, int), kb.routing_stats(uuid, int);
drop table kb.message_feedback, kb.user_prompts, kb.project_prompts, kb.routing_controls, kb.routing;
