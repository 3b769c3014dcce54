//! Guard for PostgreSQL, by its own grammar (libpg_query). Called by `guard`.
//!
//! Invariant: an allow-list. Every node of the tree is visited as plain data: an unlisted kind is refused, including
//! those added by newer grammars.

use std::collections::BTreeSet;

use pg_query::ParserOptions;
use pg_query::protobuf::node::Node as Kind;
use serde_json::Value;

use super::{ONE_STATEMENT, READS_ONLY, functions, refused_function};

/// Nodes that only read, in any position.
const NODES: [&str; 42] = [
    "AArrayExpr",
    "AConst",
    "AExpr",
    "AIndices",
    "AIndirection",
    "AStar",
    "BitString",
    "BoolExpr",
    "Boolean",
    "BooleanTest",
    "CaseExpr",
    "CaseWhen",
    "CoalesceExpr",
    "CollateClause",
    "ColumnRef",
    "CommonTableExpr",
    "Float",
    "FuncCall",
    "GroupingFunc",
    "GroupingSet",
    "Integer",
    "JoinExpr",
    "List",
    "MinMaxExpr",
    "NamedArgExpr",
    "NullTest",
    "RangeFunction",
    "RangeSubselect",
    "RangeTableSample",
    "RangeVar",
    "ResTarget",
    "RowExpr",
    "SelectStmt",
    "SortBy",
    "SqlvalueFunction",
    "String",
    "SubLink",
    "TypeCast",
    "TypeName",
    "WindowDef",
    "WithClause",
    "Alias",
];
/// Catalogs that reveal credentials, other users' queries or values, or the server's files.
const HIDDEN: [&str; 26] = [
    "pg_authid",
    "pg_shadow",
    "pg_user_mapping",
    "pg_user_mappings",
    "pg_stat_activity",
    "pg_stat_replication",
    "pg_stat_ssl",
    "pg_stat_gssapi",
    "pg_stat_statements",
    "pg_stat_wal_receiver",
    "pg_largeobject",
    "pg_statistic",
    "pg_statistic_ext_data",
    "pg_file_settings",
    "pg_hba_file_rules",
    "pg_ident_file_mappings",
    "pg_subscription",
    "pg_foreign_server",
    "pg_foreign_data_wrapper",
    "pg_foreign_table",
    "pg_settings",
    "pg_config",
    "pg_db_role_setting",
    "pg_parameter_acl",
    "pg_backend_memory_contexts",
    "pg_shmem_allocations",
];
/// Views of information_schema that reveal options of foreign servers, including passwords.
const HIDDEN_INFORMATION: [&str; 9] = [
    "user_mapping_options",
    "foreign_server_options",
    "foreign_data_wrapper_options",
    "foreign_table_options",
    "column_options",
    "_pg_user_mappings",
    "_pg_foreign_servers",
    "_pg_foreign_data_wrappers",
    "_pg_foreign_tables",
];
/// The parameters allowed in SHOW. Not ALL, and no custom parameter: those may hold secrets.
const SHOWN: [&str; 20] = [
    "server_version",
    "server_version_num",
    "server_encoding",
    "client_encoding",
    "timezone",
    "datestyle",
    "intervalstyle",
    "search_path",
    "lc_collate",
    "lc_ctype",
    "lc_messages",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "default_text_search_config",
    "max_identifier_length",
    "integer_datetimes",
    "statement_timeout",
    "transaction_isolation",
    "transaction_read_only",
];
/// The allowed options of EXPLAIN. Not ANALYZE: it runs the statement.
const EXPLAIN: [&str; 6] = ["format", "costs", "verbose", "summary", "settings", "generic_plan"];

pub(super) fn check(sql: &str) -> Result<(), String> {
    match single(sql)? {
        Kind::SelectStmt(select) => walk(&plain(&*select)?),
        Kind::ExplainStmt(explain) => {
            for option in &explain.options {
                match &option.node {
                    Some(Kind::DefElem(element)) if EXPLAIN.contains(&element.defname.as_str()) => {}
                    Some(Kind::DefElem(element)) => {
                        return Err(format!("EXPLAIN with {} is not allowed", element.defname));
                    }
                    _ => return Err(READS_ONLY.to_owned()),
                }
            }
            match explain.query.and_then(|query| query.node) {
                Some(Kind::SelectStmt(select)) => walk(&plain(&*select)?),
                _ => Err(READS_ONLY.to_owned()),
            }
        }
        Kind::VariableShowStmt(show) if SHOWN.contains(&show.name.to_ascii_lowercase().as_str()) => Ok(()),
        Kind::VariableShowStmt(show) => Err(format!("SHOW {} is not allowed: it may reveal secrets", show.name)),
        _ => Err(READS_ONLY.to_owned()),
    }
}

pub(super) fn check_single(sql: &str) -> Result<bool, String> {
    let statement = single(sql)?;
    Ok(!matches!(
        statement,
        Kind::SelectStmt(_)
            | Kind::InsertStmt(_)
            | Kind::UpdateStmt(_)
            | Kind::DeleteStmt(_)
            | Kind::MergeStmt(_)
            | Kind::ExplainStmt(_)
    ))
}

fn single(sql: &str) -> Result<Kind, String> {
    let parsed =
        pg_query::parse(sql, ParserOptions::DEFAULT).map_err(|error| format!("the query cannot be parsed: {error}"))?;
    let mut statements = parsed.protobuf.stmts.into_iter();
    let first = statements
        .next()
        .and_then(|raw| raw.stmt)
        .and_then(|statement| statement.node);
    match (first, statements.next()) {
        (Some(first), None) => Ok(first),
        (Some(_), Some(_)) => Err(ONE_STATEMENT.to_owned()),
        (None, _) => Err("the query is empty".to_owned()),
    }
}

fn plain(tree: &impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(tree).map_err(|error| format!("the query cannot be parsed: {error}"))
}

/// Checks every node below.
fn walk(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Object(node)) = fields.get("node") {
                for kind in node.keys() {
                    // The expression of a sort is in a field of this name.
                    if kind != "node" && !NODES.contains(&kind.as_str()) {
                        return Err(format!("{kind} is not allowed on a read-only source"));
                    }
                }
            }
            if fields.get("into_clause").is_some_and(|into| !into.is_null()) {
                return Err("SELECT INTO creates a table; this source is read-only".to_owned());
            }
            if fields
                .get("locking_clause")
                .and_then(Value::as_array)
                .is_some_and(|locks| !locks.is_empty())
            {
                return Err("SELECT FOR UPDATE or SHARE locks rows; this source is read-only".to_owned());
            }
            if let Some(name) = fields.get("funcname") {
                check_function(name)?;
            }
            if let (Some(schema), Some(table)) = (text(fields.get("schemaname")), text(fields.get("relname"))) {
                check_table(schema, table)?;
            }
            if fields.contains_key("method") && fields.contains_key("repeatable") {
                let method = names(&fields["method"]);
                if !matches!(method.as_slice(), ["bernoulli"] | ["system"]) {
                    return Err(format!("TABLESAMPLE {} is not allowed", method.join(".")));
                }
            }
            // `OPERATOR(schema.+)` calls an operator of that schema.
            for operator in operators(fields) {
                if !matches!(names(operator).as_slice(), [] | [_] | ["pg_catalog", _]) {
                    return Err("operators qualified with a schema are not allowed".to_owned());
                }
            }
            fields.values().try_for_each(walk)
        }
        Value::Array(items) => items.iter().try_for_each(walk),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Returns the names of operators in a node: of an expression, of `… operator(…) any (select …)`, of
/// `order by … using …`.
fn operators(fields: &serde_json::Map<String, Value>) -> impl Iterator<Item = &Value> {
    let expression = fields.get("name").filter(|_| fields.contains_key("lexpr"));
    [expression, fields.get("oper_name"), fields.get("use_op")]
        .into_iter()
        .flatten()
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str)
}

/// Returns the parts of a qualified name.
fn names(list: &Value) -> Vec<&str> {
    let parts = list.as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(name).collect()
}

fn check_function(name: &Value) -> Result<(), String> {
    let parts = names(name);
    let allowed = match parts.as_slice() {
        [name] | ["pg_catalog", name] => functions::postgresql(name),
        _ => false,
    };
    if allowed {
        Ok(())
    } else {
        Err(refused_function(&parts.join(".")))
    }
}

fn check_table(schema: &str, table: &str) -> Result<(), String> {
    let is_hidden = match schema {
        "pg_catalog" => HIDDEN.contains(&table) || table.starts_with("pg_toast"),
        "information_schema" => HIDDEN_INFORMATION.contains(&table),
        "pg_toast" => true,
        // Resolved by the role's search_path, which may include either schema.
        "" => HIDDEN.contains(&table) || HIDDEN_INFORMATION.contains(&table) || table.starts_with("pg_toast"),
        _ => false,
    };
    if is_hidden {
        Err(format!(
            "access to {table} is not allowed: it contains more than the source's data"
        ))
    } else {
        Ok(())
    }
}

/// A statement's names that only the server can resolve.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    /// Names after a dot: a column, or a function called with the row before the dot.
    pub(crate) fields: BTreeSet<String>,
    /// Functions without a schema.
    pub(crate) functions: BTreeSet<String>,
    /// Operators without a schema, including keyword operators.
    pub(crate) operators: BTreeSet<String>,
    /// Types, quoted as the server parses them.
    pub(crate) types: BTreeSet<String>,
}

/// Collects the names of one statement. Other texts have none: `check` and the server reject them.
pub(crate) fn named(sql: &str) -> Named {
    let mut found = Named::default();
    if let Ok(statement) = single(sql)
        && let Ok(tree) = plain(&statement)
    {
        collect(&tree, &mut found);
    }
    found
}

/// Collects every name below, in any node.
fn collect(value: &Value, found: &mut Named) {
    match value {
        Value::Object(fields) => {
            // ColumnRef: `a.b`. `a` alone is never a function.
            if let Some(parts) = fields.get("fields") {
                let last = parts
                    .as_array()
                    .filter(|parts| parts.len() > 1)
                    .and_then(|parts| parts.last());
                found.fields.extend(last.and_then(name).map(str::to_owned));
            }
            // AIndirection: `(a).b`.
            if let Some(parts) = fields.get("indirection") {
                found.fields.extend(names(parts).into_iter().map(str::to_owned));
            }
            if let Some([name]) = fields.get("funcname").map(names).as_deref() {
                found.functions.insert((*name).to_owned());
                // `text(row)` is a cast.
                found.types.insert(quoted(&[*name]));
            }
            if let Some(parts) = fields.get("names").map(names).filter(|parts| !parts.is_empty()) {
                found.types.insert(quoted(&parts));
            }
            for operator in operators(fields) {
                match names(operator).as_slice() {
                    ["BETWEEN" | "NOT BETWEEN" | "BETWEEN SYMMETRIC" | "NOT BETWEEN SYMMETRIC"] => {
                        found.operators.extend(["<", "<=", ">", ">="].map(str::to_owned));
                    }
                    [name] => {
                        found.operators.insert((*name).to_owned());
                    }
                    _ => {}
                }
            }
            // CASE … WHEN, and JOIN … USING, compare by `=`.
            let compares = fields.contains_key("defresult") && fields.get("arg").is_some_and(|arg| !arg.is_null())
                || fields.contains_key("using_clause")
                || fields.contains_key("sub_link_type");
            if compares {
                found.operators.insert("=".to_owned());
            }
            fields.values().for_each(|value| collect(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the name of a list's part; `*` has none.
fn name(part: &Value) -> Option<&str> {
    part["node"]["String"]["sval"].as_str()
}

fn quoted(parts: &[&str]) -> String {
    let part = |part: &&str| format!("\"{}\"", part.replace('"', "\"\""));
    parts.iter().map(part).collect::<Vec<_>>().join(".")
}

/// Returns whether a function may be called by its unqualified name, in lower case.
pub(crate) fn allows(function: &str) -> bool {
    functions::postgresql(function)
}

#[cfg(test)]
mod tests;
