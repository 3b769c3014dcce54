-- Definitions of discussions start their agents side by side, and give all of their answers.
update kb.agent_definitions set flow_type = 'parallel', config = config #- '{flow,threshold}' #- '{flow,rounds}' where flow_type = 'discussion';
alter table kb.agent_definitions
    drop constraint agent_definitions_flow_type_check,
    add constraint agent_definitions_flow_type_check check (flow_type in ('single', 'sequential', 'loop', 'parallel'));
