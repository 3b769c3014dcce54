-- What the release after a made-up older one would have added to its schema. What the columns are for: migrations/0006_runs.up.sql.
alter table kb.chat_conversations
    add column agent_definition_id uuid references kb.agent_definitions (id),
    add column context   jsonb,
    add column last_turn jsonb;
alter table kb.agent_run_tool_calls add column operation jsonb;
alter table kb.agent_runs
    add column spawn_call_id      uuid,
    add column spawn_position     int,
    add column turn_step          int not null default 0,
    add column waiting_since      timestamptz,
    add column waited_s           double precision not null default 0,
    add column questions_open     int not null default 0,
    add column questions_since    timestamptz,
    add column person_s           double precision not null default 0,
    add column tree_tokens        bigint not null default 0,
    add column tree_cost_usd      double precision not null default 0,
    add column tree_runs          int not null default 0,
    add column task_id            uuid,
    add column forked_from_run_id uuid,
    add column forked_from_step   int,
    add column context            jsonb,
    add column part               jsonb,
    add column output_schema      jsonb;
create index agent_runs_spawned on kb.agent_runs (spawn_call_id, spawn_position) where spawn_call_id is not null;
alter table kb.agent_definitions
    drop constraint agent_definitions_flow_type_check,
    add constraint agent_definitions_flow_type_check
        check (flow_type in ('single', 'sequential', 'loop', 'parallel', 'discussion'));
