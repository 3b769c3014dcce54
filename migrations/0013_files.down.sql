-- Loses all files, and which messages named them. Objects in an object store stay there.
drop table kb.message_files, kb.file_chunks, kb.files, kb.file_objects_left;
drop function kb.note_file_object(), kb.files_bytes(uuid);
