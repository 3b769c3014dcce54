-- Binds a conversation to an agent for its whole life. Null: a plain conversation, as all older ones stay.
alter table kb.chat_conversations
    add column agent_definition_id uuid references kb.agent_definitions (id);
