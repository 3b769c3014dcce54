//! The syntax of each dialect, with the kinds of database that it indicates and its weight.

use Place::{Anywhere, Called, Statement};

use crate::databases::{Database, Databases};
use crate::vocabulary::MONGO;

pub(super) const POSTGRES: Databases = Databases::just(Database::PostgreSql);
const REDSHIFT: Databases = Databases::just(Database::Redshift);
pub(super) const MYSQL: Databases = Databases::just(Database::MySql);
pub(super) const SQLITE: Databases = Databases::just(Database::Sqlite);
pub(super) const DUCKDB: Databases = Databases::just(Database::DuckDb);
pub(super) const MSSQL: Databases = Databases::just(Database::MsSql);
pub(super) const CLICKHOUSE: Databases = Databases::just(Database::ClickHouse);
pub(super) const BIGQUERY: Databases = Databases::just(Database::BigQuery);
const SNOWFLAKE: Databases = Databases::just(Database::Snowflake);
/// Relatives of PostgreSQL, which share much of its dialect.
pub(super) const KIN: Databases = POSTGRES.and(REDSHIFT).and(DUCKDB);

pub(super) const SURE: f32 = 2.5;
pub(super) const CLEAR: f32 = 1.5;
pub(super) const HINT: f32 = 1.0;

/// The position at which a word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Anywhere: it does not occur in prose.
    Anywhere,
    /// Directly before a bracket.
    Called,
    /// In statements only: it is also an English word.
    Statement,
}

/// (kinds, weight, position, words and phrases), in lower case.
pub(super) const SHAPES: &[(Databases, f32, Place, &str)] = &[
    (
        MONGO,
        SURE,
        Anywhere,
        "$match, $group, $lookup, $unwind, $project, $sort, $limit, $addfields, $facet, $sortbycount, $replaceroot, $sum, $avg, $push, $addtoset, $pull, $set, $unset, $inc, $gt, $gte, $lt, $lte, $ne, $in, $nin, $exists, $regex, $elemmatch, $or, $and, $expr, $count, $oid, $date, $merge, $out, $size, $type, $text",
    ),
    (
        MONGO,
        SURE,
        Called,
        "objectid, isodate, numberlong, numberdecimal, insertone, insertmany, updateone, updatemany, deleteone, deletemany, replaceone, findone, findoneandupdate, findoneanddelete, find_one, insert_one, insert_many, update_one, update_many, delete_many, countdocuments, count_documents, bulkwrite, createindex, aggregate, getcollection, runcommand, estimateddocumentcount, findandmodify, getindexes, createindexes, dropindex, mapreduce",
    ),
    (
        MONGO,
        CLEAR,
        Anywhere,
        "show dbs, show collections, expireafterseconds, maxtimems, allowdiskuse, rs status, sh status, db admincommand, localfield, foreignfield",
    ),
    (
        POSTGRES,
        SURE,
        Anywhere,
        "pg_catalog, pg_stat_activity, pg_stat_statements, pg_class, pg_indexes, to_tsvector, to_tsquery, jsonb_build_object, jsonb_agg, jsonb_array_elements, jsonb_each, on conflict do, create extension, statement_timeout, bigserial, tsvector, timestamptz, skip locked, create index concurrently",
    ),
    (
        POSTGRES,
        SURE,
        Anywhere,
        "from stdin, to stdout, set search_path, create materialized view, raise notice, with ordinality, language plpgsql, pg_sleep, pg_size_pretty, gen_random_uuid, current_setting, json_object_agg, jsonb_object_agg, jsonb_path_query",
    ),
    (
        POSTGRES,
        CLEAR,
        Called,
        "to_char, array_length, string_to_array, regexp_matches, jsonb_set, row_to_json, json_agg, nextval, lo_get, percentile_cont",
    ),
    (KIN, SURE, Anywhere, "ilike, generate_series, distinct on"),
    (KIN.and(SQLITE), HINT, Statement, "returning"),
    (POSTGRES.and(SQLITE), CLEAR, Statement, "on conflict"),
    (
        POSTGRES,
        CLEAR,
        Statement,
        "explain analyze, explain analyze buffers, lateral, at time zone, serial, uuid, jsonb, create role, grant usage, alter system, using gin, using gist, vacuum",
    ),
    (KIN.and(SQLITE), CLEAR, Statement, "filter where"),
    (KIN.and(MYSQL).and(SQLITE), HINT, Statement, "with recursive"),
    (
        BIGQUERY,
        SURE,
        Anywhere,
        "_table_suffix, _partitiontime, _partitiondate, int64, float64, bignumeric, standardsql",
    ),
    (
        BIGQUERY,
        SURE,
        Anywhere,
        "gs, export data options, load data into, create external table, create snapshot table, create temp function",
    ),
    (BIGQUERY, CLEAR, Statement, "as string, execute immediate"),
    (
        BIGQUERY,
        SURE,
        Called,
        "safe_cast, safe_divide, safe_offset, ordinal, approx_count_distinct, approx_quantiles, countif, parse_date, format_date, parse_timestamp, format_timestamp, timestamp_trunc, timestamp_sub, timestamp_add, timestamp_diff, timestamp_millis, timestamp_micros, datetime_trunc, generate_date_array, generate_array, array_concat, net host, farm_fingerprint, json_value, json_extract_scalar, any_value, regexp_contains, regexp_extract, to_json_string, generate_uuid, range_bucket, st_geogpoint, datetime_diff, datetime_sub, timestamp_seconds, unix_millis",
    ),
    (
        BIGQUERY,
        CLEAR,
        Called,
        "struct, unnest, date_diff, logical_or, ml predict",
    ),
    (
        BIGQUERY,
        CLEAR,
        Statement,
        "unnest, struct, array struct, cluster by, partition by date, for system_time as, create model, when matched then, offset",
    ),
    (BIGQUERY.and(DUCKDB), CLEAR, Called, "except"),
    (
        BIGQUERY.and(DUCKDB).and(SNOWFLAKE).and(CLICKHOUSE),
        CLEAR,
        Anywhere,
        "qualify",
    ),
    (
        BIGQUERY.and(DUCKDB).and(SNOWFLAKE).and(MYSQL),
        HINT,
        Statement,
        "create or replace table",
    ),
    (
        MYSQL,
        SURE,
        Anywhere,
        "auto_increment, on duplicate key, utf8mb4, show create table, engine innodb, str_to_date, straight_join, find_in_set",
    ),
    (
        MYSQL,
        CLEAR,
        Called,
        "date_format, curdate, unix_timestamp, from_unixtime, group_concat, json_unquote",
    ),
    (
        KIN,
        CLEAR,
        Called,
        "split_part, regexp_split_to_table, make_interval, age",
    ),
    (KIN.and(MYSQL), HINT, Called, "now"),
    (KIN.and(BIGQUERY), HINT, Called, "string_agg, array_agg"),
    (BIGQUERY, HINT, Called, "current_timestamp, current_datetime"),
    (
        BIGQUERY.and(MYSQL),
        HINT,
        Called,
        "current_date, date_add, date_sub, if, ifnull",
    ),
    (MYSQL.and(MSSQL), HINT, Called, "year, month"),
    (
        MYSQL,
        CLEAR,
        Called,
        "timestampdiff, convert_tz, rlike, last_insert_id, json_contains",
    ),
    (MYSQL.and(MSSQL).and(REDSHIFT).and(SNOWFLAKE), HINT, Called, "datediff"),
    (MYSQL.and(SQLITE), HINT, Called, "ifnull"),
    (
        MYSQL,
        CLEAR,
        Statement,
        "show tables, show processlist, insert ignore, force index",
    ),
    (
        SQLITE,
        SURE,
        Anywhere,
        "sqlite_master, sqlite_schema, autoincrement, pragma, without rowid, julianday",
    ),
    (SQLITE, CLEAR, Called, "strftime, last_insert_rowid"),
    (SQLITE, CLEAR, Statement, "rowid, attach database"),
    (
        DUCKDB,
        SURE,
        Called,
        "read_parquet, read_csv_auto, read_csv, list_value, read_json_auto",
    ),
    (MSSQL, SURE, Anywhere, "nolock, sp_executesql, getdate, dbo, nvarchar"),
    (MSSQL, CLEAR, Statement, "select top, cross apply, outer apply, isnull"),
    (
        CLICKHOUSE,
        SURE,
        Anywhere,
        "mergetree, replacingmergetree, prewhere, tostartofmonth, tostartofday, uniqexact, arrayjoin, todatetime, limit by",
    ),
    (
        SNOWFLAKE,
        SURE,
        Anywhere,
        "object_construct, parse_json, try_parse_json, lateral flatten, warehouse_size",
    ),
];

/// Prefixes of functions and tables that are specific to one system.
pub(super) const BEGINNINGS: [(&str, Databases, Place); 7] = [
    ("pg_", POSTGRES, Anywhere),
    ("jsonb_", POSTGRES, Anywhere),
    ("safe_", BIGQUERY, Called),
    ("timestamp_", BIGQUERY, Called),
    ("sqlite_", SQLITE, Anywhere),
    ("innodb_", MYSQL, Anywhere),
    ("tostartof", CLICKHOUSE, Called),
];

/// Types that may follow `::` in a cast; `std::string` is none.
pub(super) const CASTS: &str = "text int int4 int8 integer bigint smallint numeric decimal float float8 real bool boolean date time timestamp timestamptz interval uuid json jsonb varchar char regclass bytea inet money";
