-- What the release after a made-up older one would have added to its schema. What the columns are for: migrations/0006_runs.up.sql.
alter table kb.chat_conversations
    add column agent_definition_id uuid references kb.agent_definitions (id),
    add column pinned_console_id   uuid references kb.consoles (id) on delete set null,
    add column context             jsonb,
    add column last_turn           jsonb;
create index chat_conversations_pinned on kb.chat_conversations (pinned_console_id) where pinned_console_id is not null;
alter table kb.agent_run_tool_calls add column operation jsonb;
alter table kb.agent_runs
    add column context       jsonb,
    add column part          jsonb,
    add column output_schema jsonb;
alter table kb.agent_definitions
    drop constraint agent_definitions_flow_type_check,
    add constraint agent_definitions_flow_type_check
        check (flow_type in ('single', 'sequential', 'loop', 'parallel', 'discussion', 'function'));
