drop table kb.graph_relationships;
drop table kb.graph_objects;
-- pg_trgm stays: it may have been there before, or something else may use it.
