//! Statements that the PostgreSQL guard lets pass or refuses.

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
    let all =
        named("select lower(a)::shop.state, pg_catalog.upper(b) from t where a between 1 and 2 order by a using <<< ");
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
fn show_prints_what_is_on_its_list() {
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
