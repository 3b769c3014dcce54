//! The terms, each with the kinds of database that it indicates and its weight.

use crate::databases::{Database, Databases};

pub(super) const POSTGRES: Databases = Databases::just(Database::PostgreSql);
pub(super) const MYSQL: Databases = Databases::just(Database::MySql);
pub(super) const SQLITE: Databases = Databases::just(Database::Sqlite);
const DUCKDB: Databases = Databases::just(Database::DuckDb);
const MSSQL: Databases = Databases::just(Database::MsSql);
pub(super) const CLICKHOUSE: Databases = Databases::just(Database::ClickHouse);
const REDSHIFT: Databases = Databases::just(Database::Redshift);
pub(super) const BIGQUERY: Databases = Databases::just(Database::BigQuery);
pub(super) const SNOWFLAKE: Databases = Databases::just(Database::Snowflake);
pub(crate) const MONGO: Databases = Databases::just(Database::MongoDb);
/// All SQL databases.
pub(crate) const SQL: Databases = POSTGRES.and(MYSQL).and(SQLITE).and(DUCKDB).and(MSSQL).and(WAREHOUSES);
const WAREHOUSES: Databases = BIGQUERY.and(SNOWFLAKE).and(REDSHIFT).and(CLICKHOUSE);
/// Row-oriented databases, in contrast to warehouses.
const SERVERS: Databases = POSTGRES.and(MYSQL).and(MSSQL);

/// Weight of a name or unique feature.
pub(super) const NAME: f32 = 3.0;
/// Weight of words hardly used for anything else.
const STRONG: f32 = 2.0;
pub(super) const CLEAR: f32 = 1.5;
/// Weight that decides alone, without counter-evidence.
pub(super) const ENOUGH: f32 = 1.0;
/// Weight that counts together with others only.
pub(super) const WEAK: f32 = 0.6;
const FAINT: f32 = 0.3;

/// (kinds, weight, words and phrases separated by commas), in lower case, without punctuation.
pub(super) const TERMS: &[(Databases, f32, &str)] = &[
    // Document databases.
    (
        MONGO,
        NAME,
        "mongo, mongodb, mongo db, mongosh, bson, mql, gridfs, objectid, isodate, wiredtiger",
    ),
    (
        MONGO,
        NAME,
        "aggregation pipeline, aggregation pipelines, aggregate pipeline, pipeline d agrégation, pipeline de agregación, pipeline de agregação, aggregation stage, capped collection, time series collection",
    ),
    (
        MONGO,
        STRONG,
        "_id, nosql, no sql, document store, document database, embedded document, embedded documents, nested documents, subdocument, subdocuments, replica set, replicaset, change stream, change streams, sharded collection, collstats, oplog, ttl index, findandmodify, findoneandupdate, expireafterseconds, atlas search",
    ),
    (
        MONGO,
        STRONG,
        "e11000, duplicate key error, plan executor, exceededtimelimit, cursornotfound, writeconflict, unrecognized pipeline stage, sort exceeded memory, server selection timeout, serverselectiontimeout, not primary, executionstats",
    ),
    (
        MONGO,
        ENOUGH,
        "sample documents, all documents, every document, count documents, documents per, documents in collection, insert documents, docs, facet stage, lookup stage, unwind the, unwind stage",
    ),
    (
        MONGO,
        WEAK,
        "document, documents, aggregate, aggregates, aggregation, aggregations, aggregiere, aggregieren, agrégation, agrégations, agréger, agregación, agregação, dokument, dokumente, dokumenten, documento, documentos, documenti, documenten, dokumentów, документов, документы, doc, atlas cluster, mongo compass, sharded, shard, chunks, unwind, nested array, nested arrays, array of objects, arrays of objects, nested object, nested objects",
    ),
    (MONGO, FAINT, "pipeline, projection"),
    // PostgreSQL.
    (
        POSTGRES,
        NAME,
        "postgres, postgresql, postgre, postgre sql, pg, psql, pgsql, pgadmin, plpgsql, pgvector, postgis, pgbouncer, pgpool, pgbackrest, hstore, ltree, citext, timescaledb, timescale, supabase, jsonb, tsvector, tsquery, timestamptz, autovacuum, hypertable, citus",
    ),
    (
        POSTGRES,
        STRONG,
        "bigserial, gin index, gist index, brin index, toast table, vacuum full, vacuum analyze, row level security, sqlstate, neon database, wal, walsender, replication slot, logical replication, logical decoding, listen notify, regclass, explain analyze, search_path, wraparound, hot standby, unlogged table, partial unique index, streaming replication, advisory lock, advisory locks, skip locked, using gin",
    ),
    (
        POSTGRES,
        STRONG,
        "at or near, canceling statement due to, not serialize access, connection slots, violates unique constraint, violates check constraint, violates not null constraint, transaction is aborted, invalid input syntax, too many clients already, statement timeout, permission denied for relation, permission denied for schema, password authentication failed, deadlock detected",
    ),
    (
        POSTGRES,
        ENOUGH,
        "seq scan, index scan, index only scan, bitmap heap scan, nested loop, hash join, merge join, on conflict, table bloat, dead tuples, partial index, expression index, generate_series, create extension",
    ),
    (
        SERVERS,
        ENOUGH,
        "full table scan, table scan, sequential scan, foreign key, foreign keys, deadlock, deadlocks, stored procedure, stored procedures, trigger function",
    ),
    (SERVERS, WEAK, "replica lag, read replica, connection pool"),
    // Other row-oriented databases.
    (
        MYSQL,
        NAME,
        "mysql, my sql, mariadb, maria db, innodb, myisam, phpmyadmin, percona, planetscale, auto_increment, group_concat",
    ),
    (
        MYSQL,
        STRONG,
        "your sql syntax, lock wait timeout, server has gone away, access denied for user, using password, incorrect string value, duplicate entry, slow query log, binlog, show tables, show databases, show processlist, error 1062, error 1064, error 1045, error 1146, error 1205, error 2002, error 2006",
    ),
    (SQLITE, NAME, "sqlite, sqlite3, sqlite_master, sq lite, cloudflare d1"),
    (
        SQLITE,
        STRONG,
        "database is locked, no such table, no such column, disk image is malformed, open database file",
    ),
    (DUCKDB, NAME, "duckdb, duck db, motherduck"),
    (
        MSSQL,
        NAME,
        "sql server, sqlserver, mssql, ms sql, t sql, tsql, ssms, azure sql",
    ),
    (CLICKHOUSE, NAME, "clickhouse, click house, mergetree"),
    (REDSHIFT, NAME, "redshift"),
    (SNOWFLAKE, NAME, "snowflake, snowsight, snowpipe"),
    // Warehouses.
    (
        BIGQUERY,
        NAME,
        "bigquery, big query, bq, bqml, gbq, _table_suffix, _partitiontime, _partitiondate, approx_count_distinct, safe_divide, safe_cast",
    ),
    (
        BIGQUERY,
        STRONG,
        "ga4, google analytics, legacy sql, standard sql, standardsql, bytes billed, bytes processed, bytes scanned, gb scanned, tb scanned, event_params, ga_session_id, scheduled query, scheduled queries, google cloud, gcp, gcs bucket, firebase, crashlytics, information_schema jobs, information_schema jobs_by_project, repeated record, repeated field, repeated fields, slot usage, slot hours, looker studio, data studio, wildcard table, wildcard tables, date sharded, streaming buffer, billing export, dataform, authorized view, authorized views, bi engine",
    ),
    (
        BIGQUERY,
        STRONG,
        "resources exceeded, quota exceeded, exceeded quota, cannot query over, not found dataset, access denied project, no matching signature, unrecognized name, partition filter",
    ),
    (
        BIGQUERY,
        CLEAR,
        "many bytes, dry run, per tb, on demand pricing, unnest, partitioned table, partitioned tables, daily tables, many slots, ingestion time, ingestion day",
    ),
    (
        WAREHOUSES,
        CLEAR,
        "data warehouse, datawarehouse, entrepôt de données, almacén de datos, armazém de dados, tables in the warehouse, table in the warehouse, warehouse tables",
    ),
    (
        BIGQUERY,
        ENOUGH,
        "dataset, datasets, data set, data sets, jeu de données, jeux de données, conjunto de datos, conjuntos de datos, conjunto de dados, conjuntos de dados",
    ),
    (
        BIGQUERY,
        WEAK,
        "partitioned, partitioniert, partition, partitions, scan, scans, scanned, escanearon, gescannt, clustered, clustering, cluster on, cluster by",
    ),
    (POSTGRES.and(BIGQUERY), WEAK, "materialized view, materialized views"),
    // All row-and-column databases.
    (SQL, CLEAR, "sql"),
    (
        SQL,
        ENOUGH,
        "table, tables, tabelle, tabellen, tabla, tablas, tabela, tabelas, tabele, tabella, tabel, таблица, таблицы, таблице, テーブル, 表, 테이블",
    ),
    (
        SQL,
        ENOUGH,
        "cte, ctes, subquery, subqueries, window function, window functions, left join, right join, inner join, outer join, full join, cross join, self join, primary key, primary keys, nullable, row count, row counts, alter table, group by clause, where clause, stored proc, rows and columns, is null, is not null, varchar",
    ),
    (
        SQL,
        WEAK,
        "columns, column, spalte, spalten, colonne, colonnes, columna, columnas, coluna, colunas, colonna, kolom, kolommen, kolumny, having, group by, order by, nulls",
    ),
    (
        SQL,
        FAINT,
        "select, row, rows, zeile, zeilen, join, joins, lignes, filas, linhas",
    ),
    // Topics without a specialist.
    (
        Databases::ELSEWHERE,
        NAME,
        "redis, elasticsearch, opensearch, cassandra, dynamodb, neo4j, couchdb, firestore, cosmosdb, cosmos db, influxdb, excel sheet, excel file, google sheets, spreadsheet, oracle sql, oracle database, oracle db, pl sql, plsql, databricks, athena, kafka, elastic",
    ),
    // Phrases that contain such a word but mean something else.
    (
        Databases::NONE,
        0.0,
        "debt collection, data collection, garbage collection, waste collection, cash collection, toll collection, tax collection, collections agency, collections department, collections team, collection agency, collection agencies, collection date, collection point, collection points, collection rate, collection of, on the collections",
    ),
    (
        Databases::NONE,
        0.0,
        "table of contents, as a table, in a table, pivot table, table tennis, dining table, dining tables, coffee table, tables did, book a table, set up the table, on the table, round table, table football",
    ),
    (
        Databases::NONE,
        0.0,
        "aggregate demand, aggregate supply, aggregate numbers, in the aggregate, in aggregate, aggregate rating, sales pipeline, ci pipeline, build pipeline, deal pipeline, hiring pipeline, deployment pipeline, which documents do, the document that, and other documents, legal documents, travel documents, column of people, select committee, join us, row of the, in which row, in a row, rows of seats",
    ),
];
