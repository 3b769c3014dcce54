-- Loses data sources and their passwords, consoles and which conversations they were pinned in, and the queries that were learned.
alter table kb.chat_conversations drop constraint chat_conversations_pinned_console_id_fkey;
update kb.chat_conversations set pinned_console_id = null where pinned_console_id is not null;
drop table kb.query_patterns, kb.console_versions, kb.consoles, kb.data_source_schemas, kb.data_sources;
