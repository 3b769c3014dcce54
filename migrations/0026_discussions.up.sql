-- Flows may be discussions.
alter table kb.agent_definitions
    drop constraint agent_definitions_flow_type_check,
    add constraint agent_definitions_flow_type_check
        check (flow_type in ('single', 'sequential', 'loop', 'parallel', 'discussion'));
