alter table kb.chat_conversations drop column pinned_console_id;
drop table kb.console_versions;
drop table kb.consoles;
