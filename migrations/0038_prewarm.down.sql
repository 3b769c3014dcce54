drop trigger note_deletes on kb.graph_relationships;
drop trigger note_updates on kb.graph_relationships;
drop trigger note_inserts on kb.graph_relationships;
drop trigger note_deletes on kb.graph_objects;
drop trigger note_updates on kb.graph_objects;
drop trigger note_inserts on kb.graph_objects;
drop function kb.note_graph_change;
drop table kb.graph_changes;
drop table kb.chat_context_cache;
