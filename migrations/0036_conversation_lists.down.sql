-- Loses pins, folders, archives and read marks of conversations, the relations of their branches, and labels of feedback.
alter table kb.message_feedback drop column labels;
drop table kb.chat_branches;
alter table kb.chat_conversations
    drop column last_read_seq,
    drop column folder_id,
    drop column archived_at,
    drop column pinned_at;
drop table kb.chat_folders;
