//! PostgreSQL's statements, by its own grammar (libpg_query). Called by `guard`.
//!
//! Invariant: it is a list of what passes. The tree is walked as plain data, every node of it: a kind that is not named here is refused,
//! also one that a newer grammar adds.

use pg_query::protobuf::node::Node as Kind;
use serde_json::Value;

use super::{ONE_STATEMENT, READS_ONLY, functions, refused_function};

/// Nodes that only read, wherever they are.
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
/// Catalogs that show credentials, other people's queries or values, or the server's files.
const HIDDEN: [&str; 19] = [
    "pg_authid",
    "pg_shadow",
    "pg_user_mapping",
    "pg_user_mappings",
    "pg_stat_activity",
    "pg_stat_replication",
    "pg_stat_ssl",
    "pg_stat_gssapi",
    "pg_stat_statements",
    "pg_largeobject",
    "pg_statistic",
    "pg_statistic_ext_data",
    "pg_file_settings",
    "pg_hba_file_rules",
    "pg_ident_file_mappings",
    "pg_subscription",
    "pg_foreign_server",
    "pg_backend_memory_contexts",
    "pg_shmem_allocations",
];
/// What EXPLAIN may be told. Not ANALYZE: it runs the statement.
const EXPLAIN: [&str; 6] = ["format", "costs", "verbose", "summary", "settings", "generic_plan"];

pub(super) fn check(sql: &str) -> Result<(), String> {
    match single(sql)? {
        Kind::SelectStmt(select) => walk(&plain(&*select)?),
        Kind::ExplainStmt(explain) => {
            for option in &explain.options {
                match &option.node {
                    Some(Kind::DefElem(element)) if EXPLAIN.contains(&element.defname.as_str()) => {}
                    Some(Kind::DefElem(element)) => {
                        return Err(format!("EXPLAIN with {} does not pass", element.defname));
                    }
                    _ => return Err(READS_ONLY.to_owned()),
                }
            }
            match explain.query.and_then(|query| query.node) {
                Some(Kind::SelectStmt(select)) => walk(&plain(&*select)?),
                _ => Err(READS_ONLY.to_owned()),
            }
        }
        Kind::VariableShowStmt(_) => Ok(()),
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
    let parsed = pg_query::parse(sql).map_err(|error| format!("the query can't be read: {error}"))?;
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
    serde_json::to_value(tree).map_err(|error| format!("the query can't be read: {error}"))
}

/// Every node below, whatever it is.
fn walk(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Object(node)) = fields.get("node") {
                for kind in node.keys() {
                    // What is sorted by is a field of this name: the node is in it.
                    if kind != "node" && !NODES.contains(&kind.as_str()) {
                        return Err(format!("{kind} is nothing that a read-only source may be asked"));
                    }
                }
            }
            if fields.get("into_clause").is_some_and(|into| !into.is_null()) {
                return Err("SELECT INTO makes a table: this source is read-only".to_owned());
            }
            if fields
                .get("locking_clause")
                .and_then(Value::as_array)
                .is_some_and(|locks| !locks.is_empty())
            {
                return Err("SELECT FOR UPDATE or SHARE locks rows: this source is read-only".to_owned());
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
                    return Err(format!("TABLESAMPLE {} does not pass", method.join(".")));
                }
            }
            // Of an expression: `OPERATOR(schema.+)` calls whatever that schema has.
            if fields.contains_key("lexpr")
                && !matches!(names(&fields["name"]).as_slice(), [] | [_] | ["pg_catalog", _])
            {
                return Err("an operator of another schema does not pass".to_owned());
            }
            fields.values().try_for_each(walk)
        }
        Value::Array(items) => items.iter().try_for_each(walk),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str)
}

/// The parts of a qualified name.
fn names(list: &Value) -> Vec<&str> {
    let parts = list.as_array().map(Vec::as_slice).unwrap_or_default();
    parts
        .iter()
        .filter_map(|part| part["node"]["String"]["sval"].as_str())
        .collect()
}

fn check_function(name: &Value) -> Result<(), String> {
    let parts = names(name);
    let allowed = match parts.as_slice() {
        [name] | ["pg_catalog", name] => functions::postgresql(name),
        _ => false,
    };
    match allowed {
        true => Ok(()),
        false => Err(refused_function(&parts.join("."))),
    }
}

fn check_table(schema: &str, table: &str) -> Result<(), String> {
    let is_catalog = matches!(schema, "" | "pg_catalog");
    match is_catalog && (HIDDEN.contains(&table) || table.starts_with("pg_toast")) || schema == "pg_toast" {
        true => Err(format!(
            "{table} is not shown: it holds more than the source's own data"
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pass() {
        for sql in [
            "select 1",
            "values (1), (2)",
            "table orders",
            "select *, count(*) over (partition by a order by b) from t x join lateral (select 1) y on true where a in (select b from c)",
            "with recursive n as (select 1 as i union all select i + 1 from n where i < 10) select sum(i) from n",
            "select date_trunc('month', at)::date, extract(year from at), coalesce(a, 'x') || upper(b), position('a' in b) from t group by 1, 2, 3, 4",
            "select percentile_cont(0.5) within group (order by x) filter (where y) from t tablesample bernoulli (10)",
            "select case when a then b else c end, (array[1, 2])[1], (row(1, 2)), a is not null, greatest(1, 2), current_date, interval '1 day' from t",
            "select jsonb_path_query(a, '$.b'), a -> 'b' ->> 'c', a @> '{}'::jsonb from t, generate_series(1, 3) g, unnest(array[1]) u",
            "select * from pg_catalog.pg_class c join information_schema.columns i on i.table_name = c.relname order by 1 limit 5 offset 2",
            "explain (format json, verbose) select * from t",
            "explain select 1",
            "show server_version",
            "select a from t group by grouping sets ((a), ()) having grouping(a) = 0; -- done",
        ] {
            assert_eq!(check(sql), Ok(()), "{sql}");
        }
    }
}
