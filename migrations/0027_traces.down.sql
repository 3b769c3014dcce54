-- Loses: which traces runs belong to.
drop function kb.post_message(uuid, uuid, uuid, uuid, text, jsonb, text, uuid, uuid, jsonb, text, text, int, text, text);
alter table kb.agent_runs drop column traceparent;
