drop table kb.data_source_schemas;
drop table kb.data_sources;
