//! Resolves a query's names on the server before it runs: whether `row.name` calls a function, and whether an
//! allow-listed name means another function in this database. Called by `postgresql`.
//!
//! Invariant: a reading query runs no function of the database's own, except through its views and extensions.

use tokio_postgres::Client;

use crate::guard::postgresql::{allows, named};
use crate::source::SourceError;

/// Returns the first refused name: its kind, and what it resolves to.
///
/// Functions of extensions are judged by the guard's list alone, which includes those of PostGIS and others. Visibility
/// is determined by the search path, as for the query's own names.
const LOOKUP: &str = "
    with
    -- Functions that can be called with one row: `row.f`.
    of_row as (
        select p.proname::text as name
        from pg_catalog.pg_proc p
        join pg_catalog.pg_type t on t.oid = case when p.provariadic <> 0 then p.provariadic else p.proargtypes[0] end
        left join pg_catalog.pg_type base on base.oid = t.typbasetype
        where p.proname = any ($1::text[]::name[])
          and p.pronargs - p.pronargdefaults <= 1
          and pg_catalog.pg_function_is_visible(p.oid)
          and (t.typtype = 'c' or base.typtype = 'c'
               or t.typname in ('record', 'any', 'anyelement', 'anynonarray', 'anycompatible', 'anycompatiblenonarray')
               or exists (select from pg_catalog.pg_cast c join pg_catalog.pg_type s on s.oid = c.castsource
                          where c.casttarget = t.oid and s.typtype = 'c'))
    ),
    -- What the query's names could mean besides what PostgreSQL itself and its extensions have.
    own_function as (
        select p.proname::text as name
        from pg_catalog.pg_proc p
        where p.proname = any ($2::text[]::name[]) and p.pronamespace <> 'pg_catalog'::regnamespace
          and pg_catalog.pg_function_is_visible(p.oid)
          and not exists (select from pg_catalog.pg_depend e
                          where e.classid = 'pg_catalog.pg_proc'::regclass and e.objid = p.oid and e.deptype = 'e')
    ),
    own_operator as (
        select o.oprname::text as name
        from pg_catalog.pg_operator o
        where o.oprname = any ($3::text[]::name[]) and o.oprnamespace <> 'pg_catalog'::regnamespace
          and pg_catalog.pg_operator_is_visible(o.oid)
          and not exists (select from pg_catalog.pg_depend e
                          where e.classid = 'pg_catalog.pg_operator'::regclass and e.objid = o.oid and e.deptype = 'e')
    ),
    -- Types of the query, what an array of them has in it, and the columns of those that are rows.
    asked_type as (
        select named.name, t.oid, t.typelem, t.typrelid
        from pg_catalog.unnest($4::text[]) as named (name)
        join pg_catalog.pg_type t on t.oid = pg_catalog.to_regtype(named.name)
    ),
    parts as (
        select name, oid from asked_type
        union all select name, typelem from asked_type
        union all select a.name, c.atttypid from asked_type a join pg_catalog.pg_attribute c on c.attrelid = a.typrelid and c.attnum > 0
    ),
    -- A domain may check its values by a function, and a cast may be one.
    own_type as (
        select parts.name
        from parts join pg_catalog.pg_type t on t.oid = parts.oid
        where t.typtype = 'd' and t.typnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
          and not exists (select from pg_catalog.pg_depend e
                          where e.classid = 'pg_catalog.pg_type'::regclass and e.objid = t.oid and e.deptype = 'e')
        union all
        select a.name
        from asked_type a
        join pg_catalog.pg_cast c on c.casttarget = a.oid
        join pg_catalog.pg_proc p on p.oid = c.castfunc
        where p.pronamespace <> 'pg_catalog'::regnamespace
          and not exists (select from pg_catalog.pg_depend e
                          where e.classid = 'pg_catalog.pg_proc'::regclass and e.objid = p.oid and e.deptype = 'e')
    ),
    found as (
        select 'field' as what, name from of_row
        union all select 'function', name from own_function
        union all select 'operator', name from own_operator
        union all select 'type', name from own_type
    )
    select what, name from found order by what, name limit 1";

/// Refuses a query that would call a function of the database's own.
pub(super) async fn check(client: &Client, query: &str) -> Result<Result<(), SourceError>, tokio_postgres::Error> {
    let names = named(query);
    let fields: Vec<&String> = names.fields.iter().filter(|field| !allows(field)).collect();
    // A listed name is judged as a call: `row.lower` is `lower(row)`.
    let functions: Vec<&String> = names
        .functions
        .iter()
        .chain(names.fields.iter().filter(|field| allows(field)))
        .collect();
    let operators: Vec<&String> = names.operators.iter().collect();
    let types: Vec<&String> = names.types.iter().collect();
    if fields.is_empty() && functions.is_empty() && operators.is_empty() && types.is_empty() {
        return Ok(Ok(()));
    }
    let found = client
        .query_opt(LOOKUP, &[&fields, &functions, &operators, &types])
        .await?;
    let Some(row) = found else { return Ok(Ok(())) };
    let (what, name): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Err(SourceError::Refused(match what.as_str() {
        "field" => format!(
            "{name} after a dot may call a user-defined function that takes a row, which is not allowed; write the \
            column without its table"
        ),
        "function" => format!(
            "{name} is also a user-defined function of this database, which is not allowed on a read-only source; \
            write pg_catalog.{name}"
        ),
        "operator" => format!(
            "{name} is also a user-defined operator of this database, which is not allowed on a read-only source; \
            write operator(pg_catalog.{name})"
        ),
        _ => format!("a cast to {name} calls a user-defined function, which is not allowed on a read-only source"),
    })))
}
