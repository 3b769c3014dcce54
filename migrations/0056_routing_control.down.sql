-- Loses which conversations were in the control group, and the control agent.
drop function kb.routing_arms;
drop table kb.routing_controls;
alter table kb.routing drop column control_agent;
