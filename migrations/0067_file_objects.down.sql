-- Loses where the content of files in an object store is: those files can't be read any more, and their objects stay there.
drop trigger file_object_of_deleted_content on kb.files;
drop trigger file_object_of_deleted_row on kb.files;
drop function kb.note_file_object();
drop table kb.file_objects_left;
alter table kb.files drop column upload_id;
alter table kb.files drop column in_object_store;
