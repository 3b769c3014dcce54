-- Loses conversations, agents and runs.
drop function kb.run_pace(int), kb.exhausted(uuid), kb.used_today(uuid);
drop view kb.listed_runs;
drop table
    kb.project_contexts, kb.model_prices, kb.run_inbox, kb.questions, kb.idempotency_keys, kb.agent_run_tool_calls, kb.agent_run_messages,
    kb.agent_runs, kb.chat_compressions, kb.chat_messages, kb.chat_conversations, kb.agent_definitions;
