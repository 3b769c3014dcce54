-- Takes the newest schema back to that of a made-up older release: conversations know no agents and no contexts, runs no tasks, no trees, no
-- waits. Loses what the columns hold.
alter table kb.chat_conversations
    drop column agent_definition_id,
    drop column context,
    drop column last_turn;
alter table kb.agent_run_tool_calls drop column operation;
alter table kb.agent_runs
    drop column spawn_call_id,
    drop column spawn_position,
    drop column turn_step,
    drop column waiting_since,
    drop column waited_s,
    drop column questions_open,
    drop column questions_since,
    drop column person_s,
    drop column tree_tokens,
    drop column tree_cost_usd,
    drop column tree_runs,
    drop column task_id,
    drop column forked_from_run_id,
    drop column forked_from_step,
    drop column context,
    drop column part,
    drop column output_schema;
-- A flow that the older release did not know becomes the one that is nearest to it.
update kb.agent_definitions set flow_type = 'parallel' where flow_type = 'discussion';
alter table kb.agent_definitions
    drop constraint agent_definitions_flow_type_check,
    add constraint agent_definitions_flow_type_check check (flow_type in ('single', 'sequential', 'loop', 'parallel'));
