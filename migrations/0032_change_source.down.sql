alter table kb.graph_relationships drop column change_source, drop column change_id;
alter table kb.graph_objects drop column change_source, drop column change_id;
