drop index kb.graph_embeddings_new;
drop trigger graph_objects_words on kb.graph_objects;
drop function kb.learn_graph_words();
drop function kb.words_of(text);
drop table kb.graph_words;
