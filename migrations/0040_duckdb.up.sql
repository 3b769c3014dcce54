-- DuckDB's files are data sources, too.
alter table kb.data_sources
    drop constraint data_sources_kind_check,
    add constraint data_sources_kind_check check (kind in ('postgresql', 'mysql', 'sqlite', 'duckdb', 'mongodb', 'bigquery'));
