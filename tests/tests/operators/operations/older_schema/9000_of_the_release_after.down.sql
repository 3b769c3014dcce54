-- Takes the newest schema back to that of a made-up older release: conversations know no agents, consoles and contexts, runs no contexts, plans
-- and schemas. Loses what the columns hold. Only the last columns of a table go, since queries read `*` by the order of columns.
alter table kb.chat_conversations
    drop column agent_definition_id,
    drop column pinned_console_id,
    drop column context,
    drop column last_turn;
alter table kb.agent_run_tool_calls drop column operation;
alter table kb.agent_runs
    drop column context,
    drop column part,
    drop column output_schema;
-- A flow that the older release did not know becomes the one that is nearest to it.
update kb.agent_definitions set flow_type = 'parallel' where flow_type = 'discussion';
alter table kb.agent_definitions
    drop constraint agent_definitions_flow_type_check,
    add constraint agent_definitions_flow_type_check check (flow_type in ('single', 'sequential', 'loop', 'parallel'));
