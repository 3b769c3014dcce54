//! Statements that the guard of these dialects lets pass or refuses.

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
