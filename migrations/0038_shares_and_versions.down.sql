-- Loses the links of shared conversations, earlier versions of agents, and which version and which chosen model a run had.
drop trigger stamped on kb.agent_runs;
drop function kb.stamp_agent_version;
alter table kb.agent_runs
    drop column requested_model,
    drop column agent_version;
alter table kb.chat_conversations drop column agent_version;
drop trigger kept on kb.agent_definitions;
drop function kb.keep_agent_version;
drop trigger numbered on kb.agent_definitions;
drop function kb.number_agent_version;
drop table kb.agent_versions;
drop function kb.agent_content;
alter table kb.agent_definitions drop column version;
drop function kb.share_opened;
drop policy reader on kb.file_chunks;
drop policy reader on kb.files;
drop policy reader on kb.message_files;
revoke select on kb.message_files, kb.files, kb.file_chunks from rejoin_gate;
drop policy reader on kb.chat_messages;
revoke select (id, conversation_id, role, content, citations, metadata, seq, created_at) on kb.chat_messages from rejoin_gate;
drop policy reader on kb.chat_conversations;
revoke select (id, title, created_at, updated_at) on kb.chat_conversations from rejoin_gate;
drop table kb.conversation_shares;
drop function kb.current_share;
