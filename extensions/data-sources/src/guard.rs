//! The query guard of read-only sources, the first line of defence: accepts one statement, which only reads and calls
//! only functions on an allow-list. `sources` calls it before a query is sent; servers' own protections follow
//! (docs/guide/data-sources.md).
//!
//! - `postgresql`  by PostgreSQL's own grammar: every allowed kind of node is listed
//! - `sql`         MySQL, SQLite, DuckDB and BigQuery, by `sqlparser`
//! - `functions`   the allow-lists of functions
//!
//! MongoDB's is beside its queries, in `mongodb::guard`. `sql` is in every build, whatever its drivers; PostgreSQL's and MongoDB's
//! guards come with their drivers, because their grammars do.

mod functions;
#[cfg(feature = "postgresql")]
pub(crate) mod postgresql;
mod sql;

use rejoin_integrations::data_sources::Kind;

#[cfg(not(feature = "postgresql"))]
use crate::source::SourceError;

/// Maximum length of a query, in bytes.
pub const QUERY_MAX_BYTES: usize = 32 * 1024;
/// Stack size of the parsing thread: enough for the deepest query within the length limit.
const STACK_BYTES: usize = 256 * 1024 * 1024;
/// Maximum nesting of brackets, with which parsers recurse.
const MAX_DEPTH: usize = 64;

/// Checks that a statement in a kind's SQL only reads. Err: what is not allowed, for the author.
pub fn check(kind: Kind, sql: &str) -> Result<(), String> {
    check_in(kind, None, sql)
}

/// The same with a default database for names without one.
pub fn check_in(kind: Kind, database: Option<&str>, sql: &str) -> Result<(), String> {
    check_size(sql)?;
    on_large_stack(|| match kind {
        #[cfg(feature = "postgresql")]
        Kind::Postgresql => postgresql::check(sql),
        #[cfg(not(feature = "postgresql"))]
        Kind::Postgresql => Err(no_grammar(kind)),
        Kind::Mysql | Kind::Sqlite | Kind::Duckdb | Kind::Bigquery => sql::check(kind, database, sql),
        // Has no SQL.
        Kind::Mongodb => Err("MongoDB does not use SQL".to_owned()),
    })
}

/// Checks that a database may be read. Err: it contains the server's own data.
pub fn check_database(kind: Kind, database: Option<&str>) -> Result<(), String> {
    sql::check_database(kind, database)
}

/// Checks that it is one statement, of any kind: for writable sources. Returns whether it may change schemas.
///
/// # Errors
/// It is not, for the author.
pub fn check_single(kind: Kind, sql: &str) -> Result<bool, String> {
    check_size(sql)?;
    on_large_stack(|| match kind {
        #[cfg(feature = "postgresql")]
        Kind::Postgresql => postgresql::check_single(sql),
        #[cfg(not(feature = "postgresql"))]
        Kind::Postgresql => Err(no_grammar(kind)),
        Kind::Mysql | Kind::Sqlite | Kind::Duckdb | Kind::Bigquery => sql::check_single(kind, sql),
        Kind::Mongodb => Err("MongoDB does not use SQL".to_owned()),
    })
}

/// PostgreSQL's grammar belongs to its driver: a build without it can check nothing, so it refuses everything.
#[cfg(not(feature = "postgresql"))]
fn no_grammar(kind: Kind) -> String {
    SourceError::no_driver(kind).to_string()
}

/// Returns whether a function of SQLite is allowed: its authorizer asks for each.
#[cfg(feature = "sqlite")]
pub(crate) fn allows_sqlite(name: &str) -> bool {
    functions::sqlite(name)
}

/// Returns whether a table of SQLite is about its own file and statements.
#[cfg(feature = "sqlite")]
pub(crate) fn hides_sqlite(table: &str) -> bool {
    sql::hides_sqlite(&table.to_ascii_lowercase())
}

/// Runs on a thread with a large stack: parsers recurse, and trees are dropped, as deep as a query is: `- - - … 1` is
/// as deep as it is long. Unused stack costs nothing.
fn on_large_stack<T: Send>(check: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    let failed = || "the query cannot be parsed: it is nested too deeply".to_owned();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("guard".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, check);
        thread.map_err(|_| failed())?.join().map_err(|_| failed())?
    })
}

fn check_size(sql: &str) -> Result<(), String> {
    if sql.trim().is_empty() {
        return Err("the query is empty".to_owned());
    }
    if sql.len() > QUERY_MAX_BYTES {
        return Err(format!("the query is longer than {QUERY_MAX_BYTES} bytes"));
    }
    if sql.contains('\0') {
        return Err("the query contains a NUL character".to_owned());
    }
    // Those in literals count, too: no real query has as many.
    let mut depth = 0_usize;
    for byte in sql.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(format!(
                "brackets are nested more than {MAX_DEPTH} deep; simplify the query"
            ));
        }
    }
    Ok(())
}

/// The error of a function that is not on the list.
fn refused_function(name: &str) -> String {
    format!("the function {name} is not allowed on a read-only source")
}

const ONE_STATEMENT: &str = "only one statement at a time is allowed; send the statements one after the other";
const READS_ONLY: &str = "this source is read-only: only SELECT, VALUES, SHOW and EXPLAIN without ANALYZE are allowed";

// Its lists are of all kinds.
#[cfg(all(test, feature = "postgresql", feature = "sqlite", feature = "mongodb"))]
mod tests {
    use super::*;
    use crate::mongodb::{guard as mongodb_guard, mql};

    #[test]
    fn the_deepest_query_is_an_error_and_no_crash() {
        let longest = |open: &str, close: &str| {
            let times = (QUERY_MAX_BYTES - 10) / (open.len() + close.len());
            format!("select {}1{}", open.repeat(times), close.repeat(times))
        };
        let deep = [
            longest("(", ")"),
            longest("not ", ""),
            longest("- ", ""),
            longest("case when true then ", " end "),
            longest("", "+1"),
            longest("", "::int"),
            longest("", " union select 1"),
        ];
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_sql()) {
            for sql in &deep {
                let _told = check(kind, sql);
                let _told = check_single(kind, sql);
            }
        }
    }

    #[test]
    fn empty_long_deep_queries_and_those_with_nul_are_refused() {
        let fault = |sql: &str| check(Kind::Sqlite, sql).err().unwrap_or_default();
        for sql in ["", " \n\t"] {
            assert_eq!(fault(sql), "the query is empty");
        }
        let long = |bytes: usize| format!("select '{}'", "x".repeat(bytes - "select ''".len()));
        assert_eq!(fault(&long(QUERY_MAX_BYTES)), "");
        assert_eq!(
            fault(&long(QUERY_MAX_BYTES + 1)),
            "the query is longer than 32768 bytes"
        );
        assert_eq!(
            fault(&long(QUERY_MAX_BYTES * 2)),
            "the query is longer than 32768 bytes"
        );
        assert_eq!(fault("select 1\0"), "the query contains a NUL character");
        // In a literal, where no parser counts them.
        for (open, close) in [("(", ")"), ("[", "]"), ("{", "}")] {
            let deep = |levels: usize| format!("select '{}'", open.repeat(levels));
            assert_eq!(fault(&deep(MAX_DEPTH)), "", "{open}");
            assert!(fault(&deep(MAX_DEPTH + 1)).contains("more than 64 deep"), "{open}");
            assert!(fault(&deep(MAX_DEPTH + 2)).contains("more than 64 deep"), "{open}");
            // Closed brackets no longer count, and unmatched closing ones never do.
            let closed = format!("{open}{close}").repeat(MAX_DEPTH * 2);
            assert_eq!(fault(&format!("select '{closed}'")), "", "{open}");
            let unopened = format!("select '{}{}'", close.repeat(3), open.repeat(MAX_DEPTH + 1));
            assert!(fault(&unopened).contains("more than 64 deep"), "{open}");
        }
    }

    #[test]
    fn a_writable_source_gets_one_statement_and_its_rights() {
        let sql = Kind::ALL.into_iter().filter(|kind| kind.is_sql());
        for kind in sql {
            for keeps in [
                "select 1",
                "insert into t values (1)",
                "update t set a = 1 where b = 2",
                "delete from t where a = 1",
                "explain select 1",
            ] {
                assert_eq!(check_single(kind, keeps), Ok(false), "{kind:?} {keeps}");
            }
            for changes in [
                "create table t (a int)",
                "drop table t",
                "alter table t add column b int",
            ] {
                assert_eq!(check_single(kind, changes), Ok(true), "{kind:?} {changes}");
            }
            for not_one in ["", "select 1; select 2", "select 1; drop table t", "nonsense"] {
                assert!(check_single(kind, not_one).is_err(), "{kind:?} {not_one}");
            }
        }
        assert_eq!(
            check_single(
                Kind::Postgresql,
                "merge into t using u on t.a = u.a when matched then do nothing"
            ),
            Ok(false)
        );
        assert!(check_single(Kind::Mongodb, "select 1").is_err(), "it has no SQL");
        assert!(check(Kind::Mongodb, "select 1").is_err(), "it has no SQL");
    }

    #[test]
    fn a_refusal_names_the_function_and_the_database() {
        let refused = "the function sleep is not allowed on a read-only source";
        assert_eq!(check(Kind::Mysql, "select sleep(5)"), Err(refused.to_owned()));
        assert!(check_database(Kind::Mysql, Some("mysql")).is_err());
        assert_eq!(check_database(Kind::Mysql, Some("shop")), Ok(()));
    }

    #[test]
    fn sqlites_authorizer_knows_names_in_any_letter_case() {
        for name in ["upper", "UPPER", "json_each"] {
            assert!(allows_sqlite(name), "{name}");
        }
        for name in ["load_extension", "readfile", "", "xyzzy"] {
            assert!(!allows_sqlite(name), "{name}");
        }
        for table in ["dbstat", "SQLite_DbPage", "sqlite_stmt"] {
            assert!(hides_sqlite(table), "{table}");
        }
        for table in ["orders", "", "xyzzy"] {
            assert!(!hides_sqlite(table), "{table}");
        }
    }

    #[test]
    fn no_attack_passes() {
        let lists = [
            (Kind::Postgresql, include_str!("../tests/attacks/postgresql.sql"), 80),
            (Kind::Mysql, include_str!("../tests/attacks/mysql.sql"), 80),
            (Kind::Sqlite, include_str!("../tests/attacks/sqlite.sql"), 80),
            (Kind::Duckdb, include_str!("../tests/attacks/duckdb.sql"), 80),
            (Kind::Bigquery, include_str!("../tests/attacks/bigquery.sql"), 80),
            (Kind::Mongodb, include_str!("../tests/attacks/mongodb.txt"), 40),
        ];
        let mut passed = Vec::new();
        for (kind, list, at_least) in lists {
            let attacks: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(attacks.len() >= at_least, "{kind:?} has {} attacks", attacks.len());
            for attack in attacks.iter().map(|attack| attack.trim_start_matches('~')) {
                let fault = match kind {
                    Kind::Mongodb => mql::parse(attack).and_then(|asked| mongodb_guard::check(&asked)),
                    kind => check(kind, attack),
                };
                if fault.is_ok() {
                    passed.push(format!("{kind:?}: {attack}"));
                }
            }
        }
        assert!(passed.is_empty(), "{passed:#?}");
    }
}
