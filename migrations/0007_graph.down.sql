-- Loses the graph, its packs and its vectors. pg_trgm and pgvector stay: they may have been there before, or something else may use them.
drop table
    kb.graph_changes, kb.chat_context_cache, kb.graph_words, kb.graph_embedding_marks, kb.graph_embeddings, kb.template_assignments,
    kb.template_packs, kb.graph_relationships, kb.graph_objects;
drop function
    kb.note_graph_change(), kb.learn_graph_words(), kb.words_of(text), kb.mark_graph_object(), kb.analyze_graph();
