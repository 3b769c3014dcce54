-- Loses the vectors, which can be made again. The extension stays: others may use it.
drop trigger graph_objects_mark on kb.graph_objects;
drop function kb.mark_graph_object();
drop table kb.graph_embedding_marks;
drop table kb.graph_embeddings;
revoke select (id) on kb.projects from rejoin_worker;
