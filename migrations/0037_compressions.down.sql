drop table kb.chat_compressions;
