-- Loses all files, and which messages named them.
alter table kb.run_inbox drop column attachments;
drop table kb.message_files;
drop table kb.file_chunks;
drop function kb.files_bytes(uuid);
drop table kb.files;
