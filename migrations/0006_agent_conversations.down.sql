alter table kb.chat_conversations drop column agent_definition_id;
