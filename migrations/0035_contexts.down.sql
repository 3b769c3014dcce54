drop table kb.project_contexts;
alter table kb.agent_run_tool_calls drop column operation;
alter table kb.agent_runs drop column context;
alter table kb.chat_conversations drop column last_turn, drop column context;
