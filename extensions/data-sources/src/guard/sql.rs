//! Guard for MySQL, SQLite, DuckDB and BigQuery, by `sqlparser`. Called by `guard`.
//!
//! A foreign parser may interpret a statement differently from the server. Known differences are refused here (comments
//! that MySQL executes or takes for hints; `TABLE t`, of which the parser drops words); unknown ones are left to the
//! servers' protections: SQLite's authorizer, MySQL's read-only transaction and single prepared statement, DuckDB's
//! safe mode, BigQuery's dry run.
//!
//! - `hidden` schemas, tables and functions that are not shown

mod hidden;

pub(super) use hidden::hides_sqlite;

use std::ops::ControlFlow;

use rejoin_integrations::data_sources::Kind;
use sqlparser::ast::{
    BinaryOperator, Expr, Ident, ObjectName, Query, Select, SetExpr, ShowStatementOptions, Statement, TableFactor,
    Visit, Visitor,
};
use sqlparser::dialect::{BigQueryDialect, Dialect, DuckDbDialect, MySqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;

use self::hidden::{HIDDEN, HIDDEN_INFORMATION, INFORMATION, hides_duckdb, opens_file};
use super::{ONE_STATEMENT, READS_ONLY, functions, refused_function};

/// Maximum nesting of expressions and queries.
const MAX_DEPTH: usize = 60;

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
mod tests;
