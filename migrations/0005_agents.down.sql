drop table kb.stream_tickets;
drop table kb.idempotency_keys;
drop table kb.agent_run_tool_calls;
drop table kb.agent_run_messages;
drop table kb.agent_runs;
drop table kb.agent_definitions;
