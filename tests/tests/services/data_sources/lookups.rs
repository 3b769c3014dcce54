//! What the guard can't judge by a query's text: names that resolve differently in this database, and schemas selected
//! by the query's database. Over real PostgreSQL and MariaDB.

use rejoin_data_sources::{Ask, Opened, SourceError, Sources};
use rejoin_integrations::data_sources::{Kind, Settings};
use rejoin_tests::sources::{self, MariaDb};
use rejoin_tests::support;
use serde_json::json;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

/// A function that reads a file with its owner's rights, and everything that calls it without naming it.
const SETUP: &str = "
    create function shop.archive(shop.orders) returns text language sql security definer as $$ select pg_read_file('PG_VERSION') $$;
    create function shop.archive_all(variadic shop.orders[]) returns text language sql security definer as $$ select pg_read_file('PG_VERSION') $$;
    create function shop.archive_more(shop.orders, int default 1) returns text language sql security definer as $$ select pg_read_file('PG_VERSION') $$;
    create function shop.archive_any(anyelement) returns text language sql security definer as $$ select pg_read_file('PG_VERSION') $$;
    create function shop.lower(shop.orders) returns text language sql security definer as $$ select pg_read_file('PG_VERSION') $$;
    create function shop.total(shop.orders) returns int language sql as $$ select 1 $$;
    create schema ev;
    create function ev.same(int, int) returns boolean language sql security definer as $$ select pg_read_file('PG_VERSION') is not null $$;
    create operator ev.= (leftarg = int, rightarg = int, function = ev.same);
    create operator shop.=== (leftarg = int, rightarg = int, function = ev.same);
    create function ev.checks(text) returns boolean language sql security definer as $$ select pg_read_file('PG_VERSION') is not null $$;
    create domain shop.code as text check (ev.checks(value));
    create type shop.pair as (a int, b shop.code);
    create type shop.state as enum ('open', 'done');
    create function ev.as_text(shop.orders) returns text language sql security definer as $$ select pg_read_file('PG_VERSION') $$;
    create table shop.totals (id int, total int, state shop.state);
    insert into shop.totals values (1, 7, 'open');
    grant select on shop.totals to public;
    grant usage on schema ev to public;";

async fn shop() -> (support::TestDatabase, Opened) {
    let db = support::database().await;
    let settings = sources::postgresql(&db).await;
    sqlx::raw_sql(AssertSqlSafe(SETUP)).execute(&db.pool).await.unwrap();
    let opened = Sources::new(&sources::args(), None).opened(
        Uuid::now_v7(),
        &sources::content(Kind::Postgresql, settings),
        None,
    );
    (db, opened.unwrap())
}

#[tokio::test]
async fn calls_of_user_defined_functions_are_refused_before_running() {
    let (_db, opened) = shop().await;
    let mut passed = Vec::new();
    for query in [
        "select o.archive from orders o",
        "select (o).archive from orders o",
        "select (select o from orders o limit 1).archive",
        "select (array_agg(o))[1].archive from orders o",
        "select ((array_agg(o))[1]).archive from orders o",
        "select shop.orders.archive from shop.orders",
        "select (row(o.*)::orders).archive from orders o",
        "select 1 from orders o where o.archive is not null",
        "select 1 from orders o order by o.archive",
        "select count(*) over (partition by o.archive) from orders o",
        "with x as (select o.archive from orders o) select * from x",
        "select q.* from orders o, lateral (select o.archive) q",
        "select case when o.archive = '' then 1 end from orders o",
        "select o.archive_all from orders o",
        "select o.archive_more from orders o",
        "select o.archive_any from orders o",
        "select o.total from orders o",
        "select o.lower from orders o",
        "select lower(o) from orders o",
        "select 1 operator(ev.=) any (select 1)",
        "select 1 operator(ev.=) all (select 1)",
        "select id from orders order by id using operator(ev.=)",
        "select 1 === 1",
        "select 1 === any (select 1)",
        "select id from orders where id === any (array[1])",
        "select 'x'::code",
        "select 'x'::shop.code",
        "select '{x}'::shop.code[]",
        "select '{x}'::shop._code",
        "select cast('x' as code)",
        "select (1, 'x')::pair",
        "select code 'x'",
        "select code('x')",
    ] {
        let ask = Ask::reading(None, query);
        for (how, told) in [
            ("asked", opened.query(ask).await.map(|_| ())),
            ("explained", opened.explain(ask).await.map(|_| ())),
        ] {
            if !matches!(told, Err(SourceError::Refused(_))) {
                passed.push(format!("{how}: {query}: {told:?}"));
            }
        }
    }
    assert!(passed.is_empty(), "{passed:#?}");
}

#[tokio::test]
async fn a_cast_by_a_function_of_the_databases_own_is_refused() {
    let (db, opened) = shop().await;
    let before = opened
        .query(Ask::reading(None, "select id::text from orders limit 1"))
        .await;
    assert_eq!(before.unwrap().rows.rows, [[json!("1")]]);
    sqlx::raw_sql("create cast (shop.orders as text) with function ev.as_text(shop.orders)")
        .execute(&db.pool)
        .await
        .unwrap();
    for query in ["select o::text from orders o", "select text(o) from orders o"] {
        let told = opened.query(Ask::reading(None, query)).await;
        assert!(matches!(told, Err(SourceError::Refused(_))), "{query}: {told:?}");
    }
}

#[tokio::test]
async fn reads_pass_and_a_refused_name_says_how_to_write_it() {
    let (_db, opened) = shop().await;
    for (query, row) in [
        (
            "select o.id, o.item from orders o where o.id = 3",
            json!([3, "thing 3"]),
        ),
        ("select shop.orders.id from shop.orders where id = 3", json!([3])),
        (
            "select q.count, q.max from (select count(*), max(id) from orders) q",
            json!([500, 500]),
        ),
        ("select total from totals", json!([7])),
        ("select state from totals where state = 'open'::state", json!(["open"])),
        (
            "select pg_catalog.lower(o.item) from orders o where o.id = 3",
            json!(["thing 3"]),
        ),
        (
            "select upper(o.item) from orders o where o.id between 3 and 3",
            json!(["THING 3"]),
        ),
        ("select 1 operator(pg_catalog.=) 1", json!([true])),
        (
            "select case o.id when 3 then 'x' end from orders o where o.id in (select 3)",
            json!(["x"]),
        ),
        ("select (o).id from orders o where (o).id = 3", json!([3])),
        (
            "select to_json(o) ->> 'item' from orders o where o.id = 3",
            json!(["thing 3"]),
        ),
        (
            "select x.id from orders x join orders y using (id) where id = 3",
            json!([3]),
        ),
        (
            "select c.relname::text from pg_class c where c.relname = 'totals'",
            json!(["totals"]),
        ),
    ] {
        let answer = opened.query(Ask::reading(None, query)).await;
        assert_eq!(
            json!(answer.map_err(|error| format!("{query}: {error}")).unwrap().rows.rows[0]),
            row,
            "{query}"
        );
    }
    for (query, words) in [
        ("select t.total from totals t", "write the column without its table"),
        ("select lower(item) from orders", "write pg_catalog.lower"),
        ("select 1 === 1", "write operator(pg_catalog.===)"),
        ("select 'x'::code", "a cast to \"code\" calls a user-defined function"),
    ] {
        let refused = opened.query(Ask::reading(None, query)).await.unwrap_err();
        assert!(refused.to_string().contains(words), "{query}: {refused}");
    }
}

#[tokio::test]
async fn a_hidden_schema_of_mariadb_is_not_asked_whatever_names_it() {
    let Some(server) = MariaDb::start().await else { return };
    assert!(server.sql("grant select on *.* to reader@localhost").await);
    let opened = |settings: Settings| {
        Sources::new(&sources::args(), None)
            .opened(Uuid::now_v7(), &sources::content(Kind::Mysql, settings), None)
            .unwrap()
    };
    let shop = opened(server.settings());
    let hidden = opened(Settings {
        database: Some("mysql".to_owned()),
        ..server.settings()
    });
    let is_refused = |told: Result<(), SourceError>, what: &str| {
        assert!(matches!(told, Err(SourceError::Refused(_))), "{what}: {told:?}");
    };
    for query in [
        "select * from user",
        "select * from global_priv",
        "select 1",
        "show tables",
    ] {
        for database in ["mysql", "performance_schema", "sys"] {
            let ask = Ask::reading(Some(database), query);
            is_refused(shop.query(ask).await.map(|_| ()), query);
            is_refused(shop.explain(ask).await.map(|_| ()), query);
        }
        is_refused(hidden.query(Ask::reading(None, query)).await.map(|_| ()), query);
    }
    is_refused(shop.tables(Some("mysql")).await.map(|_| ()), "tables");
    is_refused(shop.schema(Some("mysql"), "user").await.map(|_| ()), "schema");
    is_refused(hidden.tables(None).await.map(|_| ()), "tables of its own");
    is_refused(
        shop.query(Ask::reading(Some("information_schema"), "select * from processlist"))
            .await
            .map(|_| ()),
        "processlist",
    );
    let answer = shop.query(Ask::reading(
        Some("information_schema"),
        "select table_name from tables where table_schema = 'shop'",
    ));
    assert_eq!(answer.await.unwrap().rows.rows, [[json!("orders")]]);
    let answer = hidden
        .query(Ask::reading(Some("shop"), "select max(id) from orders"))
        .await;
    assert_eq!(answer.unwrap().rows.rows, [[json!(500)]]);
    for shown in [
        "show create table orders",
        "show columns from orders",
        "describe orders",
        "show tables from shop",
    ] {
        let answer = shop.query(Ask::reading(None, shown)).await.unwrap();
        assert!(!answer.rows.rows.is_empty(), "{shown}");
    }
}
