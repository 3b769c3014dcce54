//! The words and phrases of messages that indicate a kind of database: whole words, each with a weight. Choosing takes
//! a weight of 1 (`LEAD` in `routing.rs`), so a word below it never decides alone.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::databases::{Database, Databases};
use super::evidence::{Evidence, Sign};
use super::words::Words;

/// Maximum length of a phrase, in words.
const MAX_PHRASE: usize = 4;

const POSTGRES: Databases = Databases::just(Database::PostgreSql);
const MYSQL: Databases = Databases::just(Database::MySql);
const SQLITE: Databases = Databases::just(Database::Sqlite);
const DUCKDB: Databases = Databases::just(Database::DuckDb);
const MSSQL: Databases = Databases::just(Database::MsSql);
const CLICKHOUSE: Databases = Databases::just(Database::ClickHouse);
const REDSHIFT: Databases = Databases::just(Database::Redshift);
const BIGQUERY: Databases = Databases::just(Database::BigQuery);
const SNOWFLAKE: Databases = Databases::just(Database::Snowflake);
pub(super) const MONGO: Databases = Databases::just(Database::MongoDb);
/// All SQL databases.
pub(super) const SQL: Databases = POSTGRES.and(MYSQL).and(SQLITE).and(DUCKDB).and(MSSQL).and(WAREHOUSES);
const WAREHOUSES: Databases = BIGQUERY.and(SNOWFLAKE).and(REDSHIFT).and(CLICKHOUSE);
/// Row-oriented databases, in contrast to warehouses.
const SERVERS: Databases = POSTGRES.and(MYSQL).and(MSSQL);

/// Weight of a name or unique feature.
const NAME: f32 = 3.0;
/// Weight of words hardly used for anything else.
const STRONG: f32 = 2.0;
const CLEAR: f32 = 1.5;
/// Weight that decides alone, without counter-evidence.
const ENOUGH: f32 = 1.0;
/// Weight that counts together with others only.
const WEAK: f32 = 0.6;
const FAINT: f32 = 0.3;
/// Weight of a misspelled name.
const MISSPELT: f32 = 2.5;

/// (kinds, weight, words and phrases separated by commas), in lower case, without punctuation.
const TERMS: &[(Databases, f32, &str)] = &[
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

/// MongoDB's counterpart of tables. In English also what museums, tailors and creditors have: it suffices in the
/// position of a name, as in "the orders collection" or "every collection".
const COLLECTIONS: &str = "collection, collections, kollektion, sammlung, sammlungen, colección, coleccion, colecciones, coleção, colecao, coleções, collezione, collezioni, collectie, collecties, kolekcja, kolekcji, kolekcje, коллекция, коллекции, коллекций, コレクション, 集合, 컬렉션";
const DETERMINERS: &str = "every, each, which, what, all, many, list, show, jede, jeder, alle, welche, welcher, chaque, toutes, quelle, quelles, cada, todas, qué, quais, ogni, tutte, elke, alle";
/// Words that look like plural names and are none, before and after.
const NO_NAMES: &str = "this, does, was, has, whose, business, previous, various, always, perhaps, sales, results, figures, points, items, boxes, rates, agencies, dates, efforts, costs, fees, times, letters, calls";
const NAME_MIN_BYTES: usize = 4;

/// Words that negate what follows.
const NEGATORS: &str = "not, t, never, without, neither, nor, except, avoid, instead of, rather than, other than, used to have, used to be in, used to be on, used to use, formerly, scrap, skip, forget, equivalent of, equivalent to, equivalent for, counterpart of, counterpart to, answer to, come from, coming from, no longer, moved off, move off, we left, away from, nicht, nicht mehr, kein, keine, keinen, statt, anstatt, ohne, weder, lieber als, pas, sans, non pas, au lieu de, plutôt que, ni, sin, en lugar de, en vez de, não, nao, sem, em vez de, ao invés de, non, niet, geen, nie";
/// "No" negates, except in Portuguese: there, it means "in the".
const NO: &str = "no";
/// Words specific to Portuguese.
const PORTUGUESE: [&str; 18] = [
    "não", "nao", "uma", "qual", "quais", "quantos", "quantas", "faço", "você", "são", "há", "preciso", "nas", "nos",
    "das", "isso", "nosso", "nossa",
];
/// The last byte of a typographic apostrophe.
const APOSTROPHE_END: u8 = 0x99;
/// Words that may stand between such a word and the one it refers to.
const FILLERS: &str = "a, an, the, in, on, at, from, with, our, my, your, any, about, use, using, want, need, have, of, to, for, it, is, from the, der, die, das, den, dem, im, mit, in der, auf, unsere, unser, le, la, les, de, du, des, dans, avec, sur, en, el, los, las, con, o, os, as, na, do, da, em, com, il, op, het";

#[derive(Debug, Clone, Copy)]
enum Role {
    /// It indicates kinds of database, or none.
    Speaks(Databases, f32),
    Collection,
    Negates,
    Fills,
    /// It is only the first word of phrases.
    Begins,
}

#[derive(Debug, Clone, Copy)]
struct Term {
    text: &'static str,
    role: Role,
    /// Whether longer phrases begin with it.
    begins: bool,
}

type Vocabulary = HashMap<&'static str, Term>;

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let mut vocabulary = Vocabulary::new();
    let spoken = TERMS
        .iter()
        .flat_map(|(databases, weight, list)| listed(list).map(|text| (text, Role::Speaks(*databases, *weight))));
    let collections = listed(COLLECTIONS).map(|text| (text, Role::Collection));
    let negators = listed(NEGATORS).chain([NO]).map(|text| (text, Role::Negates));
    let fillers = listed(FILLERS).map(|text| (text, Role::Fills));
    for (text, role) in spoken.chain(collections).chain(negators).chain(fillers) {
        // A word with two roles, such as the Portuguese "no", keeps the first.
        let term = vocabulary.entry(text).or_insert(Term {
            text,
            role: Role::Begins,
            begins: false,
        });
        if matches!(term.role, Role::Begins) {
            term.role = role;
        }
        if let Some((first, _)) = text.split_once(' ') {
            let begins = Term {
                text: first,
                role: Role::Begins,
                begins: true,
            };
            vocabulary.entry(first).or_insert(begins).begins = true;
        }
    }
    vocabulary
});

fn listed(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split(", ")
}

/// Adds the evidence of a message's words.
pub fn read(words: &Words, evidence: &mut Evidence) {
    let vocabulary = &*VOCABULARY;
    let mut negated = false;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        negated &= !word.begins_clause;
        let (role, text, count) = longest(vocabulary, words, at);
        let role = match role {
            Role::Collection if is_named(words, at) => Role::Speaks(MONGO, CLEAR),
            Role::Collection => Role::Speaks(MONGO, WEAK),
            role => role,
        };
        match role {
            Role::Speaks(databases, weight) => {
                let weight = if negated { -weight } else { weight };
                if !databases.is_empty() {
                    evidence.add(Sign {
                        term: text,
                        databases,
                        weight,
                    });
                }
                negated = false;
            }
            // "isn't" ends in a one-letter word, which negates nothing elsewhere ("a-t-il").
            Role::Negates if text == "t" => negated = matches!(word.before, b'\'' | APOSTROPHE_END),
            Role::Negates if text == NO && is_portuguese(words) => {}
            Role::Negates => negated = true,
            Role::Fills | Role::Collection => {}
            Role::Begins => negated = false,
        }
        at += count;
    }
}

fn is_portuguese(words: &Words) -> bool {
    (0..words.len()).any(|at| PORTUGUESE.contains(&words.text(at)))
}

/// Returns whether the word for a collection stands beside a possible name, or after "every" and the like.
fn is_named(words: &Words, at: usize) -> bool {
    let is_one_of = |list, text: &str| listed(list).any(|one| one == text);
    let is_name = |text: &str| {
        text.contains('_') || (text.len() >= NAME_MIN_BYTES && text.ends_with('s') && !is_one_of(NO_NAMES, text))
    };
    let (before, next) = (
        at.checked_sub(1).map_or("", |before| words.text(before)),
        words.text(at + 1),
    );
    let joined = |at: usize| words.get(at).is_some_and(|word| !word.begins_clause);
    (joined(at) && (is_name(before) || is_one_of(DETERMINERS, before))) || (joined(at + 1) && is_name(next))
}

/// Returns the meaning of the longest phrase that begins here, and its number of words.
fn longest(vocabulary: &Vocabulary, words: &Words, at: usize) -> (Role, &'static str, usize) {
    let word = words.text(at);
    let first = vocabulary.get(word).or_else(|| {
        let (_, end) = ENDINGS.iter().find(|(ending, _)| word.ends_with(ending))?;
        vocabulary.get(end)
    });
    if first.is_some_and(|term| term.begins) {
        for count in (2..=MAX_PHRASE).rev() {
            if let Some(term) = vocabulary.get(words.phrase(at, count))
                && !(1..count).any(|next| words.get(at + next).is_some_and(|word| word.begins_clause))
            {
                return (term.role, term.text, count);
            }
        }
    }
    match first {
        Some(term) if !matches!(term.role, Role::Begins) => (term.role, term.text, 1),
        _ => match compound(words.text(at)).or_else(|| misspelt(words, at)) {
            Some((role, text, count)) => (role, text, count),
            None => (Role::Begins, "", 1),
        },
    }
}

/// Prefixes of compounds with a name, such as `pg_dump`, MongoServerError and mysqldump.
const BEGINNINGS: [(&str, Databases); 9] = [
    ("pg_", POSTGRES),
    ("postgres", POSTGRES),
    ("mongo", MONGO),
    ("bigquery", BIGQUERY),
    ("bq_", BIGQUERY),
    ("mysql", MYSQL),
    ("mariadb", MYSQL),
    ("innodb_", MYSQL),
    ("sqlite", SQLITE),
];
/// Suffixes of German compounds, such as Beispieldokumente, with their base word.
const ENDINGS: [(&str, &str); 6] = [
    ("dokumente", "dokumente"),
    ("dokumenten", "dokumente"),
    ("tabelle", "tabelle"),
    ("tabellen", "tabelle"),
    ("spalte", "spalte"),
    ("spalten", "spalte"),
];
/// An exception to these.
const MONGOLIA: &str = "mongol";

fn compound(word: &str) -> Option<(Role, &'static str, usize)> {
    let begins = |(beginning, _): &&(&str, Databases)| word.starts_with(*beginning) && !word.starts_with(MONGOLIA);
    let (beginning, databases) = BEGINNINGS.iter().find(begins)?;
    Some((Role::Speaks(*databases, NAME), beginning, 1))
}

/// Names long enough for typo correction.
const LONG_NAMES: [(&str, Databases); 7] = [
    ("mongodb", MONGO),
    ("postgres", POSTGRES),
    ("postgresql", POSTGRES),
    ("bigquery", BIGQUERY),
    ("mariadb", MYSQL),
    ("clickhouse", CLICKHOUSE),
    ("snowflake", SNOWFLAKE),
];

/// Returns the name misspelled by this word, or by this and the next one together ("big qurey").
fn misspelt(words: &Words, at: usize) -> Option<(Role, &'static str, usize)> {
    let word = words.text(at);
    let next = words.text(at + 1);
    let is_near =
        |name: &str, letters: usize, mut typed: std::iter::Chain<std::str::Bytes<'_>, std::str::Bytes<'_>>| {
            let near = letters.abs_diff(name.len()) <= 1;
            near && one_error(name.as_bytes(), &mut typed)
        };
    LONG_NAMES.iter().find_map(|(name, databases)| {
        if word.bytes().next() != name.bytes().next() {
            return None;
        }
        if is_near(name, word.len(), word.bytes().chain("".bytes())) {
            Some((Role::Speaks(*databases, MISSPELT), *name, 1))
        } else if name.starts_with(word) && is_near(name, word.len() + next.len(), word.bytes().chain(next.bytes())) {
            Some((Role::Speaks(*databases, MISSPELT), *name, 2))
        } else {
            None
        }
    })
}

/// Returns whether the edit distance is at most one insertion, deletion, substitution or transposition.
fn one_error(name: &[u8], typed: &mut impl Iterator<Item = u8>) -> bool {
    let mut buffer = [0; 16];
    let mut length = 0;
    for byte in typed {
        let Some(place) = buffer.get_mut(length) else {
            return false;
        };
        *place = byte;
        length += 1;
    }
    let typed = &buffer[..length];
    let same = name.iter().zip(typed).take_while(|(one, other)| one == other).count();
    let (name, typed) = (&name[same..], &typed[same..]);
    match (name, typed) {
        ([a, b, rest @ ..], [c, d, others @ ..]) if a == d && b == c && rest == others => true,
        ([], _) | (_, []) => name.len() + typed.len() <= 1,
        ([_, rest @ ..], [_, others @ ..]) => rest == others || name == others || rest == typed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(message: &str, databases: Databases) -> f32 {
        let mut evidence = Evidence::default();
        read(&Words::of(message), &mut evidence);
        evidence.about(databases)
    }

    #[test]
    fn every_term_is_written_as_it_is_looked_for() {
        for text in TERMS
            .iter()
            .flat_map(|(_, _, list)| listed(list))
            .chain(listed(COLLECTIONS))
            .chain(listed(DETERMINERS))
            .chain(listed(NO_NAMES))
            .chain(listed(NEGATORS))
            .chain(listed(FILLERS))
        {
            assert_eq!(super::super::words::normal(text), text);
            assert!(text.split(' ').count() <= MAX_PHRASE, "{text}");
        }
    }

    /// Requirements: D07.
    #[test]
    fn each_keyword_counts_as_a_whole_word_in_any_case() {
        for (word, databases) in [
            ("mongo", MONGO),
            ("MongoDB", MONGO),
            ("Collection", MONGO),
            ("AGGREGATE", MONGO),
            ("bson", MONGO),
            ("BigQuery", BIGQUERY),
            ("BQ", BIGQUERY),
            ("sql", BIGQUERY),
            ("Select", BIGQUERY),
        ] {
            assert!(weight(&format!("the {word}, please"), databases) > 0.0, "{word}");
            assert_eq!(weight(&format!("the x{word}y, please"), databases), 0.0, "{word}");
        }
        // Common English words: no evidence, "select" hardly any, and "aggregate" is not enough by itself.
        for word in ["from", "where", "group", "project", "From", "WHERE"] {
            assert_eq!(weight(word, SQL) + weight(word, MONGO), 0.0, "{word}");
        }
        assert!(weight("select", SQL) < ENOUGH && weight("aggregate", MONGO) < ENOUGH);
    }

    #[test]
    fn parts_of_words_and_unrelated_phrases_do_not_count() {
        for message in [
            "the group that works on the project",
            "grouped by projects",
            "tablespoons, stable, selection, recollection",
            "the garbage collection of Tuesday",
            "show it as a table",
            "a table of contents",
            "aggregate demand",
            "Mongolia",
        ] {
            assert_eq!(weight(message, SQL) + weight(message, MONGO), 0.0, "{message}");
        }
    }

    #[test]
    fn a_collection_is_mongos_where_it_has_a_name() {
        for message in [
            "the orders collection",
            "in collection user_events",
            "la collection commandes",
            "which collections are there",
            "the 'carts' collection",
        ] {
            assert!(weight(message, MONGO) >= ENOUGH, "{message}");
        }
        for message in [
            "our summer collection",
            "the shoe collection",
            "this collection",
            "collection sales",
            "two boxes. Collections rose",
        ] {
            assert!(weight(message, MONGO) < ENOUGH, "{message}");
        }
    }

    #[test]
    fn compounds_of_a_name_are_that_name() {
        for (word, databases) in [
            ("MongoServerError", MONGO),
            ("pg_dump", POSTGRES),
            ("mysqldump", MYSQL),
            ("bigquery_v2", BIGQUERY),
        ] {
            assert_eq!(weight(word, databases), NAME, "{word}");
        }
        assert_eq!(weight("Mongolian", MONGO), 0.0);
    }

    #[test]
    fn what_is_denied_speaks_against() {
        for message in [
            "not mongo",
            "don't use MongoDB",
            "instead of Mongo",
            "it isn't in the mongo",
            "it isn’t Mongo",
            "no longer in Mongo",
            "nicht in Mongo",
            "pas Mongo",
            "no en Mongo",
            "não no Mongo",
            "what's the equivalent of Mongo",
        ] {
            assert!(weight(message, MONGO) < 0.0, "{message}");
        }
        for message in [
            "why does mongo not use it",
            "I don't know Mongo well",
            "that is not it: Mongo",
            "y a-t-il Mongo",
            "no, mongo",
            "Como faço no Mongo",
        ] {
            assert!(weight(message, MONGO) > 0.0, "{message}");
        }
    }

    #[test]
    fn a_name_may_have_one_typing_error() {
        for (typed, databases) in [
            ("mogodb", MONGO),
            ("mongdob", MONGO),
            ("postgress", POSTGRES),
            ("big qurey", BIGQUERY),
            ("bigquerry", BIGQUERY),
            ("pstgres", POSTGRES),
        ] {
            assert!(weight(typed, databases) >= MISSPELT, "{typed}");
        }
        for typed in ["mongrel", "posters", "big query2 x", "mango", "biggest query"] {
            assert_eq!(weight(typed, MONGO) + weight(typed, POSTGRES), 0.0, "{typed}");
        }
    }
}
