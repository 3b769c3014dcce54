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
mod tests {
    use super::*;

    #[test]
    fn what_the_server_is_to_look_up_is_found_wherever_it_stands() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        for sql in [
            "select o.archive from orders o",
            "select (o).archive from orders o",
            "select (select o from orders o limit 1).archive",
            "select s.o.archive from s.o",
            "select 1 from orders o where exists (select (row(o.*)).archive)",
            "with x as (select o.archive from orders o) select 1 from x",
            "select sum(1) over (partition by o.archive) from orders o",
            "explain select o.archive from orders o",
            "select 1 from orders o order by o.archive",
            "select 1 from orders o, lateral (select (o).archive) q",
        ] {
            assert!(named(sql).fields.contains("archive"), "{sql}: {:?}", named(sql));
        }
        assert_eq!(named("select archive, * from orders").fields, set(&[]));
        let all = named(
            "select lower(a)::shop.state, pg_catalog.upper(b) from t where a between 1 and 2 order by a using <<< ",
        );
        assert_eq!(all.functions, set(&["lower"]));
        assert_eq!(all.types, set(&["\"lower\"", "\"shop\".\"state\""]));
        assert_eq!(all.operators, set(&["<", "<<<", "<=", ">", ">="]));
        assert!(named("select case a when 1 then 2 end from t").operators.contains("="));
        assert!(named("select 1 from t join u using (a)").operators.contains("="));
        assert!(
            named("select a ~~~ any (select b from u) from t")
                .operators
                .contains("~~~")
        );
        assert_eq!(named("select 1; select o.archive from orders o"), Named::default());
    }

    #[test]
    fn show_tells_what_is_on_its_list() {
        assert_eq!(check("show timezone"), Ok(()));
        assert_eq!(check("SHOW Server_Version"), Ok(()));
        for sql in [
            "show all",
            "show app.jwt_secret",
            "show data_directory",
            "show hba_file",
        ] {
            assert!(check(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn explain_runs_nothing_and_refusals_name_what_they_refuse() {
        for sql in [
            "explain analyze select 1",
            "explain (analyze) select 1",
            "explain (analyze false) select 1",
        ] {
            assert_eq!(
                check(sql),
                Err("EXPLAIN with analyze is not allowed".to_owned()),
                "{sql}"
            );
        }
        assert_eq!(check("explain delete from t"), Err(READS_ONLY.to_owned()));
        let all = check("show data_directory").expect_err("it is the server's");
        assert_eq!(all, "SHOW data_directory is not allowed: it may reveal secrets");
        let toast = check("select * from pg_toast.pg_toast_1").expect_err("it is other tables' rows");
        assert_eq!(
            toast,
            "access to pg_toast_1 is not allowed: it contains more than the source's data"
        );
        assert!(check("select * from pg_toast.anything").is_err());
        assert!(allows("lower") && !allows("pg_sleep") && !allows("LOWER"));
    }

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
