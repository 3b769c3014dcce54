-- What asks DuckDB goes: an older version can't.
delete from kb.data_sources where kind = 'duckdb';
alter table kb.data_sources
    drop constraint data_sources_kind_check,
    add constraint data_sources_kind_check check (kind in ('postgresql', 'mysql', 'sqlite', 'mongodb', 'bigquery'));
