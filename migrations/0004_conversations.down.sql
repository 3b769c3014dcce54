drop table kb.chat_messages;
drop table kb.chat_conversations;
