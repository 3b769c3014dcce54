//! Guard for MySQL, SQLite, DuckDB and BigQuery, by `sqlparser`. Called by `guard`.
//!
//! A foreign parser may interpret a statement differently from the server. Known differences are refused here (comments
//! that MySQL executes or takes for hints; `TABLE t`, of which the parser drops words); unknown ones are left to the
//! servers' protections: SQLite's authorizer, MySQL's read-only transaction and single prepared statement, DuckDB's
//! safe mode, BigQuery's dry run.

use std::ops::ControlFlow;

use rejoin_integrations::data_sources::Kind;
use sqlparser::ast::{
    BinaryOperator, Expr, Ident, ObjectName, Query, Select, SetExpr, ShowStatementOptions, Statement, TableFactor,
    Visit, Visitor,
};
use sqlparser::dialect::{BigQueryDialect, Dialect, DuckDbDialect, MySqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;

use super::{ONE_STATEMENT, READS_ONLY, functions, refused_function};

/// Maximum nesting of expressions and queries.
const MAX_DEPTH: usize = 60;
/// SQLite's tables about its own file and statements.
const MACHINERY: [&str; 5] = ["dbstat", "sqlite_dbpage", "sqlite_stmt", "bytecode", "tables_used"];
/// MySQL's schemas that reveal credentials and other users' queries.
const HIDDEN: [&str; 3] = ["mysql", "performance_schema", "sys"];
/// MySQL's schema of metadata, and its tables about the server and its users.
const INFORMATION: &str = "information_schema";
const HIDDEN_INFORMATION: [&str; 13] = [
    "processlist",
    "global_variables",
    "session_variables",
    "system_variables",
    "user_variables",
    "global_status",
    "session_status",
    "user_attributes",
    "client_statistics",
    "user_statistics",
    "innodb_trx",
    "innodb_locks",
    "innodb_lock_waits",
];

/// `database`: the default for names without one. None: not a hidden one.
pub(super) fn check(kind: Kind, database: Option<&str>, sql: &str) -> Result<(), String> {
    check_database(kind, database)?;
    let statement = single(kind, sql)?;
    let is_top = matches!(
        (&statement, kind),
        (Statement::Query(_), _)
            | (Statement::Explain { .. }, Kind::Mysql | Kind::Sqlite)
            | (
                Statement::ExplainTable { .. }
                    | Statement::ShowTables { .. }
                    | Statement::ShowColumns { .. }
                    | Statement::ShowDatabases { .. }
                    | Statement::ShowCollation { .. }
                    | Statement::ShowCreate { .. },
                Kind::Mysql,
            )
    );
    if !is_top {
        return Err(READS_ONLY.to_owned());
    }
    let database = database.map(str::to_ascii_lowercase);
    let mut reads = Reads {
        kind,
        database: database.as_deref(),
        nested: false,
    };
    match statement.visit(&mut reads) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(fault) => Err(fault),
    }
}

/// Checks that a database may be the default of a query.
pub(super) fn check_database(kind: Kind, database: Option<&str>) -> Result<(), String> {
    let database = database.unwrap_or_default().to_ascii_lowercase();
    if kind == Kind::Mysql && HIDDEN.contains(&database.as_str()) {
        Err(not_shown(&database))
    } else {
        Ok(())
    }
}

fn not_shown(name: &str) -> String {
    format!("access to {name} is not allowed: it contains more than the source's data")
}

pub(super) fn check_single(kind: Kind, sql: &str) -> Result<bool, String> {
    let statement = single(kind, sql)?;
    Ok(!matches!(
        statement,
        Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update { .. }
            | Statement::Delete(_)
            | Statement::Explain { .. }
    ))
}

fn single(kind: Kind, sql: &str) -> Result<Statement, String> {
    let dialect: &dyn Dialect = match kind {
        Kind::Mysql => &MySqlDialect {},
        Kind::Sqlite => &SQLiteDialect {},
        Kind::Duckdb => &DuckDbDialect {},
        Kind::Bigquery => &BigQueryDialect {},
        Kind::Postgresql | Kind::Mongodb => return Err("this SQL dialect is not supported".to_owned()),
    };
    if kind == Kind::Mysql && (sql.contains("/*!") || sql.contains("/*M!")) {
        return Err("comments that MySQL executes (/*! … */) are not allowed; remove them".to_owned());
    }
    if kind == Kind::Mysql && sql.contains("/*+") {
        return Err(
            "MySQL optimizer hints (/*+ … */) are not allowed because they can set server variables; remove them"
                .to_owned(),
        );
    }
    let parsed = Parser::new(dialect)
        .with_recursion_limit(MAX_DEPTH)
        .try_with_sql(sql)
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|error| format!("the query cannot be parsed: {error}"))?;
    let mut statements = parsed.into_iter();
    match (statements.next(), statements.next()) {
        (Some(statement), None) => match statement.visit(&mut NoTable) {
            ControlFlow::Continue(()) => Ok(statement),
            ControlFlow::Break(fault) => Err(fault),
        },
        (Some(_), Some(_)) => Err(ONE_STATEMENT.to_owned()),
        (None, _) => Err("the query is empty".to_owned()),
    }
}

/// Stops at `TABLE t`, wherever a query may be: the parser takes three words for it and drops the rest, and its visitor
/// does not report the table.
struct NoTable;

impl NoTable {
    fn body(body: &SetExpr) -> Verdict {
        match body {
            SetExpr::Table(_) => refused("TABLE is not allowed; use SELECT * FROM"),
            SetExpr::SetOperation { left, right, .. } => {
                Self::body(left)?;
                Self::body(right)
            }
            // Nested parts are visited by themselves.
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for NoTable {
    type Break = String;

    fn pre_visit_query(&mut self, query: &Query) -> Verdict {
        Self::body(&query.body)
    }
}

/// Returns whether a SQLite table, by its lower-case name, is about its file and statements.
pub(super) fn hides_sqlite(table: &str) -> bool {
    MACHINERY.contains(&table)
}

/// Returns whether DuckDB might interpret a table's name as a file or URL.
fn opens_file(ident: &Ident) -> bool {
    ident.quote_style == Some('\'') || ident.value.contains(['/', '\\', '.', ':', '*', '?', '~', '|'])
}

/// DuckDB's views about its own process.
fn hides_duckdb(relation: &ObjectName) -> bool {
    let table = relation.0.last().and_then(|part| part.as_ident());
    table.is_some_and(|table| {
        let name = table.value.to_ascii_lowercase();
        (name.starts_with("duckdb_") || name.starts_with("pragma_")) && !functions::duckdb(&name)
    })
}

/// Accepts reading statements; breaks with the error.
struct Reads<'a> {
    kind: Kind,
    /// In lower case.
    database: Option<&'a str>,
    /// Below the top-level statement.
    nested: bool,
}

type Verdict = ControlFlow<String>;

fn refused(fault: impl Into<String>) -> Verdict {
    ControlFlow::Break(fault.into())
}

impl Reads<'_> {
    fn function(&self, name: &ObjectName) -> Verdict {
        let parts: Option<Vec<&str>> = name
            .0
            .iter()
            .map(|part| part.as_ident().map(|ident| ident.value.as_str()))
            .collect();
        let joined = parts.as_ref().map(|parts| parts.join(".")).unwrap_or_default();
        let is_plain = parts.is_some_and(|parts| parts.len() == 1);
        let allowed = match self.kind {
            Kind::Mysql => is_plain && functions::mysql(&joined),
            Kind::Sqlite => is_plain && functions::sqlite(&joined),
            Kind::Duckdb => is_plain && functions::duckdb(&joined),
            Kind::Bigquery => functions::bigquery(&joined),
            Kind::Postgresql | Kind::Mongodb => false,
        };
        if allowed {
            ControlFlow::Continue(())
        } else {
            refused(refused_function(&joined))
        }
    }

    fn is_variable(&self, ident: &Ident) -> bool {
        self.kind == Kind::Mysql && ident.value.starts_with("@@")
    }

    fn body(&self, body: &SetExpr) -> Verdict {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left)?;
                self.body(right)
            }
            // Visited by itself.
            SetExpr::Query(_) | SetExpr::Values(_) => ControlFlow::Continue(()),
            SetExpr::Table(_) => refused(READS_ONLY),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => refused(READS_ONLY),
        }
    }

    /// Returns whether MySQL shows more than the source's own data by this name.
    fn hides_mysql(&self, relation: &ObjectName) -> bool {
        let parts: Vec<String> = relation
            .0
            .iter()
            .map(|part| {
                part.as_ident()
                    .map(|ident| ident.value.to_ascii_lowercase())
                    .unwrap_or_default()
            })
            .collect();
        match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [table] => self.database == Some(INFORMATION) && HIDDEN_INFORMATION.contains(table),
            [INFORMATION, table] => HIDDEN_INFORMATION.contains(table),
            [schema, ..] => HIDDEN.contains(schema),
            [] => true,
        }
    }

    /// SHOW TABLES IN a schema: the parser interprets it as a relation of that name.
    fn shown_in(&self, options: &ShowStatementOptions) -> Verdict {
        let parent = options.show_in.as_ref().and_then(|within| within.parent_name.as_ref());
        let schema = parent.and_then(|name| name.0.first()).and_then(|part| part.as_ident());
        let schema = schema.map(|ident| ident.value.to_ascii_lowercase()).unwrap_or_default();
        if HIDDEN.contains(&schema.as_str()) {
            refused(not_shown(&schema))
        } else {
            ControlFlow::Continue(())
        }
    }

    fn select(&self, select: &Select) -> Verdict {
        if select.into.is_some() {
            return refused("SELECT INTO writes; this source is read-only");
        }
        if !select.lateral_views.is_empty() || select.prewhere.is_some() || select.connect_by.is_some() {
            return refused("this clause is not allowed");
        }
        ControlFlow::Continue(())
    }
}

impl Visitor for Reads<'_> {
    type Break = String;

    fn pre_visit_statement(&mut self, statement: &Statement) -> Verdict {
        let was_nested = std::mem::replace(&mut self.nested, true);
        match statement {
            Statement::Query(_) => ControlFlow::Continue(()),
            Statement::Explain {
                analyze,
                options,
                statement,
                ..
            } if !was_nested => {
                let reads = matches!(**statement, Statement::Query(_));
                if !analyze && options.is_none() && reads {
                    ControlFlow::Continue(())
                } else {
                    refused(READS_ONLY)
                }
            }
            _ if was_nested => refused(READS_ONLY),
            Statement::ShowTables { show_options, .. } => self.shown_in(show_options),
            Statement::ShowCreate { obj_name, .. } => self.pre_visit_relation(obj_name),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> Verdict {
        if !query.locks.is_empty() {
            return refused("SELECT FOR UPDATE or SHARE locks rows; this source is read-only");
        }
        if query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty()
        {
            return refused("this query clause is not allowed");
        }
        self.body(&query.body)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Verdict {
        if relation.0.first().and_then(|part| part.as_ident()).is_none() {
            return refused("a table must be referenced by its name");
        }
        let is_hidden = match self.kind {
            Kind::Mysql => self.hides_mysql(relation),
            // Table-valued functions, called without arguments.
            Kind::Sqlite => {
                let table = relation
                    .0
                    .last()
                    .and_then(|part| part.as_ident())
                    .map(|ident| ident.value.to_ascii_lowercase());
                table.is_some_and(|table| {
                    hides_sqlite(&table) || table.starts_with("pragma_") && !functions::sqlite(&table)
                })
            }
            // A name like a file's is read from that file.
            Kind::Duckdb => {
                relation.0.iter().any(|part| part.as_ident().is_none_or(opens_file)) || hides_duckdb(relation)
            }
            Kind::Bigquery | Kind::Postgresql | Kind::Mongodb => false,
        };
        if is_hidden {
            refused(not_shown(&relation.to_string()))
        } else {
            ControlFlow::Continue(())
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Verdict {
        match factor {
            TableFactor::Table {
                name, args, json_path, ..
            } => {
                if json_path.is_some() {
                    return refused("this kind of table is not allowed");
                }
                match args {
                    Some(args) if args.settings.is_some() => refused("a function with settings is not allowed"),
                    Some(_) => self.function(name),
                    None => ControlFlow::Continue(()),
                }
            }
            TableFactor::Function { name, .. } => self.function(name),
            TableFactor::Derived { .. }
            | TableFactor::TableFunction { .. }
            | TableFactor::UNNEST { .. }
            | TableFactor::JsonTable { .. }
            | TableFactor::NestedJoin { .. }
            | TableFactor::Pivot { .. }
            | TableFactor::Unpivot { .. } => ControlFlow::Continue(()),
            TableFactor::OpenJsonTable { .. }
            | TableFactor::MatchRecognize { .. }
            | TableFactor::XmlTable { .. }
            | TableFactor::SemanticView { .. } => refused("this kind of table is not allowed"),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Verdict {
        match expr {
            Expr::Function(function) => {
                if function.uses_odbc_syntax {
                    return refused("{fn …} is not allowed; call the function directly");
                }
                self.function(&function.name)
            }
            Expr::BinaryOp {
                op: BinaryOperator::Assignment,
                ..
            } => refused("`:=` sets a variable, which is not allowed"),
            Expr::Identifier(ident) if self.is_variable(ident) => refused("access to server variables is not allowed"),
            Expr::CompoundIdentifier(parts) if parts.iter().any(|ident| self.is_variable(ident)) => {
                refused("access to server variables is not allowed")
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pass() {
        let every = [
            "select 1",
            "select a, count(*) from t where b in (select c from u) group by a having count(*) > 1 order by 2 desc limit 5",
            "with x as (select 1 as i) select sum(i) over (partition by i) from x union all select 2",
            "select case when a then upper(b) else coalesce(c, 'x;y') end from t join u on t.id = u.id -- done",
        ];
        for kind in [Kind::Mysql, Kind::Sqlite, Kind::Duckdb, Kind::Bigquery] {
            for sql in every {
                assert_eq!(check(kind, None, sql), Ok(()), "{kind:?} {sql}");
            }
        }
        for sql in [
            "show tables",
            "describe orders",
            "show create table orders",
            "show columns from orders",
            "explain select 1",
            "select date_format(at, '%Y-%m'), group_concat(a separator ', ') from `orders` where at > now() - interval 1 day group by 1",
            "select json_extract(a, '$.b'), if(a > 1, 'x', 'y'), timestampdiff(day, a, b) from t # done",
        ] {
            assert_eq!(check(Kind::Mysql, None, sql), Ok(()), "{sql}");
        }
        for sql in [
            "explain query plan select 1",
            "select strftime('%Y', at), json_extract(a, '$.b') from t, json_each(a)",
            "values (1), (2)",
        ] {
            assert_eq!(check(Kind::Sqlite, None, sql), Ok(()), "{sql}");
        }
        for sql in [
            "from orders select item, count(*) group by all",
            "select * exclude (item), strftime(at, '%Y-%m'), list_transform([1, 2], x -> x + 1) from orders",
            "select unnest(tags), quantile_cont(total, 0.9), arg_max(item, total) from shop.orders group by 1",
            "select * from range(1, 10) t(i) join information_schema.tables on true where doc->>'$.a' = 'x'",
        ] {
            assert_eq!(check(Kind::Duckdb, None, sql), Ok(()), "{sql}");
        }
        for sql in [
            "select countif(a), safe_divide(1, 2), format_date('%Y', d) from `p.d.t` where _partitiontime > timestamp_sub(current_timestamp(), interval 1 day)",
            "select * from unnest([1, 2]) as x, t.items",
            "select net.host(url), safe.substr(a, 1) from d.t qualify row_number() over (partition by a) = 1",
        ] {
            assert_eq!(check(Kind::Bigquery, None, sql), Ok(()), "{sql}");
        }
    }

    #[test]
    fn a_chosen_database_is_judged_like_a_named_schema() {
        for database in ["mysql", "MySQL", "performance_schema", "sys"] {
            assert!(
                check(Kind::Mysql, Some(database), "select * from user").is_err(),
                "{database}"
            );
            assert!(check(Kind::Mysql, Some(database), "show tables").is_err(), "{database}");
            assert_eq!(
                check_database(Kind::Mysql, Some(database)),
                Err(not_shown(&database.to_ascii_lowercase()))
            );
            assert_eq!(check_database(Kind::Sqlite, Some(database)), Ok(()));
        }
        let information = Some("Information_Schema");
        assert!(check(Kind::Mysql, information, "select * from ProcessList").is_err());
        assert_eq!(check(Kind::Mysql, information, "select * from tables"), Ok(()));
        assert_eq!(check(Kind::Mysql, Some("shop"), "select * from processlist"), Ok(()));
        assert_eq!(
            check(Kind::Mysql, Some("shop"), "show columns from orders from shop"),
            Ok(())
        );
    }

    #[test]
    fn dropped_words_make_no_second_statement() {
        for kind in [Kind::Mysql, Kind::Sqlite, Kind::Duckdb, Kind::Bigquery] {
            for sql in [
                "table orders",
                "select 1 union all table orders ; commit",
                "insert into t select 1 union all table orders ; commit",
                "with x as (table orders ; commit) select 1",
                "select * from t where id in (table orders)",
            ] {
                assert!(check_single(kind, sql).is_err(), "{kind:?} {sql}");
                assert!(check(kind, None, sql).is_err(), "{kind:?} {sql}");
            }
        }
    }

    #[test]
    fn explain_runs_nothing_and_unlisted_clauses_do_not_pass() {
        for sql in [
            "explain analyze select 1",
            "explain delete from t",
            "explain insert into t values (1)",
        ] {
            assert_eq!(check(Kind::Mysql, None, sql), Err(READS_ONLY.to_owned()), "{sql}");
        }
        let piped = "select * from t |> where a > 1";
        assert!(check_single(Kind::Bigquery, piped).is_ok(), "the parser reads it");
        assert!(check(Kind::Bigquery, None, piped).is_err());
        assert_eq!(
            not_shown("sys"),
            "access to sys is not allowed: it contains more than the source's data"
        );
    }

    #[test]
    fn what_mysql_would_run_of_a_comment_is_seen() {
        assert!(
            check(
                Kind::Mysql,
                None,
                "select 1 /*!50000 union select load_file('/etc/passwd') */"
            )
            .is_err()
        );
        assert!(check(Kind::Mysql, None, "select 1 --1 union select load_file('/etc/passwd')").is_err());
        assert!(check(Kind::Mysql, None, r"select '\\' , load_file('/etc/passwd')").is_err());
        assert!(check(Kind::Mysql, None, "select 1 /* /* */ , sleep(5) /* */").is_err());
        assert!(check(Kind::Mysql, None, "select @a := 1").is_err());
    }
}
