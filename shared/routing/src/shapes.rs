//! Query syntax that is specific to one language or SQL dialect, in consoles and within messages.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::databases::{Database, Databases};
use super::evidence::{Evidence, Sign};
use super::vocabulary::{MONGO, SQL};
use super::words::Words;

const POSTGRES: Databases = Databases::just(Database::PostgreSql);
const REDSHIFT: Databases = Databases::just(Database::Redshift);
const MYSQL: Databases = Databases::just(Database::MySql);
const SQLITE: Databases = Databases::just(Database::Sqlite);
const DUCKDB: Databases = Databases::just(Database::DuckDb);
const MSSQL: Databases = Databases::just(Database::MsSql);
const CLICKHOUSE: Databases = Databases::just(Database::ClickHouse);
const BIGQUERY: Databases = Databases::just(Database::BigQuery);
const SNOWFLAKE: Databases = Databases::just(Database::Snowflake);
/// Relatives of PostgreSQL, which share much of its dialect.
const KIN: Databases = POSTGRES.and(REDSHIFT).and(DUCKDB);

const SURE: f32 = 2.5;
const CLEAR: f32 = 1.5;
const HINT: f32 = 1.0;
/// Weight of a statement in any SQL.
const STATEMENT: f32 = 1.5;

/// The position at which a word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Anywhere: it does not occur in prose.
    Anywhere,
    /// Directly before a bracket.
    Called,
    /// In statements only: it is also an English word.
    Statement,
}
use Place::{Anywhere, Called, Statement};

/// (kinds, weight, position, words and phrases), in lower case.
const SHAPES: &[(Databases, f32, Place, &str)] = &[
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
const BEGINNINGS: [(&str, Databases, Place); 7] = [
    ("pg_", POSTGRES, Anywhere),
    ("jsonb_", POSTGRES, Anywhere),
    ("safe_", BIGQUERY, Called),
    ("timestamp_", BIGQUERY, Called),
    ("sqlite_", SQLITE, Anywhere),
    ("innodb_", MYSQL, Anywhere),
    ("tostartof", CLICKHOUSE, Called),
];

/// Types that may follow `::` in a cast; `std::string` is none.
const CASTS: &str = "text int int4 int8 integer bigint smallint numeric decimal float float8 real bool boolean date time timestamp timestamptz interval uuid json jsonb varchar char regclass bytea inet money";

/// The kinds indicated by a word or phrase, by position.
type Shapes = HashMap<&'static str, Vec<(Databases, f32, Place)>>;

static WORDS: LazyLock<Shapes> = LazyLock::new(|| {
    let mut words = Shapes::new();
    for (databases, weight, place, list) in SHAPES {
        for text in list.split(", ") {
            words.entry(text).or_default().push((*databases, *weight, *place));
            // So that phrases are only searched for at their first word.
            words.entry(text.split(' ').next().unwrap_or(text)).or_default();
        }
    }
    words
});

/// Maximum length of a phrase, in words.
const MAX_PHRASE: usize = 4;
/// Maximum distance of FROM behind SELECT, in words.
const MAX_SELECT: usize = 80;

/// Adds the evidence of query syntax in a text. `words` are the words of `source`; `is_code`: it is a console's.
pub fn read(source: &str, words: &Words, is_code: bool, evidence: &mut Evidence) {
    let add = |evidence: &mut Evidence, term, databases, weight| {
        evidence.add(Sign {
            term,
            databases,
            weight,
        })
    };
    let statement = statement(source, words, is_code);
    if let Some(term) = statement {
        add(evidence, term, SQL, STATEMENT);
    }
    let known = &*WORDS;
    for at in 0..words.len() {
        for count in 1..=MAX_PHRASE {
            let Some((term, shapes)) = known.get_key_value(words.phrase(at, count)) else {
                if count == 1 {
                    break;
                }
                continue;
            };
            let called = words.get(at + count - 1).is_some_and(|word| word.behind == b'(');
            for (databases, weight, place) in shapes {
                let fits = match place {
                    Anywhere => true,
                    Called => called,
                    Statement => statement.is_some(),
                };
                if fits {
                    add(evidence, term, *databases, *weight);
                }
            }
        }
        if let Some((term, databases, weight)) = around(words, at, statement.is_some()) {
            add(evidence, term, databases, weight);
        }
    }
    if source.split_whitespace().any(is_psql) {
        add(evidence, "\\d", POSTGRES, CLEAR);
    }
    if source.contains("->>") {
        add(evidence, "->>", POSTGRES.and(MYSQL).and(SQLITE).and(DUCKDB), CLEAR);
        add(evidence, "->> ", POSTGRES, 0.5);
    }
    if statement.is_some() {
        if source.contains("@>") || source.contains(" ~* ") {
            add(evidence, "@>", POSTGRES, SURE);
        }
        for quoted in source.split('`').skip(1).step_by(2) {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'*');
            if !quoted.is_empty() && quoted.bytes().all(is_name) {
                if quoted.contains('.') {
                    add(evidence, "`project.dataset.table`", BIGQUERY, SURE);
                } else {
                    add(evidence, "`name`", MYSQL.and(CLICKHOUSE), CLEAR);
                }
            }
        }
    }
}

/// Returns the evidence of one word with its neighbours.
fn around(words: &Words, at: usize, in_statement: bool) -> Option<(&'static str, Databases, f32)> {
    let word = words.get(at)?;
    let next = words.get(at + 1);
    match words.text(at) {
        // db.orders.find(…), and {"find({"…
        "db" if word.behind == b'.' && next.is_some_and(|next| matches!(next.behind, b'.' | b'(')) => {
            Some(("db.collection.…", MONGO, SURE))
        }
        "find" | "distinct" if word.before == b'.' && word.behind == b'(' => Some((".find(", MONGO, CLEAR)),
        "find" if word.behind == b'(' && matches!(word.further, b'{' | b')') => Some(("find({", MONGO, CLEAR)),
        // BigQuery's version has the column first, and the unit without quotes.
        "date_trunc" if word.behind == b'(' && word.further == b'\'' => Some(("date_trunc('…'", KIN, SURE)),
        "date_trunc" if word.behind == b'(' => Some(("date_trunc(column", BIGQUERY, CLEAR)),
        "interval" if in_statement && word.behind == b' ' && word.further == b'\'' => Some(("interval '…'", KIN, SURE)),
        "offset" if word.before == b'[' && word.behind == b'(' => Some(("[offset(", BIGQUERY, SURE)),
        // LIMIT 5, 10
        "limit" if in_statement && is_number(words.text(at + 1)) && next.is_some_and(|next| next.behind == b',') => {
            Some(("limit n, m", MYSQL.and(SQLITE), CLEAR))
        }
        "interval" if in_statement && word.behind == b' ' && word.further.is_ascii_digit() => {
            Some(("interval n", BIGQUERY.and(MYSQL), HINT))
        }
        "$1" | "$2" if in_statement => Some(("$1", POSTGRES, HINT)),
        text if word.before == b':' && CASTS.split(' ').any(|cast| cast == text) => {
            // `a: text` contains a space, `a::text` does not; `{a:text}` is no statement.
            in_statement.then_some(("::type", KIN, SURE))
        }
        text => BEGINNINGS
            .iter()
            .find(|(beginning, _, place)| text.starts_with(beginning) && (*place == Anywhere || word.behind == b'('))
            .map(|(beginning, databases, _)| (*beginning, *databases, SURE)),
    }
}

/// A psql command, such as `\dt`. Within a regular expression, `\d` doesn't start a word.
fn is_psql(word: &str) -> bool {
    let command = word.trim_matches('`').trim_end_matches(['+', '?', '.', ',']);
    matches!(
        command,
        "\\d" | "\\dt" | "\\di" | "\\dn" | "\\df" | "\\du" | "\\l" | "\\copy" | "\\timing" | "\\x"
    )
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the kind of SQL statement in the text, if any. "select … from" in prose is none: a statement has capitals,
/// or punctuation unusual in sentences.
fn statement(source: &str, words: &Words, is_code: bool) -> Option<&'static str> {
    let punctuated = || {
        source
            .bytes()
            .any(|byte| matches!(byte, b'=' | b'*' | b';' | b'<' | b'>'))
            || called(words)
    };
    for at in 0..words.len() {
        let shouted = words.get(at).is_some_and(|word| word.shouted);
        let (term, complete) = match words.text(at) {
            "select" => {
                let end = words.len().min(at + MAX_SELECT);
                let from = (at + 1..end).find(|from| words.text(*from) == "from");
                let both = from.is_some_and(|from| shouted && words.get(from).is_some_and(|from| from.shouted));
                if both {
                    return Some("SELECT … FROM");
                }
                ("SELECT … FROM", from.is_some())
            }
            "insert" => ("INSERT INTO", words.text(at + 1) == "into" && words.text(at + 2) != "a"),
            "delete" => ("DELETE FROM", words.text(at + 1) == "from"),
            "export" => ("EXPORT DATA", shouted && words.text(at + 1) == "data"),
            "copy" => ("COPY", shouted || words.text(at + 2) == "from"),
            "update" => ("UPDATE … SET", words.text(at + 2) == "set"),
            "merge" => ("MERGE", shouted),
            "create" | "alter" => (
                "CREATE",
                matches!(words.text(at + 1), "table" | "view" | "index" | "function")
                    || words.phrase(at + 1, 3) == "or replace table",
            ),
            "with" => (
                "WITH … AS (",
                words.text(at + 2) == "as" && words.get(at + 2).is_some_and(|word| word.further == b'('),
            ),
            "declare" => ("DECLARE", shouted),
            _ => continue,
        };
        if complete && (is_code || shouted || punctuated()) {
            return Some(term);
        }
    }
    None
}

/// Returns whether a bracket directly follows a word, as in `count(*)`.
fn called(words: &Words) -> bool {
    (0..words.len()).any(|at| words.get(at).is_some_and(|word| word.behind == b'('))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(source: &str, is_code: bool, databases: Databases) -> f32 {
        let mut evidence = Evidence::default();
        read(source, &Words::of(source), is_code, &mut evidence);
        evidence.about(databases)
    }

    #[test]
    fn every_shape_is_written_as_it_is_looked_for() {
        for text in SHAPES.iter().flat_map(|(_, _, _, list)| list.split(", ")) {
            assert_eq!(super::super::words::normal(text), text);
            assert!(text.split(' ').count() <= MAX_PHRASE, "{text}");
        }
    }

    #[test]
    fn each_dialect_is_told_by_what_only_it_writes() {
        for (source, databases) in [
            ("db.orders.aggregate([{ $match: { paid: true } }])", MONGO),
            ("[{\"$lookup\": {\"from\": \"users\"}}]", MONGO),
            ("db.users.find({ _id: ObjectId(\"65\") })", MONGO),
            ("SELECT * FROM `shop-prod.core.orders`", BIGQUERY),
            ("SELECT SAFE_DIVIDE(a, b) FROM core.orders", BIGQUERY),
            ("SELECT x FROM t, UNNEST(items) AS x", BIGQUERY),
            ("SELECT ARRAY_AGG(STRUCT(a, b)) FROM t", BIGQUERY),
            ("SELECT DATE_TRUNC(d, MONTH) FROM t", BIGQUERY),
            ("select total::numeric from orders", POSTGRES),
            ("select date_trunc('month', d) from orders", POSTGRES),
            ("SELECT * FROM a WHERE name ILIKE 'x%'", POSTGRES),
            ("SELECT d->>'k' FROM a WHERE d @> '{}'", POSTGRES),
            ("SELECT `id` FROM `users` LIMIT 5, 10", MYSQL),
            ("INSERT INTO a VALUES (1) ON DUPLICATE KEY UPDATE n = 1", MYSQL),
            ("PRAGMA table_info(users)", SQLITE),
            ("SELECT * FROM read_parquet('a.parquet')", DUCKDB),
            ("SELECT TOP 10 * FROM [dbo].[users] WITH (NOLOCK)", MSSQL),
            ("SELECT uniqExact(id) FROM t PREWHERE d = today()", CLICKHOUSE),
        ] {
            let others = Database::ALL
                .into_iter()
                .map(Databases::just)
                .filter(|other| !(other.meets(databases) || databases.meets(KIN) && other.meets(KIN)));
            let next = others.map(|other| about(source, true, other)).fold(0.0, f32::max);
            let ours = about(source, true, databases);
            assert!(ours >= next + 1.0, "{source}: {ours} against {next}");
        }
    }

    #[test]
    fn any_sql_is_told_from_prose() {
        for source in [
            "SELECT a FROM b",
            "why is select * from users slow",
            "DELETE FROM a WHERE b",
            "update users set a = 1 where b",
            "select count(x) from users",
        ] {
            assert!(about(source, false, SQL) > 0.0, "{source}");
            assert_eq!(about(source, false, MONGO), 0.0, "{source}");
        }
        for source in [
            "Select the best from the list and tell me where they live",
            "delete from the list who left",
            "update us set by set",
            "Insert a page into the report",
            "the C++ type std::string, and a:text",
            "it costs $5, or $group",
            "the field timestamp_utc",
        ] {
            assert_eq!(about(source, false, SQL), 0.0, "{source}");
        }
    }
}
